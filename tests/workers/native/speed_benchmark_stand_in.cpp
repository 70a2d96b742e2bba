// Stands in for PyTorch's speed_benchmark_torch, which is in no wheel: runs the model for real. It has the tool's flags,
// clock and output (binaries/speed_benchmark_torch.cc of v2.8.0), of which it takes one input. As in the tool, c10 reads
// the flags and refuses unknown ones, libtorch alone decides how many threads run, and nobody catches an exception.
//
// As in the tool, one program has one interpreter: STAND_IN_LITE chooses the one that reads ptl.
#include <c10/core/InferenceMode.h>
#include <c10/mobile/CPUCachingAllocator.h>
#include <c10/util/Flags.h>
#include <caffe2/core/timer.h>
#include <torch/csrc/jit/mobile/import.h>
#include <torch/csrc/jit/mobile/module.h>
#include <torch/script.h>

#include <chrono>
#include <iostream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

C10_DEFINE_string(model, "", "The model's file.");
C10_DEFINE_string(input_dims, "", "Such as 1,3,224,224.");
C10_DEFINE_string(input_type, "", "float, uint8_t or int64.");
C10_DEFINE_string(input_memory_format, "contiguous_format", "contiguous_format or channels_last.");
C10_DEFINE_bool(no_inputs, false, "Whether the model takes no input.");
C10_DEFINE_bool(use_caching_allocator, false, "Whether to keep memory between iterations.");
C10_DEFINE_int(use_bundled_input, -1, "Which of the inputs in the file.");
C10_DEFINE_bool(print_output, false, "Whether to print what the model answers.");
C10_DEFINE_int(warmup, 0, "Iterations before the timed ones.");
C10_DEFINE_int(iter, 10, "Timed iterations.");
C10_DEFINE_bool(report_pep, false, "Whether to print every iteration's time.");
C10_DEFINE_int(pytext_len, 0, "A second input, if above 0.");
C10_DEFINE_bool(vulkan, false, "Whether to run on the GPU.");

namespace {

#ifdef STAND_IN_LITE
using Module = torch::jit::mobile::Module;
#else
using Module = torch::jit::Module;
#endif
using Inputs = std::vector<c10::IValue>;
// The system's clock, which may be set, with GNU's library; a steady one with LLVM's, as on phones.
using Clock = std::chrono::high_resolution_clock;

at::Tensor ones() {
  std::vector<int64_t> dims;
  std::istringstream words(FLAGS_input_dims);
  for (std::string word; std::getline(words, word, ',');) {
    dims.push_back(std::stoi(word));
  }
  const bool is_float = FLAGS_input_type == "float", is_byte = FLAGS_input_type == "uint8_t";
  TORCH_CHECK(is_float || is_byte || FLAGS_input_type == "int64", "Unsupported input type: ", FLAGS_input_type);
  const bool last = FLAGS_input_memory_format == "channels_last";
  TORCH_CHECK(last || FLAGS_input_memory_format == "contiguous_format", "Unsupported input memory format: ",
              FLAGS_input_memory_format);
  TORCH_CHECK(!last || dims.size() == 4, "channels_last memory format only available on 4D tensors!");
  // Asked for as the tool does it. The wheel's libtorch does not listen: the tensor is contiguous.
  return torch::ones(dims, at::TensorOptions(is_float ? at::kFloat : is_byte ? at::kByte : at::kLong)
                               .memory_format(last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous));
}

Inputs created() {
  if (FLAGS_no_inputs || FLAGS_use_bundled_input >= 0) {
    return {};
  }
  Inputs inputs{ones()};
  if (FLAGS_pytext_len > 0) {
    inputs.emplace_back(FLAGS_pytext_len * at::ones({1}, at::kLong));
  }
  return inputs;
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

c10::IValue run(Module& module, const Inputs& inputs) {
  if (!FLAGS_vulkan) {
    return module.forward(inputs);
  }
  Inputs uploaded;
  for (const auto& input : inputs) {
    uploaded.emplace_back(at::rand(input.toTensor().sizes()).vulkan());
  }
  return module.forward(uploaded).toTensor().cpu();
}

void benchmark(Module& module, const Inputs& inputs) {
  std::cout << "Starting benchmark." << std::endl;
  std::cout << "Running warmup runs." << std::endl;
  for (int i = 0; i < FLAGS_warmup; ++i) {
    run(module, inputs);
  }
  std::cout << "Main runs." << std::endl;
  std::vector<float> taken;
  caffe2::Timer timer;
  for (int i = 0; i < FLAGS_iter; ++i) {
    const auto start = Clock::now();
    run(module, inputs);
    const auto stop = Clock::now();
    taken.push_back(std::chrono::duration_cast<std::chrono::microseconds>(stop - start).count());
  }
  const float all = timer.MicroSeconds();
  for (size_t i = 0; FLAGS_report_pep && i < taken.size(); ++i) {
    std::cout << R"(PyTorchObserver {"type": "NET", "unit": "us", "metric": "latency", "value": ")" << taken[i]
              << "\"}" << std::endl;
  }
  std::cout << "Main run finished. Microseconds per iter: " << all / FLAGS_iter
            << ". Iters per second: " << 1e6 * FLAGS_iter / all << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  if (!c10::ParseCommandLineFlags(&argc, &argv)) {
    std::cerr << "Failed to parse command line flags!" << std::endl;
    return 1;
  }
  Inputs inputs = created();
  const c10::InferenceMode inference;
#ifdef STAND_IN_LITE
  auto module = torch::jit::_load_for_mobile(FLAGS_model);
#else
  const torch::jit::GraphOptimizerEnabledGuard no_optimizer(false);
  auto module = torch::jit::load(FLAGS_model);
#endif
  if (FLAGS_use_bundled_input >= 0) {
    auto carried = bundled(module);
    if (!carried) {
      return 1;
    }
    inputs = std::move(*carried);
  }
#ifndef STAND_IN_LITE
  module.eval();
#endif
  if (FLAGS_print_output) {
    std::cout << run(module, inputs) << std::endl;
  }
  c10::CPUCachingAllocator allocator;
  std::optional<c10::WithCPUCachingAllocatorGuard> kept;
  if (FLAGS_use_caching_allocator) {
    kept.emplace(&allocator);
  }
  benchmark(module, inputs);
  return 0;
}
