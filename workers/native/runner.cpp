// The C++ runner of PyTorch Mobile, for phones, boards and virtual phones: loads one artifact and times it, or
// evaluates it, in a process of its own. The same arguments, events, kinds of errors and exit codes as the Python
// runner (workers/runtimes/torchscript/runner/main.py), which says what they mean.
//
// Compiles against libtorch of the wheels (native_runner.py) and for Android (CMakeLists.txt). A libtorch for Android
// holds one interpreter: EDGESWEEP_WITHOUT_FULL or EDGESWEEP_WITHOUT_LITE leaves the other out.
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#ifndef EDGESWEEP_WITHOUT_FULL
#include <torch/csrc/jit/runtime/graph_executor.h>
#endif

#include <iostream>

#include "runner_arguments.h"
#include "runner_backend.h"
#include "runner_events.h"
#include "runner_listing.h"
#include "runner_load.h"
#include "runner_process.h"
#include "runner_run.h"

#ifndef EDGESWEEP_RUNNER_VERSION
#error "EDGESWEEP_RUNNER_VERSION is the hash of the sources: native_runner.version()"
#endif

namespace {

void list_devices(const Arguments& given, const Report& report) {
  std::optional<Model> model;
  if (given.model) {
    // The full interpreter reads both formats, and shows what is inside.
    model = load(*given.model, look(*given.model, "nnapi"), "pt");
  }
  prepare("nnapi", given.reference);
  tell_devices(model ? model->object : Object(), given.input_dims, report);
}

void tell_load(const Report& report, const Model& model, std::optional<int64_t> before) {
  Event event("load");
  event.with("load_ns", model.load_ns);
  if (before) {
    event.with("rss_before_load_bytes", *before);
  }
  report.tell(event);
}

void run(const Arguments& given, const Report& report) {
  pin(given.cpus);
  keep_memory();
  at::set_num_threads(given.threads);  // XNNPACK's and QNNPACK's pool as well
  at::set_num_interop_threads(1);
#ifndef EDGESWEEP_WITHOUT_FULL
  torch::jit::setGraphExecutorOptimize(false);  // as in speed_benchmark_torch
#endif
  report.tell(Event("start")
                  .with("runner", "native-torchscript")
                  .with("runner_version", EDGESWEEP_RUNNER_VERSION)
                  .with("torch", TORCH_VERSION)
                  .with("engines", engine_names())
                  .with("file_version_max", static_cast<int64_t>(caffe2::serialize::kMaxSupportedFileFormatVersion))
                  .with("bytecode_version_max", static_cast<int64_t>(caffe2::serialize::kMaxSupportedBytecodeVersion)));
  if (given.nnapi_devices) {
    list_devices(given, report);
    return;
  }
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
      given.eval_inputs ? evaluate(model, given, report) : measure(model, given, report);
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& error) {
      throw failure(given.backend, error);
    }
  }
  // Without a quantized operator no engine runs, whatever torch's default is.
  const std::string engine = given.engine == "none" ? "none" : engine_name(at::globalContext().qEngine());
  report.tell(Event("ran")
                  .with("backend", given.backend)
                  .with("reference", given.reference.has_value())
                  .with("engine", engine)
                  .with("threads", int64_t{at::get_num_threads()})
                  .with("cpus", cpus_now())
                  .with("rss_peak_bytes", peak_bytes()));
}

}  // namespace

int main(int argc, char** argv) {
  const Report report;
  int exit_code = kErrorExit;
  try {
    run(parse(argc, argv), report);
    report.tell(Event("end"));
    exit_code = 0;
  } catch (const GiveUp& given) {
    report.tell(Event("error").with("kind", given.kind).with("message", given.message));
  } catch (const std::bad_alloc&) {
    const char* message = "the process may not allocate more memory";
    report.tell(Event("error").with("kind", "out_of_memory").with("message", message));
  } catch (const std::exception& error) {
    report.tell(Event("error").with("kind", "run_failed").with("message", last_words(told_by(error))));
  }
  std::cout.flush();  // what the model printed
  // The report is whole: what torch and drivers do when they are taken down can not spoil it any more.
  std::_Exit(exit_code);
}
