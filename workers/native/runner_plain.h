// What a runner of models with plain float arrays at their ends needs besides the model: timing, evaluation, batches.
// The same arguments, events, kinds of errors and exit codes as runner.cpp, which is that of PyTorch Mobile.
//
// A runtime says how it opens a model (`Toolchain`), and how a model runs (`PlainModel`).
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "runner_arguments.h"
#include "runner_batch_file.h"
#include "runner_events.h"
#include "runner_process.h"
#include "runner_sha256.h"

// The arguments that runner.cpp does not know: its bytes stay, since their hash is in job keys.
struct PlainArguments : Arguments {
  std::string sha256;
  std::string graph_optimization = "none";
  bool exact_int8 = false;
  bool profile = false;
  // How long a load, one inference or what is beyond a block's own bound may take before SIGALRM ends the process: a
  // damaged file may run for ever. 0: no limit of its own, as in a batch, whose items have one, and for a file whose hash
  // is known, which the harness gives the time that it needs.
  double patience = 0;
};

// An operator that ran once, as workers/runtimes/profiles.py reads it.
struct OperatorRun {
  std::string name;
  std::string where;
  int64_t start_ns;
  int64_t ns;
};

// A loaded model with one float input and one float output.
class PlainModel {
 public:
  virtual ~PlainModel() = default;
  // The input of all following runs, which stays where it is. Throws GiveUp.
  virtual void bind(const float* input, size_t count) = 0;
  virtual void forward() = 0;
  virtual const float* answer() const = 0;
  virtual const std::vector<int64_t>& answer_dims() const = 0;
};

class Toolchain {
 public:
  virtual ~Toolchain() = default;
  virtual const char* runner() const = 0;
  virtual const char* runner_version() const = 0;
  // Name and version of the runtime.
  virtual std::string version() const = 0;
  // What an app needs beside the model, in bytes.
  virtual int64_t library_bytes() const = 0;
  // Where the runtime can run operators.
  virtual std::vector<std::string> backends() const = 0;
  // All that must not count as load time. Throws GiveUp.
  virtual void prepare(const PlainArguments& given) = 0;
  virtual std::unique_ptr<PlainModel> load(const PlainArguments& given) = 0;
  // With --profile, before the iterations that count, and after them: what the runtime noted is told there.
  virtual void forget_profile() {}
  virtual void tell_profile(PlainModel& model, const std::vector<int64_t>& taken, const Report& report) = 0;
  // How many there are, once `load` is done.
  virtual int64_t threads(const PlainArguments& given) const { return given.threads; }
};

// A figure of a `metrics` event.
struct Megabytes {
  const char* name;
  int64_t bytes;
};

inline std::string json(const Megabytes& figure) {
  char number[32];
  std::snprintf(number, sizeof number, "%.6f", static_cast<double>(figure.bytes) / 1e6);
  return "{" + quoted(figure.name) + ": " + number + "}";
}

// Memory as a runtime likes it, zeroed as Android's ByteBuffer.allocateDirect.
class Buffer {
 public:
  explicit Buffer(size_t count) : count_(count) {
    void* memory = nullptr;
    if (posix_memalign(&memory, kAlignment, std::max<size_t>(count, 1) * sizeof(float)) != 0) {
      throw std::bad_alloc();
    }
    std::memset(memory, 0, count * sizeof(float));
    data_.reset(static_cast<float*>(memory));
  }

  float* data() const { return data_.get(); }
  size_t count() const { return count_; }

 private:
  struct Free {
    void operator()(float* memory) const { std::free(memory); }
  };
  static constexpr size_t kAlignment = 64;
  size_t count_;
  std::unique_ptr<float, Free> data_;
};

inline size_t count_of(const std::vector<int64_t>& dims) {
  uint64_t count = 1;
  for (const int64_t size : dims) {
    if (__builtin_mul_overflow(count, static_cast<uint64_t>(size), &count) || count > (uint64_t{1} << 40)) {
      throw GiveUp{"bad_arguments", "--input-dims are too many numbers for a memory"};
    }
  }
  return count;
}

// Nothing between the two readings of the clock but forward, and where the input is not reused its allocation.
class PlainTimed {
 public:
  PlainTimed(PlainModel& model, const PlainArguments& given)
      : model_(model), reuse_(given.reuse_input), data_(count_of(given.input_dims)), reused_(data_.count()) {
    std::mt19937 random(0);
    std::uniform_real_distribution<float> uniform(0.0F, 1.0F);
    std::generate(data_.data(), data_.data() + data_.count(), [&] { return uniform(random); });
    model_.bind(reused_.data(), reused_.count());
  }

  int64_t once() {
    int64_t allocation = 0;
    std::unique_ptr<Buffer> fresh;
    if (!reuse_) {
      const int64_t started = now_ns();
      fresh = std::make_unique<Buffer>(data_.count());
      model_.bind(fresh->data(), fresh->count());
      allocation = now_ns() - started;
    }
    std::memcpy((fresh ? fresh->data() : reused_.data()), data_.data(), data_.count() * sizeof(float));
    const int64_t started = now_ns();
    model_.forward();
    return now_ns() - started + allocation;
  }

  std::vector<int64_t> block(int64_t iterations, double min_seconds, double max_seconds) {
    std::vector<int64_t> taken;
    taken.reserve(static_cast<size_t>(std::min<int64_t>(iterations, 1 << 16)));
    const int64_t begin = now_ns();
    const int64_t least = begin + static_cast<int64_t>(min_seconds * 1e9);
    const int64_t most = begin + static_cast<int64_t>(max_seconds * 1e9);
    while (true) {
      const int64_t now = now_ns();
      const bool enough = static_cast<int64_t>(taken.size()) >= iterations && now >= least;
      if (enough || (!taken.empty() && now >= most)) {
        return taken;
      }
      taken.push_back(once());
    }
  }

 private:
  PlainModel& model_;
  const bool reuse_;
  const Buffer data_;
  const Buffer reused_;
};

// The default action ends a process that hangs anywhere. 0 seconds: no more.
inline void alarm_after(double seconds) {
  signal(SIGALRM, SIG_DFL);
  itimerval timer{};
  timer.it_value.tv_sec = static_cast<time_t>(seconds);
  timer.it_value.tv_usec = static_cast<suseconds_t>(std::fmod(seconds, 1.0) * 1e6);
  setitimer(ITIMER_REAL, &timer, nullptr);
}

inline void be_patient(const PlainArguments& given, double seconds = 0) {
  if (given.patience > 0) {
    alarm_after(given.patience + seconds);
  }
}

inline void tell_plain(const Report& report, const char* name, const std::vector<int64_t>& taken) {
  constexpr size_t kLineOfSamples = 10'000;
  for (size_t start = 0; start < taken.size(); start += kLineOfSamples) {
    const auto end = taken.begin() + static_cast<std::ptrdiff_t>(std::min(start + kLineOfSamples, taken.size()));
    report.tell(Event(name).with("ns", std::vector<int64_t>(taken.begin() + static_cast<std::ptrdiff_t>(start), end)));
  }
}

inline void measure_plain(PlainModel& model, const PlainArguments& given, const Report& report) {
  PlainTimed timed(model, given);
  be_patient(given);
  const int64_t first = timed.once();
  // A warm-up that is asked for in seconds gets them; one in iterations must not outlast the measurement.
  const double longest = std::max(given.max_seconds, given.warmup_seconds);
  std::vector<int64_t> warmup;
  be_patient(given, longest + given.max_seconds);
  if (given.warmup > 0 || given.warmup_seconds > 0) {
    warmup = timed.block(given.warmup, given.warmup_seconds, longest);
  }
  const std::vector<int64_t> samples = timed.block(given.iterations, given.min_seconds, given.max_seconds);
  report.tell(Event("first_inference").with("ns", first));
  tell_plain(report, "warmup", warmup);
  tell_plain(report, "sample", samples);
}

// The time of each operator. A run that is profiled is slower than others: no figure of it is a latency.
inline void profile_plain(Toolchain& toolchain, PlainModel& model, const PlainArguments& given, const Report& report) {
  PlainTimed timed(model, given);
  be_patient(given, 2 * given.max_seconds);
  timed.block(std::max<int64_t>(given.warmup, 1), 0, given.max_seconds);
  toolchain.forget_profile();
  const std::vector<int64_t> taken = timed.block(given.iterations, 0, given.max_seconds);
  toolchain.tell_profile(model, taken, report);
}

inline void tell_operators(const std::vector<OperatorRun>& runs, const Report& report) {
  for (const OperatorRun& run : runs) {
    report.tell(Event("operator").with("name", run.name).with("where", run.where).with("start_ns", run.start_ns).with(
        "ns", run.ns));
  }
}

// A file of little-endian floats, mapped until the process ends.
inline std::pair<const float*, int64_t> mapped_images(const std::string& path, size_t image) {
  const auto refuse = [&](const std::string& why) { throw GiveUp{"bad_eval_inputs", path + why}; };
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat status {};
  if (file < 0 || fstat(file, &status) != 0) {
    refuse(std::string(" can not be read: ") + std::strerror(errno));
  }
  const auto bytes = static_cast<uint64_t>(status.st_size);
  if (bytes == 0 || bytes % (image * sizeof(float)) != 0) {
    refuse(" does not hold whole images of " + std::to_string(image * sizeof(float)) + " bytes: " +
           std::to_string(bytes));
  }
  void* content = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file, 0);
  if (content == MAP_FAILED) {
    refuse(std::string(" can not be read: ") + std::strerror(errno));
  }
  close(file);
  return {static_cast<const float*>(content), static_cast<int64_t>(bytes / (image * sizeof(float)))};
}

inline void write_logits(const std::string& target, const std::vector<float>& content) {
  const std::string partial = target + ".partial";
  std::FILE* file = std::fopen(partial.c_str(), "wb");
  bool written = file != nullptr;
  written = written && std::fwrite(content.data(), sizeof(float), content.size(), file) == content.size();
  written = file != nullptr && std::fclose(file) == 0 && written;
  if (!written || std::rename(partial.c_str(), target.c_str()) != 0) {
    throw GiveUp{"eval_outputs_not_written", target + " can not be written: " + std::strerror(errno)};
  }
}

// The image, whose channels come first, in the layout that the model takes.
inline void place_image(float* target, const float* source, size_t count, const PlainArguments& given) {
  if (!given.channels_last) {
    std::memcpy(target, source, count * sizeof(float));
    return;
  }
  const auto channels = static_cast<size_t>(given.input_dims[1]);
  const size_t pixels = count / channels;
  for (size_t channel = 0; channel < channels; ++channel) {
    for (size_t pixel = 0; pixel < pixels; ++pixel) {
      target[pixel * channels + channel] = source[channel * pixels + pixel];
    }
  }
}

// All images in batches of --input-dims, the last one filled up with its last image.
inline void evaluate_plain(PlainModel& model, const PlainArguments& given, const Report& report) {
  const int64_t batch = given.input_dims.front();
  const size_t image = count_of(given.input_dims) / static_cast<size_t>(batch);
  const auto [images, count] = mapped_images(*given.eval_inputs, image);
  const std::vector<int64_t>& dims = model.answer_dims();
  if (dims.size() != 2 || dims.front() != batch) {
    throw GiveUp{"bad_output", "the model answers " + json(dims) + ", not [" + std::to_string(batch) + ", classes]"};
  }
  const int64_t classes = dims.back();
  const Buffer input(image * static_cast<size_t>(batch));
  model.bind(input.data(), input.count());
  std::vector<float> answers;
  int64_t first = 0;
  for (int64_t start = 0; start < count; start += batch) {
    const int64_t kept = std::min(batch, count - start);
    for (int64_t at = 0; at < batch; ++at) {
      const float* source = images + static_cast<size_t>(start + std::min(at, kept - 1)) * image;
      place_image(input.data() + static_cast<size_t>(at) * image, source, image, given);
    }
    be_patient(given);
    const int64_t started = now_ns();
    model.forward();
    first = first == 0 ? now_ns() - started : first;
    answers.insert(answers.end(), model.answer(), model.answer() + kept * classes);
  }
  write_logits(*given.eval_outputs, answers);
  report.tell(Event("first_inference").with("ns", first));
  report.tell(Event("eval").with("images", count).with("classes", classes));
}

// Own options are taken out first; the others are runner.cpp's.
inline PlainArguments plain_arguments(std::vector<std::string> words, const std::set<std::string>& backends) {
  PlainArguments own;
  std::string backend = "cpu";
  std::vector<std::string> others = {"runner"};
  for (size_t at = 0; at < words.size(); ++at) {
    const std::string& name = words[at];
    std::string* value = name == "--sha256"               ? &own.sha256
                         : name == "--graph-optimization" ? &own.graph_optimization
                         : name == "--backend"            ? &backend
                                                          : nullptr;
    if (name == "--exact-int8" || name == "--profile") {
      (name == "--profile" ? own.profile : own.exact_int8) = true;
    } else if (value == nullptr) {
      others.push_back(name);
    } else if (at + 1 == words.size()) {
      bad_arguments("argument " + name + ": expected one argument");
    } else {
      *value = words[++at];
    }
  }
  std::vector<char*> argv;
  for (std::string& word : others) {
    argv.push_back(word.data());
  }
  static_cast<Arguments&>(own) = parse(static_cast<int>(argv.size()), argv.data());
  own.backend = one_of("--backend", backend, backends);
  if (own.quantized || own.bundled_input || own.reference) {
    bad_arguments("models of this runtime take float inputs, and bring none");
  }
  if (own.exact_int8 && !own.eval_inputs) {
    throw GiveUp{"emulated", "what stands in for int8 kernels is never timed: --exact-int8 goes with --eval-inputs"};
  }
  return own;
}

inline void check_sha256(const PlainArguments& given, const std::string& found) {
  if (found.empty()) {
    throw GiveUp{"no_model", "there is no file " + *given.model};
  }
  if (!given.sha256.empty() && given.sha256 != found) {
    throw GiveUp{"wrong_artifact", *given.model + " is not the file with the sha256 " + given.sha256.substr(0, 80)};
  }
}

inline void tell_start(Toolchain& toolchain, const Report& report) {
  report.tell(Event("start")
                  .with("runner", toolchain.runner())
                  .with("runner_version", toolchain.runner_version())
                  .with("torch", toolchain.version())
                  .with("engines", std::vector<std::string>())
                  .with("backends", toolchain.backends()));
}

inline void run_plain(Toolchain& toolchain, const PlainArguments& given, const Report& report) {
  if (access(given.model->c_str(), R_OK) != 0) {
    throw GiveUp{"no_model", "there is no file " + *given.model};
  }
  toolchain.prepare(given);
  be_patient(given);
  const auto before = status_bytes("VmRSS");
  forget_peak();
  const int64_t started = now_ns();
  const std::unique_ptr<PlainModel> model = toolchain.load(given);
  Event loaded("load");
  loaded.with("load_ns", now_ns() - started);
  if (before) {
    loaded.with("rss_before_load_bytes", *before);
  }
  report.tell(loaded);
  if (given.profile) {
    profile_plain(toolchain, *model, given, report);
  } else {
    given.eval_inputs ? evaluate_plain(*model, given, report) : measure_plain(*model, given, report);
  }
  report.tell(Event("metrics").with("values", Megabytes{"runtime_mb", toolchain.library_bytes()}));
  report.tell(Event("ran")
                  .with("backend", given.backend)
                  .with("reference", given.exact_int8)
                  .with("engine", "none")
                  .with("threads", toolchain.threads(given))
                  .with("cpus", cpus_now())
                  .with("rss_peak_bytes", peak_bytes()));
}

template <class Work>
int ended_plain(const Report& report, const char* last, Work work) {
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
    report.tell(Event("error").with("kind", "run_failed").with("message", std::string(error.what()).substr(0, 500)));
  }
  return kErrorExit;
}

inline std::vector<PlainArguments> plain_items(const std::string& path, const std::set<std::string>& backends) {
  constexpr off_t kMostBytes = 16 * 1024 * 1024;
  struct stat status {};
  std::ifstream file(path, std::ios::binary);
  if (stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode) || !file || status.st_size > kMostBytes) {
    bad_batch(path + " cannot be read as a batch");
  }
  std::vector<PlainArguments> items;
  for (std::string line; std::getline(file, line);) {
    const std::string where = "line " + std::to_string(items.size() + 1) + " of the batch";
    try {
      items.push_back(plain_arguments(StringArray(line).words(), backends));
    } catch (const GiveUp& given) {
      bad_batch(where + ": " + given.message);
    }
    if (items.back().nnapi_devices || items.back().eval_inputs) {
      bad_batch(where + ": a batch only times");
    }
    if (items.back().threads != items.front().threads || items.back().cpus != items.front().cpus) {
      bad_batch(where + " asks for other threads or CPUs than line 1");
    }
  }
  if (items.empty()) {
    bad_batch(path + " has no line");
  }
  return items;
}

inline void run_items(Toolchain& toolchain, const std::vector<std::string>& words,
                      const std::set<std::string>& backends, const Report& report) {
  // Of what a batch does around the timing of an item: as REVISION of runner/batch.py.
  constexpr int64_t kRevision = 1;
  constexpr double kMostSeconds = 1e6;
  if (words.size() != 4 || words[0] != "--batch" || words[2] != "--item-seconds") {
    bad_arguments("a batch takes --batch FILE --item-seconds SECONDS");
  }
  const double seconds = decimal_number(words[2], words[3], 1e-3, kMostSeconds);
  const std::vector<PlainArguments> items = plain_items(words[1], backends);
  pin(items.front().cpus);
  keep_memory();
  report.tell(Event("batch").with("revision", kRevision).with("items", static_cast<int64_t>(items.size())));
  for (size_t number = 0; number < items.size(); ++number) {
    report.tell(Event("item").with("number", static_cast<int64_t>(number)));
    alarm_after(seconds);
    ended_plain(report, "end", [&] {
      const std::string sha256 = sha256_of(*items[number].model);
      check_sha256(items[number], sha256);
      report.tell(Event("artifact").with("sha256", sha256));
      tell_start(toolchain, report);
      run_plain(toolchain, items[number], report);
    });
#ifdef __GLIBC__
    malloc_trim(0);
#endif
  }
  alarm_after(0);
}

// More than a phone takes to load a model, or to run it once.
constexpr double kPatience = 60;

// The whole program.
inline int plain_program(int argc, char** argv, Toolchain& toolchain, const std::set<std::string>& backends) {
  const Report report;
  const std::vector<std::string> words(argv + 1, argv + argc);
  int exit_code;
  if (!words.empty() && words.front() == "--batch") {
    exit_code = ended_plain(report, "batch_end", [&] { run_items(toolchain, words, backends, report); });
  } else {
    exit_code = ended_plain(report, "end", [&] {
      PlainArguments given = plain_arguments(words, backends);
      given.patience = given.sha256.empty() ? kPatience : 0;
      pin(given.cpus);
      keep_memory();
      tell_start(toolchain, report);
      if (!given.nnapi_devices) {
        if (!given.sha256.empty()) {
          check_sha256(given, sha256_of(*given.model));
        }
        run_plain(toolchain, given, report);
      }
    });
  }
  std::cout.flush();
  // The report is whole: what runtimes and drivers do when they are taken down can not spoil it any more.
  std::_Exit(exit_code);
}
