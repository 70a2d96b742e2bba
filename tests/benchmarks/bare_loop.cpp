// The least that a program can do to time a TorchScript file: load, warm up, loop. What bench_runner.py holds the
// Python runner against.
//
//   bare_loop model.pt warmups iterations threads channels_last batch channels height width
//
// Prints the nanoseconds of every timed iteration, one a line.

#include <malloc.h>

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/import.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

int main(int argc, char** argv) {
  if (argc != 10) {
    std::fprintf(stderr, "nine arguments, please\n");
    return 2;
  }
  const int warmups = std::atoi(argv[2]);
  const int iterations = std::atoi(argv[3]);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);  // as in the Python runner, which says why
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  at::set_num_threads(std::atoi(argv[4]));
  at::set_num_interop_threads(1);
  torch::jit::setGraphExecutorOptimize(false);  // as in speed_benchmark_torch and in the Python runner
  c10::InferenceMode inference;
  auto model = torch::jit::load(argv[1]);
  model.eval();
  at::Tensor x = at::rand({std::atol(argv[6]), std::atol(argv[7]), std::atol(argv[8]), std::atol(argv[9])});
  if (std::atoi(argv[5]) != 0) {
    x = x.contiguous(at::MemoryFormat::ChannelsLast);
  }
  for (int i = 0; i <= warmups; ++i) {  // the first inference, then the warm-ups
    model.forward({x});
  }
  std::vector<long long> taken;
  taken.reserve(iterations);
  for (int i = 0; i < iterations; ++i) {
    const auto started = std::chrono::steady_clock::now();
    model.forward({x});
    const auto ended = std::chrono::steady_clock::now();
    taken.push_back(std::chrono::duration_cast<std::chrono::nanoseconds>(ended - started).count());
  }
  for (const long long nanoseconds : taken) {
    std::printf("%lld\n", nanoseconds);
  }
  return 0;
}
