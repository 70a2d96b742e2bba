// The program of the C++ runner: one run, which is runner.cpp's, or with --batch several artifacts timed in one process,
// one after the other. The same file, events and kinds of errors as runner/batch.py, which says what they mean.
//
// runner.cpp and what it includes keep their bytes: their hash is the runner's version in job keys, of runs alone. So
// what a batch needs stands in files of its own, and the part of `run` that is done for each item is repeated here.
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#ifndef EDGESWEEP_WITHOUT_FULL
#include <torch/csrc/jit/runtime/graph_executor.h>
#endif
#include <signal.h>
#include <sys/time.h>

#include <cmath>
#include <iostream>
#include <optional>
#include <string>

#include "runner_arguments.h"
#include "runner_backend.h"
#include "runner_batch_file.h"
#include "runner_events.h"
#include "runner_listing.h"
#include "runner_load.h"
#include "runner_process.h"
#include "runner_run.h"
#include "runner_sha256.h"

// All headers are included above, so this renames runner.cpp's own function and nothing else.
#define main run_alone
#include "runner.cpp"
#undef main

namespace {

// Of what a batch does around the timing of an item: as REVISION of runner/batch.py.
constexpr int64_t kBatchRevision = 1;

struct BatchArguments {
  std::string file;
  double item_seconds = 0;
};

bool asks_for_batch(int argc, char** argv) {
  return std::any_of(argv + 1, argv + argc, [](const char* word) { return std::string(word) == "--batch"; });
}

BatchArguments batch_arguments(int argc, char** argv) {
  std::map<std::string, std::string> words;
  for (int at = 1; at < argc; at += 2) {
    const std::string name = argv[at];
    if (name != "--batch" && name != "--item-seconds") {
      bad_arguments("unrecognized argument: " + name);
    }
    if (at + 1 == argc) {
      bad_arguments("argument " + name + ": expected one argument");
    }
    if (!words.emplace(name, argv[at + 1]).second) {
      bad_arguments("argument " + name + ": given twice");
    }
  }
  constexpr double kMostSeconds = 1e6;
  const std::string option = "--item-seconds";
  if (words.count(option) == 0) {
    bad_arguments(option + " are missing");
  }
  return {words["--batch"], decimal_number(option, words[option], 1e-3, kMostSeconds)};
}

// Work on all threads for a moment, so that the first item finds the process as the others do. As _warm.
void warm() {
  constexpr int64_t kNanoseconds = 100'000'000;
  try {
    const c10::InferenceMode inference;
    const at::Tensor x = at::ones({1, 32, 56, 56}), weight = at::ones({32, 32, 3, 3});
    for (const int64_t ends = now_ns() + kNanoseconds; now_ns() < ends;) {
      at::relu(at::conv2d(x, weight));
    }
  } catch (const std::exception&) {
    // A libtorch with only the operators that somebody's models need: the items' own warm-up has to do.
  }
}

// The default action ends a process that hangs anywhere. 0 seconds: no more.
void end_after(double seconds) {
  signal(SIGALRM, SIG_DFL);
  sigset_t alarm;
  sigemptyset(&alarm);
  sigaddset(&alarm, SIGALRM);
  sigprocmask(SIG_UNBLOCK, &alarm, nullptr);
  itimerval timer{};
  timer.it_value.tv_sec = static_cast<time_t>(seconds);
  timer.it_value.tv_usec = static_cast<suseconds_t>(std::fmod(seconds, 1.0) * 1e6);
  setitimer(ITIMER_REAL, &timer, nullptr);
}

// Against `keep_memory`: the next item starts without the memory of this one.
void return_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

// As runner.cpp's main.
template <class Work>
int ended(const Report& report, const char* last, Work work) {
  try {
    work();
    report.tell(Event(last));
    return 0;
  } catch (const GiveUp& given) {
    report.tell(Event("error").with("kind", given.kind).with("message", given.message));
  } catch (const std::bad_alloc&) {
    const char* message = "the process may not allocate more memory";
    report.tell(Event("error").with("kind", "out_of_memory").with("message", message));
  } catch (const std::exception& error) {
    report.tell(Event("error").with("kind", "run_failed").with("message", last_words(told_by(error))));
  }
  return kErrorExit;
}

void begin_process(const Arguments& given) {
  pin(given.cpus);
  keep_memory();
  at::set_num_threads(given.threads);
  at::set_num_interop_threads(1);
#ifndef EDGESWEEP_WITHOUT_FULL
  torch::jit::setGraphExecutorOptimize(false);
#endif
}

void time_item(const Arguments& given, at::QEngine engine, const Report& report) {
  // An item that asks for no engine gets the process's own, not that of the item before.
  if (at::globalContext().qEngine() != engine) {
    at::globalContext().setQEngine(engine);
  }
  const std::string sha256 = sha256_of(*given.model);
  if (sha256.empty()) {
    throw GiveUp{"no_model", "there is no file " + *given.model};
  }
  report.tell(Event("artifact").with("sha256", sha256));
  report.tell(Event("start")
                  .with("runner", "native-torchscript")
                  .with("runner_version", EDGESWEEP_RUNNER_VERSION)
                  .with("torch", TORCH_VERSION)
                  .with("engines", engine_names())
                  .with("file_version_max", static_cast<int64_t>(caffe2::serialize::kMaxSupportedFileFormatVersion))
                  .with("bytecode_version_max", static_cast<int64_t>(caffe2::serialize::kMaxSupportedBytecodeVersion)));
  const Archive found = look(*given.model, given.backend);
  prepare(given.backend, given.reference);
  choose_engine(given.engine);
  const auto before = status_bytes("VmRSS");
  forget_peak();
  const Model model = load(*given.model, found, found.format);
  tell_load(report, model, before);
  {
    const c10::InferenceMode inference;
    try {
      measure(model, given, report);
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& error) {
      throw failure(given.backend, error);
    }
  }
  report.tell(Event("ran")
                  .with("backend", given.backend)
                  .with("reference", false)
                  .with("engine", given.engine == "none" ? "none" : engine_name(at::globalContext().qEngine()))
                  .with("threads", int64_t{at::get_num_threads()})
                  .with("cpus", cpus_now())
                  .with("rss_peak_bytes", peak_bytes()));
}

void run_batch(const BatchArguments& given, const Report& report) {
  const std::vector<Arguments> items = batch_items(given.file);
  begin_process(items.front());
  warm();
  const at::QEngine engine = at::globalContext().qEngine();
  report.tell(Event("batch").with("revision", kBatchRevision).with("items", static_cast<int64_t>(items.size())));
  for (size_t number = 0; number < items.size(); ++number) {
    report.tell(Event("item").with("number", static_cast<int64_t>(number)));
    end_after(given.item_seconds);
    ended(report, "end", [&] { time_item(items[number], engine, report); });
    return_memory();
  }
  end_after(0);
}

}  // namespace

int main(int argc, char** argv) {
  if (!asks_for_batch(argc, argv)) {
    return run_alone(argc, argv);
  }
  const Report report;
  const int exit_code = ended(report, "batch_end", [&] { run_batch(batch_arguments(argc, argv), report); });
  std::cout.flush();  // what the models printed
  std::_Exit(exit_code);
}
