// The least that a program can do to time an ONNX file with ONNX Runtime: load, warm up, loop. What
// bench_exported_runners.py holds the C++ runner against.
//
//   bare_loop_onnxruntime model.onnx warmups iterations batch channels height width
//
// One thread, all optimisations. Prints the nanoseconds of every timed iteration, one a line.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "onnxruntime_api.h"

int main(int argc, char** argv) {
  if (argc != 8) {
    std::fprintf(stderr, "seven arguments, please\n");
    return 2;
  }
  using ort::Api;
  setenv("ORT_DISABLE_TELEMETRY", "1", 1);
  const Api api(EDGESWEEP_ONNXRUNTIME);
  const auto need = [&](ort::Status* status) {
    if (status != nullptr) {
      std::fprintf(stderr, "%s\n", api.message(status).c_str());
      std::exit(1);
    }
  };
  const int warmups = std::atoi(argv[2]);
  const int iterations = std::atoi(argv[3]);
  ort::Env* env = nullptr;
  need(api.call<Api::kCreateEnv>(ort::kErrorsOnly, static_cast<const char*>("bare"), &env));
  ort::SessionOptions* options = nullptr;
  need(api.call<Api::kCreateSessionOptions>(&options));
  need(api.call<Api::kSetIntraOpNumThreads>(options, 1));
  ort::Session* session = nullptr;
  need(api.call<Api::kCreateSession, const ort::Env*, const char*, const ort::SessionOptions*>(env, argv[1], options,
                                                                                             &session));
  std::vector<int64_t> dims;
  size_t count = 1;
  for (int at = 4; at < argc; ++at) {
    dims.push_back(std::atol(argv[at]));
    count *= static_cast<size_t>(dims.back());
  }
  std::vector<float> data(count, 0.5F);
  ort::MemoryInfo* memory = nullptr;
  need(api.call<Api::kCreateCpuMemoryInfo>(0, 0, &memory));
  ort::Value* input = nullptr;
  need(api.call<Api::kCreateTensorWithDataAsOrtValue, const ort::MemoryInfo*, void*, size_t, const int64_t*, size_t, int,
                ort::Value**>(memory, data.data(), count * sizeof(float), dims.data(), dims.size(), ort::kFloat,
                              &input));
  ort::Value* output = nullptr;
  const auto run = [&] {
    const char* const inputs[] = {"input"};
    const char* const outputs[] = {"output"};
    const ort::Value* const given[] = {input};
    const ort::RunOptions* const usual = nullptr;
    need(api.call<Api::kRun, ort::Session*, const ort::RunOptions*, const char* const*, const ort::Value* const*, size_t,
                  const char* const*, size_t, ort::Value**>(session, usual, inputs, given, 1, outputs, 1, &output));
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
