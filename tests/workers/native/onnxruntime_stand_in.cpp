// Stands in for a library of ONNX Runtime with more providers than the wheel's: it lists them, and tells what it is asked
// to append instead of doing so. Only what the runner calls before it creates a session.
#include <cstddef>
#include <cstdint>
#include <string>

namespace {

std::string appended;

const char* told(const void*) { return appended.c_str(); }
void release(void*) {}
void* nothing() { return nullptr; }

void* providers(char*** names, int* count) {
  static const char* const all[] = {"CPUExecutionProvider", "NnapiExecutionProvider", "QNNExecutionProvider"};
  *names = const_cast<char**>(all);
  *count = 3;
  return nullptr;
}

void* append(void*, const char* name, const char* const* keys, const char* const* values, size_t count) {
  appended = name;
  for (size_t at = 0; at < count; ++at) {
    appended += std::string(" ") + keys[at] + "=" + values[at];
  }
  return &appended;
}

// Places as in onnxruntime_api.h.
const void* const* table(uint32_t) {
  static const void* functions[300];
  for (auto& one : functions) {
    one = reinterpret_cast<const void*>(nothing);
  }
  functions[2] = reinterpret_cast<const void*>(told);
  functions[93] = reinterpret_cast<const void*>(release);
  functions[125] = reinterpret_cast<const void*>(providers);
  functions[216] = reinterpret_cast<const void*>(append);
  return functions;
}

const char* version() { return "1.2.3"; }

struct Base {
  const void* const* (*table)(uint32_t);
  const char* (*version)();
};

}  // namespace

extern "C" const Base* OrtGetApiBase() {
  static const Base base = {table, version};
  return &base;
}

#ifdef WITH_NNAPI
extern "C" void* OrtSessionOptionsAppendExecutionProvider_Nnapi(void*, uint32_t) {
  appended = "NNAPI";
  return &appended;
}
#endif
