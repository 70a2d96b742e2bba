// Stands in for PyTorch's speed_benchmark_torch, which is in no wheel: runs the model for real, takes the flags that
// EdgeSweep uses and prints what the tool prints (binaries/speed_benchmark_torch.cc of v2.8.0). Any other flag is
// refused, as the tool refuses one that it does not know.
//
// As in the tool, one program has one interpreter: STAND_IN_LITE chooses the one that reads ptl.
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/Flags.h>
#include <caffe2/utils/threadpool/ThreadPool.h>
#include <torch/csrc/jit/mobile/import.h>
#include <torch/csrc/jit/mobile/module.h>
#include <torch/script.h>

#include <chrono>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

C10_DEFINE_string(model, "", "The model's file.");
C10_DEFINE_string(input_dims, "", "Such as 1,3,224,224.");
C10_DEFINE_string(input_type, "", "float or uint8_t.");
C10_DEFINE_string(input_memory_format, "contiguous_format", "contiguous_format or channels_last.");
C10_DEFINE_int(use_bundled_input, -1, "Which of the inputs in the file.");
C10_DEFINE_bool(print_output, false, "Whether to print what the model answers.");
C10_DEFINE_int(warmup, 0, "Iterations before the timed ones.");
C10_DEFINE_int(iter, 10, "Timed iterations.");
C10_DEFINE_bool(report_pep, false, "Whether to print every iteration's time.");

namespace {

#ifdef STAND_IN_LITE
using Module = torch::jit::mobile::Module;
#else
using Module = torch::jit::Module;
#endif
using Inputs = std::vector<c10::IValue>;
using Clock = std::chrono::steady_clock;

float microseconds_since(Clock::time_point start) {
  return std::chrono::duration<float, std::micro>(Clock::now() - start).count();
}

at::Tensor ones() {
  std::vector<int64_t> dims;
  std::istringstream words(FLAGS_input_dims);
  for (std::string word; std::getline(words, word, ',');) {
    dims.push_back(std::stoll(word));
  }
  TORCH_CHECK(FLAGS_input_type == "float" || FLAGS_input_type == "uint8_t", "Unsupported input type: ", FLAGS_input_type);
  const bool last = FLAGS_input_memory_format == "channels_last";
  TORCH_CHECK(last || FLAGS_input_memory_format == "contiguous_format", "Unsupported input memory format: ",
              FLAGS_input_memory_format);
  return at::ones(dims, FLAGS_input_type == "float" ? at::kFloat : at::kByte)
      .contiguous(last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous);
}

// Nothing, and a word on stderr, where the file does not carry it.
std::optional<Inputs> bundled(Module& module) {
  const auto method = module.find_method("get_all_bundled_inputs");
  if (!method) {
    std::cerr << "Model does not have bundled inputs.  Before saving,\n"
                 "use torch.utils.bundled_inputs.augment_model_with_bundled_inputs.\n";
    return std::nullopt;
  }
  const auto all = (*method)({}).toList();
  if (static_cast<size_t>(FLAGS_use_bundled_input) >= all.size()) {
    std::cerr << "Model has only " << all.size() << " bundled inputs.\n";
    return std::nullopt;
  }
  const c10::IValue chosen = all.get(FLAGS_use_bundled_input);
  return Inputs(chosen.toTupleRef().elements().vec());
}

void benchmark(Module& module, const Inputs& inputs) {
  std::cout << "Starting benchmark.\nRunning warmup runs.\n";
  for (int i = 0; i < FLAGS_warmup; ++i) {
    module.forward(inputs);
  }
  std::cout << "Main runs." << std::endl;
  std::vector<float> taken;
  const auto begin = Clock::now();
  for (int i = 0; i < FLAGS_iter; ++i) {
    const auto start = Clock::now();
    module.forward(inputs);
    taken.push_back(static_cast<int64_t>(microseconds_since(start)));  // whole ones, as the tool keeps them
  }
  const float all = microseconds_since(begin);
  for (size_t i = 0; FLAGS_report_pep && i < taken.size(); ++i) {
    std::cout << R"(PyTorchObserver {"type": "NET", "unit": "us", "metric": "latency", "value": ")" << taken[i]
              << "\"}" << std::endl;
  }
  std::cout << "Main run finished. Microseconds per iter: " << all / FLAGS_iter
            << ". Iters per second: " << 1e6 * FLAGS_iter / all << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    std::cerr << "Insufficient command-line flags!" << std::endl;
    return 1;
  }
  if (!c10::ParseCommandLineFlags(&argc, &argv)) {
    std::cerr << "Failed to parse command-line flags!" << std::endl;
    return 1;
  }
  // The library for phones does so itself; the wheel's has OpenMP beside the pool.
  if (FLAGS_pthreadpool_size > 0) {
    at::set_num_threads(FLAGS_pthreadpool_size);
  }
  Inputs inputs;
  if (FLAGS_use_bundled_input < 0) {
    inputs.emplace_back(ones());
  }
  const c10::InferenceMode inference;
#ifdef STAND_IN_LITE
  auto module = torch::jit::_load_for_mobile(FLAGS_model);
#else
  const torch::jit::GraphOptimizerEnabledGuard no_optimizer(false);
  auto module = torch::jit::load(FLAGS_model);
  module.eval();
#endif
  if (FLAGS_use_bundled_input >= 0) {
    auto carried = bundled(module);
    if (!carried) {
      return 1;
    }
    inputs = std::move(*carried);
  }
  if (FLAGS_print_output) {
    std::cout << module.forward(inputs) << std::endl;
  }
  benchmark(module, inputs);
  return 0;
}
