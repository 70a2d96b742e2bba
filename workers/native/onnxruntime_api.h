// ONNX Runtime's C interface, as far as the runner needs it. The wheels bring the library without headers. Its
// functions stand in a table whose order never changes: a release adds to its end (onnxruntime_c_api.h).
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "runner_events.h"

namespace ort {

struct Env;
struct Status;
struct Session;
struct SessionOptions;
struct RunOptions;
struct Value;
struct MemoryInfo;
struct Allocator;
struct TypeInfo;
struct TensorInfo;

// The oldest interface with every entry below, which newer libraries have too.
constexpr uint32_t kVersion = 12;
constexpr int kFloat = 1;
constexpr int kErrorsOnly = 3;

struct Base {
  const void* const* (*table)(uint32_t version);
  const char* (*version)();
};

class Api {
 public:
  // The library of this name, or at this path. Throws GiveUp: `runtime_missing` or `runtime_skew`.
  explicit Api(const std::string& library) {
    void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      throw GiveUp{"runtime_missing", std::string("ONNX Runtime cannot be loaded: ") + dlerror()};
    }
    const auto base = reinterpret_cast<const Base* (*)()>(dlsym(handle, "OrtGetApiBase"));
    if (base == nullptr) {
      throw GiveUp{"runtime_missing", library + " is not ONNX Runtime"};
    }
    version_ = base()->version();
    table_ = base()->table(kVersion);
    if (table_ == nullptr) {
      throw GiveUp{"runtime_skew", "ONNX Runtime " + version_ + " is older than its interface " +
                                       std::to_string(kVersion) + "; 1.12 or newer is needed"};
    }
    // NNAPI is appended by a function of its own, where the library was compiled with it.
    append_nnapi = reinterpret_cast<Status* (*)(SessionOptions*, uint32_t)>(
        dlsym(handle, "OrtSessionOptionsAppendExecutionProvider_Nnapi"));
  }

  const std::string& version() const { return version_; }

  template <size_t Index, class... Arguments>
  Status* call(Arguments... arguments) const {
    return reinterpret_cast<Status* (*)(Arguments...)>(const_cast<void*>(table_[Index]))(arguments...);
  }

  template <size_t Index, class Held>
  void release(Held* held) const {
    reinterpret_cast<void (*)(Held*)>(const_cast<void*>(table_[Index]))(held);
  }

  // The message of a status, which is released; empty where there is none.
  std::string message(Status* status) const {
    if (status == nullptr) {
      return "";
    }
    const auto told = reinterpret_cast<const char* (*)(const Status*)>(const_cast<void*>(table_[kGetErrorMessage]));
    const std::string text = told(status);
    release<kReleaseStatus>(status);
    return text.empty() ? "it does not say why" : text;
  }

  static constexpr size_t kGetErrorMessage = 2, kCreateEnv = 3, kCreateSession = 7, kRun = 9,
                          kCreateSessionOptions = 10, kEnableProfiling = 14, kSetSessionLogSeverityLevel = 22,
                          kSetSessionGraphOptimizationLevel = 23, kSetIntraOpNumThreads = 24,
                          kSetInterOpNumThreads = 25, kSessionGetInputCount = 30, kSessionGetOutputCount = 31,
                          kSessionGetInputTypeInfo = 33, kSessionGetOutputTypeInfo = 34, kSessionGetInputName = 36,
                          kSessionGetOutputName = 37, kCreateTensorWithDataAsOrtValue = 49,
                          kCastTypeInfoToTensorInfo = 55, kGetTensorElementType = 60, kGetDimensionsCount = 61,
                          kGetDimensions = 62, kCreateCpuMemoryInfo = 69, kGetAllocatorWithDefaultOptions = 78,
                          kReleaseStatus = 93, kReleaseSession = 95, kReleaseValue = 96, kReleaseTypeInfo = 98,
                          kReleaseSessionOptions = 100, kSessionEndProfiling = 110, kGetAvailableProviders = 125, kAddSessionConfigEntry = 130,
                          kAppendExecutionProvider = 216;

  Status* (*append_nnapi)(SessionOptions*, uint32_t) = nullptr;

 private:
  const void* const* table_ = nullptr;
  std::string version_;
};

}  // namespace ort
