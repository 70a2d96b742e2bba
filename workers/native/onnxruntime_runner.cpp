// The C++ runner of ONNX Runtime, for phones, boards and virtual phones: loads one ONNX file and times it, or evaluates
// it, in a process of its own. As the Python runner (workers/runtimes/onnxruntime/runner.py).
//
// The library is opened when the program runs: the one at the program's own end, which is unpacked beside it once
// (native_runner.with_library), else the one that EDGESWEEP_ONNXRUNTIME names, as it was compiled. So it compiles
// without ONNX Runtime, for any system.
#include <climits>

#include "onnxruntime_api.h"
#include "runner_plain.h"

#ifndef EDGESWEEP_RUNNER_VERSION
#error "EDGESWEEP_RUNNER_VERSION is the hash of the sources: native_runner.version()"
#endif
#ifndef EDGESWEEP_ONNXRUNTIME
#define EDGESWEEP_ONNXRUNTIME "libonnxruntime.so"
#endif

namespace {

using ort::Api;

const std::map<std::string, std::string> kProviders = {{"cpu", "CPUExecutionProvider"},
                                                       {"xnnpack", "XnnpackExecutionProvider"},
                                                       {"nnapi", "NnapiExecutionProvider"},
                                                       {"qnn", "QNNExecutionProvider"},
                                                       {"coreml", "CoreMLExecutionProvider"}};
// What SessionOptionsAppendExecutionProvider calls them.
const std::map<std::string, const char*> kAppended = {{"xnnpack", "XNNPACK"}, {"qnn", "QNN"}, {"coreml", "CoreML"}};
// QNN is told which of Qualcomm's libraries to open: that of the NPU.
constexpr const char *kBackendPath = "backend_path", *kNpu = "libQnnHtp.so";
const std::map<std::string, int> kLevels = {
    {"disabled", 0}, {"basic", 1}, {"extended", 2}, {"all", 99}, {"none", 99}};

constexpr char kMagic[] = "EDGEORT1";

// The library at the end of this program; empty where there is none.
std::string carried(const std::string& program) {
  std::ifstream file(program, std::ios::binary | std::ios::ate);
  const int64_t size = file ? static_cast<int64_t>(file.tellg()) : 0;
  constexpr int64_t kTrailer = 16;
  unsigned char trailer[kTrailer];
  if (size <= kTrailer || !file.seekg(size - kTrailer) || !file.read(reinterpret_cast<char*>(trailer), kTrailer) ||
      std::memcmp(trailer + 8, kMagic, 8) != 0) {
    return "";
  }
  uint64_t length = 0;
  for (int at = 7; at >= 0; --at) {
    length = length << 8 | trailer[at];
  }
  if (length > static_cast<uint64_t>(size - kTrailer)) {
    return "";
  }
  std::string content(length, '\0');
  file.seekg(size - kTrailer - static_cast<int64_t>(length));
  return file.read(content.data(), static_cast<std::streamsize>(length)) ? content : "";
}

// Where the library is. What the program carries is unpacked once, under a name that no half-written file has.
std::string library() {
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  const std::string program(path, length > 0 ? static_cast<size_t>(length) : 0);
  const std::string unpacked = program + ".libonnxruntime.so";
  if (access(unpacked.c_str(), R_OK) == 0) {
    return unpacked;
  }
  const std::string content = carried(program);
  if (content.empty()) {
    return EDGESWEEP_ONNXRUNTIME;
  }
  const std::string partial = unpacked + "." + std::to_string(getpid());
  std::ofstream file(partial, std::ios::binary);
  file.write(content.data(), static_cast<std::streamsize>(content.size()));
  file.close();
  if (!file || std::rename(partial.c_str(), unpacked.c_str()) != 0) {
    std::remove(partial.c_str());
    throw GiveUp{"runtime_missing", "ONNX Runtime cannot be unpacked to " + unpacked + ": " + std::strerror(errno)};
  }
  return unpacked;
}

class OrtModel : public PlainModel {
 public:
  OrtModel(const Api& api, ort::Session* session, const std::vector<int64_t>& input_dims)
      : api_(api), session_(session), input_dims_(input_dims) {
    size_t inputs = 0, outputs = 0;
    need(api_.call<Api::kSessionGetInputCount>(session_, &inputs));
    need(api_.call<Api::kSessionGetOutputCount>(session_, &outputs));
    if (inputs != 1 || outputs != 1) {
      throw GiveUp{"bad_output", "the model has " + std::to_string(inputs) + " inputs and " + std::to_string(outputs) +
                                     " outputs, not one of each"};
    }
    ort::Allocator* allocator = nullptr;
    need(api_.call<Api::kGetAllocatorWithDefaultOptions>(&allocator));
    need(api_.call<Api::kSessionGetInputName>(session_, size_t{0}, allocator, &input_name_));
    need(api_.call<Api::kSessionGetOutputName>(session_, size_t{0}, allocator, &output_name_));
    need(api_.call<Api::kCreateCpuMemoryInfo>(0, 0, &memory_));
    ort::TypeInfo* type = nullptr;
    need(api_.call<Api::kSessionGetInputTypeInfo>(session_, size_t{0}, &type));
    if (const auto dims = float_dims(type, "takes"); dims != input_dims_) {
      throw GiveUp{"run_failed", "the model takes " + json(dims) + ", not " + json(input_dims_)};
    }
    need(api_.call<Api::kSessionGetOutputTypeInfo>(session_, size_t{0}, &type));
    answer_dims_ = float_dims(type, "answers");
    answer_ = std::make_unique<Buffer>(count_of(answer_dims_));
    output_ = tensor(answer_->data(), answer_->count(), answer_dims_);
  }
  OrtModel(const OrtModel&) = delete;
  OrtModel& operator=(const OrtModel&) = delete;
  ~OrtModel() override {
    if (input_ != nullptr) {
      api_.release<Api::kReleaseValue>(input_);
    }
    api_.release<Api::kReleaseValue>(output_);
    api_.release<Api::kReleaseSession>(session_);
  }

  void bind(const float* input, size_t count) override {
    if (input_ != nullptr) {
      api_.release<Api::kReleaseValue>(input_);
      input_ = nullptr;
    }
    input_ = tensor(const_cast<float*>(input), count, input_dims_);
  }

  void forward() override {
    const char* const inputs[] = {input_name_};
    const char* const outputs[] = {output_name_};
    const ort::Value* const given[] = {input_};
    const ort::RunOptions* const usual = nullptr;
    need(api_.call<Api::kRun, ort::Session*, const ort::RunOptions*, const char* const*, const ort::Value* const*,
                   size_t, const char* const*, size_t, ort::Value**>(session_, usual, inputs, given, 1, outputs, 1,
                                                                     &output_));
  }

  // The name of the file that the session wrote.
  std::string end_profile() {
    ort::Allocator* allocator = nullptr;
    char* name = nullptr;
    need(api_.call<Api::kGetAllocatorWithDefaultOptions>(&allocator));
    need(api_.call<Api::kSessionEndProfiling>(session_, allocator, &name));
    return name;
  }

  const float* answer() const override { return answer_->data(); }
  const std::vector<int64_t>& answer_dims() const override { return answer_dims_; }

 private:
  void need(ort::Status* status) const {
    if (status != nullptr) {
      throw GiveUp{"run_failed", api_.message(status).substr(0, 500)};
    }
  }

  std::vector<int64_t> float_dims(ort::TypeInfo* type, const char* what) const {
    const ort::TensorInfo* info = nullptr;
    need(api_.call<Api::kCastTypeInfoToTensorInfo, const ort::TypeInfo*>(type, &info));
    int element = 0;
    size_t rank = 0;
    if (info != nullptr) {
      need(api_.call<Api::kGetTensorElementType>(info, &element));
      need(api_.call<Api::kGetDimensionsCount>(info, &rank));
    }
    std::vector<int64_t> dims(rank);
    if (info != nullptr) {
      need(api_.call<Api::kGetDimensions>(info, dims.data(), rank));
    }
    api_.release<Api::kReleaseTypeInfo>(type);
    const bool open = std::any_of(dims.begin(), dims.end(), [](int64_t size) { return size < 1; });
    if (element != ort::kFloat || rank == 0 || open) {
      throw GiveUp{"bad_output", std::string("the model ") + what + " elements of type " + std::to_string(element) +
                                     " of the shape " + json(dims) + ", not float32 of known sizes"};
    }
    return dims;
  }

  ort::Value* tensor(float* data, size_t count, const std::vector<int64_t>& dims) const {
    ort::Value* value = nullptr;
    need(api_.call<Api::kCreateTensorWithDataAsOrtValue, const ort::MemoryInfo*, void*, size_t, const int64_t*, size_t,
                   int, ort::Value**>(memory_, data, count * sizeof(float), dims.data(), dims.size(), ort::kFloat,
                                      &value));
    return value;
  }

  const Api& api_;
  ort::Session* session_;
  std::vector<int64_t> input_dims_;
  std::vector<int64_t> answer_dims_;
  std::unique_ptr<Buffer> answer_;
  ort::MemoryInfo* memory_ = nullptr;
  ort::Value* input_ = nullptr;
  ort::Value* output_ = nullptr;
  char* input_name_ = nullptr;
  char* output_name_ = nullptr;
};

class OnnxRuntime : public Toolchain {
 public:
  OnnxRuntime() : library_(library()), api_(library_) {
    need(api_.call<Api::kCreateEnv>(ort::kErrorsOnly, static_cast<const char*>("edgesweep"), &env_));
  }

  const char* runner() const override { return "native-onnxruntime"; }
  const char* runner_version() const override { return EDGESWEEP_RUNNER_VERSION; }
  std::string version() const override { return "onnxruntime " + api_.version(); }

  int64_t library_bytes() const override {
    struct stat status {};
    return stat(library_.c_str(), &status) == 0 ? int64_t{status.st_size} : 0;
  }

  std::vector<std::string> backends() const override {
    char** names = nullptr;
    int count = 0;
    need(api_.call<Api::kGetAvailableProviders>(&names, &count));
    const std::set<std::string> there(names, names + count);
    std::vector<std::string> found;
    for (const auto& [backend, provider] : kProviders) {
      // A library may list NNAPI without the function that appends it: all would run on the CPU, under NNAPI's name.
      if (there.count(provider) != 0 && (backend != "nnapi" || api_.append_nnapi != nullptr)) {
        found.push_back(backend);
      }
    }
    return found;
  }

  void prepare(const PlainArguments& given) override {
    if (given.channels_last) {
      bad_arguments("an ONNX file takes its input in one layout");
    }
    if (kLevels.count(given.graph_optimization) == 0) {
      bad_arguments("--graph-optimization is unknown: " + given.graph_optimization);
    }
    const std::vector<std::string> there = backends();
    if (std::find(there.begin(), there.end(), given.backend) == there.end()) {
      throw GiveUp{"backend_missing", version() + " has no " + kProviders.at(given.backend) + " that can be used"};
    }
  }

  std::unique_ptr<PlainModel> load(const PlainArguments& given) override {
    ort::SessionOptions* options = nullptr;
    need(api_.call<Api::kCreateSessionOptions>(&options));
    need(api_.call<Api::kSetIntraOpNumThreads>(options, given.threads));
    need(api_.call<Api::kSetInterOpNumThreads>(options, 1));
    need(api_.call<Api::kSetSessionLogSeverityLevel>(options, ort::kErrorsOnly));
    need(api_.call<Api::kSetSessionGraphOptimizationLevel>(options, kLevels.at(given.graph_optimization)));
    if (given.exact_int8) {
      config(options, "session.x64quantprecision", "1");
    }
    if (given.profile) {
      need(api_.call<Api::kEnableProfiling, ort::SessionOptions*, const char*>(options, profile_prefix().c_str()));
    }
    append(options, given.backend);
    ort::Session* session = nullptr;
    const std::string refused =
        api_.message(api_.call<Api::kCreateSession, const ort::Env*, const char*, const ort::SessionOptions*>(
            env_, given.model->c_str(), options, &session));
    api_.release<Api::kReleaseSessionOptions>(options);
    if (!refused.empty()) {
      throw GiveUp{is_skew(refused) ? "runtime_skew" : "load_failed", version() + ": " + refused.substr(0, 500)};
    }
    return std::make_unique<OrtModel>(api_, session, given.input_dims);
  }

  void tell_profile(PlainModel& model, const std::vector<int64_t>& taken, const Report& report) override {
    const std::string path = static_cast<OrtModel&>(model).end_profile();
    std::ifstream file(path);
    const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    std::remove(path.c_str());
    report.tell(Event("profile").with("iteration_ns", taken).with("onnxruntime", text));
  }

 private:
  // Beside the program, in the run folder of the device.
  static std::string profile_prefix() {
    char path[PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
    const char* folder = std::getenv("TMPDIR");
    const std::string beside = folder != nullptr ? std::string(folder) + "/edgesweep"
                                                 : std::string(path, length > 0 ? static_cast<size_t>(length) : 0);
    return beside + ".profile." + std::to_string(getpid());
  }

  void need(ort::Status* status) const {
    if (status != nullptr) {
      throw GiveUp{"load_failed", api_.message(status).substr(0, 500)};
    }
  }

  void config(ort::SessionOptions* options, const char* key, const char* value) const {
    need(api_.call<Api::kAddSessionConfigEntry>(options, key, value));
  }

  void append(ort::SessionOptions* options, const std::string& backend) const {
    if (backend == "nnapi") {
      need(api_.append_nnapi(options, 0));
    } else if (const auto known = kAppended.find(backend); known != kAppended.end()) {
      const char* const* const keys = &kBackendPath;
      const char* const* const values = &kNpu;
      need(api_.call<Api::kAppendExecutionProvider>(options, known->second, keys, values,
                                                    size_t{backend == "qnn" ? 1u : 0u}));
    }
  }

  // As _SKEW of the Python runner.
  static bool is_skew(const std::string& told) {
    for (const char* words : {"Unsupported model IR version", "is till opset", "Current official support",
                              "Could not find an implementation", "is not a registered function/op"}) {
      if (told.find(words) != std::string::npos) {
        return true;
      }
    }
    return false;
  }

  std::string library_;
  Api api_;
  ort::Env* env_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  std::set<std::string> backends;
  for (const auto& [backend, provider] : kProviders) {
    backends.insert(backend);
  }
  // Before the library is loaded, which would send telemetry from a thread of its own.
  setenv("ORT_DISABLE_TELEMETRY", "1", 1);
  try {
    OnnxRuntime toolchain;
    return plain_program(argc, argv, toolchain, backends);
  } catch (const GiveUp& given) {
    const Report report;
    report.tell(Event("error").with("kind", given.kind).with("message", given.message));
    return kErrorExit;
  }
}
