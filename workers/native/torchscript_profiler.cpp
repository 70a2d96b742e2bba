// The profiler of PyTorch Mobile: the arguments of the C++ runner, and the time of each operator instead of that of the
// whole, as workers/runtimes/profiles.py reads it. A program of its own: the bytes of runner.cpp are in job keys.
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/record_function.h>
#include <c10/core/InferenceMode.h>
#ifndef EDGESWEEP_WITHOUT_FULL
#include <torch/csrc/jit/runtime/graph_executor.h>
#endif

#include <iostream>
#include <mutex>

#include "runner_arguments.h"
#include "runner_backend.h"
#include "runner_events.h"
#include "runner_listing.h"
#include "runner_load.h"
#include "runner_process.h"
#include "runner_run.h"

#ifndef EDGESWEEP_RUNNER_VERSION
#error "EDGESWEEP_RUNNER_VERSION is the hash of the sources: native_runner.profiler_version()"
#endif

namespace {

struct OperatorRun {
  std::string name;
  int64_t start_ns;
  int64_t ns;
};

// Of all threads. Outlives every callback.
std::mutex noting;
std::vector<OperatorRun> noted;

struct Begun : at::ObserverContext {
  int64_t start_ns = now_ns();
};

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction&) { return std::make_unique<Begun>(); }

void end(const at::RecordFunction& function, at::ObserverContext* context) {
  const int64_t start = static_cast<Begun*>(context)->start_ns;
  const int64_t ns = now_ns() - start;
  const std::lock_guard<std::mutex> held(noting);
  noted.push_back({function.name(), start, ns});
}

void profile(const Arguments& given, const Report& report) {
  pin(given.cpus);
  keep_memory();
  at::set_num_threads(given.threads);
  at::set_num_interop_threads(1);
#ifndef EDGESWEEP_WITHOUT_FULL
  torch::jit::setGraphExecutorOptimize(false);  // as in the runner
#endif
  report.tell(Event("start")
                  .with("runner", "native-torchscript-profiler")
                  .with("runner_version", EDGESWEEP_RUNNER_VERSION)
                  .with("torch", TORCH_VERSION));
  const Archive found = look(*given.model, given.backend);
  prepare(given.backend, given.reference);
  choose_engine(given.engine);
  const Model model = load(*given.model, found, found.format);
  const c10::InferenceMode inference;
  try {
    Timed timed(model, given, {as_given(at::rand(given.input_dims, at::detail::createCPUGenerator(0)), given)});
    timed.block(std::max<int64_t>(given.warmup, 1), 0, given.max_seconds);
    const auto handle = at::addGlobalCallback(at::RecordFunctionCallback(begin, end).scopes(
        {at::RecordScope::FUNCTION, at::RecordScope::TORCHSCRIPT_FUNCTION, at::RecordScope::LITE_INTERPRETER}));
    const std::vector<int64_t> taken = timed.block(given.iterations, 0, given.max_seconds);
    at::removeCallback(handle);
    report.tell(Event("profile").with("iteration_ns", taken));
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    throw failure(given.backend, error);
  }
  for (const OperatorRun& run : noted) {
    report.tell(Event("operator").with("name", run.name).with("where", "").with("start_ns", run.start_ns).with("ns", run.ns));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const Report report;
  int exit_code = kErrorExit;
  try {
    std::vector<char*> words;
    for (int at = 0; at < argc; ++at) {
      if (std::string(argv[at]) != "--profile") {
        words.push_back(argv[at]);
      }
    }
    profile(parse(static_cast<int>(words.size()), words.data()), report);
    report.tell(Event("end"));
    exit_code = 0;
  } catch (const GiveUp& given) {
    report.tell(Event("error").with("kind", given.kind).with("message", given.message));
  } catch (const std::bad_alloc&) {
    report.tell(Event("error").with("kind", "out_of_memory").with("message", "the process may not allocate more memory"));
  } catch (const std::exception& error) {
    report.tell(Event("error").with("kind", "run_failed").with("message", last_words(told_by(error))));
  }
  std::cout.flush();
  std::_Exit(exit_code);
}
