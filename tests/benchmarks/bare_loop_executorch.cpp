// The least that a program can do to time an ExecuTorch file: load, warm up, loop. What bench_exported_runners.py holds
// the C++ runner against.
//
//   bare_loop_executorch model.pte warmups iterations batch channels height width
//
// One thread, contiguous input. Prints the nanoseconds of every timed iteration, one a line.

#include <executorch/extension/module/module.h>
#include <executorch/runtime/platform/runtime.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

// Of threadpool.h, which the wheel does not have.
namespace executorch::extension::threadpool {
class ThreadPool {
 public:
  bool _unsafe_reset_threadpool(uint32_t num_threads);
};
ThreadPool* get_threadpool();
}  // namespace executorch::extension::threadpool

int main(int argc, char** argv) {
  if (argc != 8) {
    std::fprintf(stderr, "seven arguments, please\n");
    return 2;
  }
  using executorch::aten::ScalarType;
  using executorch::aten::TensorImpl;
  using executorch::extension::Module;
  executorch::runtime::runtime_init();
  executorch::extension::threadpool::get_threadpool()->_unsafe_reset_threadpool(1);
  const int warmups = std::atoi(argv[2]);
  const int iterations = std::atoi(argv[3]);
  Module module(argv[1], Module::LoadMode::Mmap);
  auto* const method = module.method("forward").get();
  std::vector<TensorImpl::SizesType> sizes;
  size_t count = 1;
  for (int at = 4; at < argc; ++at) {
    sizes.push_back(std::atoi(argv[at]));
    count *= static_cast<size_t>(sizes.back());
  }
  std::vector<TensorImpl::DimOrderType> order = {0, 1, 2, 3};
  std::vector<TensorImpl::StridesType> strides = {sizes[1] * sizes[2] * sizes[3], sizes[2] * sizes[3], sizes[3], 1};
  std::vector<float> data(count, 0.5F);
  TensorImpl tensor(ScalarType::Float, 4, sizes.data(), data.data(), order.data(), strides.data());
  const auto run = [&] {
    if (method->set_input(executorch::aten::Tensor(&tensor), 0) != executorch::runtime::Error::Ok ||
        method->execute() != executorch::runtime::Error::Ok) {
      std::exit(1);
    }
  };
  for (int i = 0; i <= warmups; ++i) {  // the first inference, then the warm-ups
    run();
  }
  std::vector<long long> taken;
  taken.reserve(iterations);
  for (int i = 0; i < iterations; ++i) {
    const auto started = std::chrono::steady_clock::now();
    run();
    const auto ended = std::chrono::steady_clock::now();
    taken.push_back(std::chrono::duration_cast<std::chrono::nanoseconds>(ended - started).count());
  }
  for (const long long nanoseconds : taken) {
    std::printf("%lld\n", nanoseconds);
  }
  std::fflush(stdout);
  std::_Exit(0);
}
