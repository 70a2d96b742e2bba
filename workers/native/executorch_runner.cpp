// The C++ runner of ExecuTorch, for phones, boards and virtual phones: loads one pte file and times it, or evaluates it,
// in a process of its own. As the Python runner (workers/runtimes/executorch/runner.py).
//
// It is linked to ExecuTorch: to the shared libraries of its wheel on this machine (native_runner.py), to a build of
// the user for a phone (infra/runtimes.md).
#include <executorch/extension/module/module.h>
#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/core/event_tracer.h>
#include <executorch/runtime/kernel/operator_registry.h>
#include <executorch/runtime/platform/runtime.h>

#include "executorch_operators.h"
#include "runner_plain.h"

#ifndef EDGESWEEP_RUNNER_VERSION
#error "EDGESWEEP_RUNNER_VERSION is the hash of the sources: native_runner.version()"
#endif
#ifndef EDGESWEEP_EXECUTORCH_VERSION
#error "EDGESWEEP_EXECUTORCH_VERSION is that of the libraries: 1.5.1"
#endif

// Of threadpool.h, which the wheel does not have; its library exports both.
namespace executorch::extension::threadpool {
class ThreadPool {
 public:
  size_t get_thread_count() const;
  bool _unsafe_reset_threadpool(uint32_t num_threads);
};
ThreadPool* get_threadpool();
}  // namespace executorch::extension::threadpool

namespace {

using executorch::aten::ScalarType;
using executorch::aten::TensorImpl;
using executorch::extension::Module;
using executorch::extension::threadpool::get_threadpool;
using executorch::aten::ArrayRef;
using executorch::aten::Tensor;
using executorch::runtime::AllocatorID;
using executorch::runtime::ChainID;
using executorch::runtime::DebugHandle;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::Method;
using executorch::runtime::Program;
using executorch::runtime::Result;
using executorch::runtime::TensorInfo;
using Entry = executorch::runtime::EventTracerEntry;
using DelegateId = executorch::runtime::DelegateDebugIntId;
using Ticks = et_timestamp_t;

// By backend, what ExecuTorch calls it; portable kernels have no name.
const std::map<std::string, std::string> kDelegates = {
    {"cpu", "XnnpackBackend"}, {"portable", ""}, {"vulkan", "VulkanBackend"}};

std::string hex(Error error) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%x", static_cast<unsigned>(error));
  return text;
}

[[noreturn]] void refuse(const char* kind, const std::string& what, Error error) {
  throw GiveUp{kind, what + ", error: " + hex(error)};
}

template <class Result>
auto need(Result result, const char* what) {
  if (!result.ok()) {
    refuse("load_failed", what, result.error());
  }
  return std::move(result.get());
}

std::vector<int64_t> sizes_of(const TensorInfo& info, const char* what) {
  const auto sizes = info.sizes();
  std::vector<int64_t> dims(sizes.begin(), sizes.end());
  if (info.scalar_type() != ScalarType::Float || dims.empty()) {
    throw GiveUp{"bad_output", std::string("the model ") + what + " elements of type " +
                                   std::to_string(static_cast<int>(info.scalar_type())) + " of the shape " +
                                   json(dims) + ", not float32"};
  }
  return dims;
}

// Notes when each operator ran, in this process's memory. ExecuTorch calls it where it was compiled with its event
// tracer; XNNPACK tells its own operators besides.
class Notes : public executorch::runtime::EventTracer {
 public:
  std::vector<OperatorRun> runs;

  void forget() {
    runs.clear();
    open_.clear();
  }

  void create_event_block(const char*) override {}
  Entry start_profiling(const char* name, ChainID, DebugHandle) override { return begun(name, ""); }
  Entry start_profiling_delegate(const char* name, DelegateId id) override {
    return begun(name != nullptr ? name : "delegate's " + std::to_string(id), kDelegate);
  }
  void end_profiling(Entry entry) override { ended(entry); }
  void end_profiling_delegate(Entry entry, const void*, size_t) override { ended(entry); }
  void log_profiling_delegate(const char* name, DelegateId id, Ticks start, Ticks end, const void*, size_t) override {
    // By a clock of the delegate's own, after it has run: its first operator began with the call that is open.
    const auto began = static_cast<int64_t>(start);
    if (!shifted_ && !open_.empty()) {
      shift_ = runs[open_.back()].start_ns - began;
      shifted_ = true;
    }
    runs.push_back({name != nullptr ? name : "delegate's " + std::to_string(id), kDelegate, began + shift_,
                    static_cast<int64_t>(end - start)});
  }
  void track_allocation(AllocatorID, size_t) override {}
  AllocatorID track_allocator(const char*) override { return 0; }
  Result<bool> log_evalue(const EValue&, executorch::runtime::LoggedEValueType) override { return true; }
  Result<bool> log_intermediate_output_delegate(const char*, DelegateId, const Tensor&) override { return true; }
  Result<bool> log_intermediate_output_delegate(const char*, DelegateId, const ArrayRef<Tensor>) override {
    return true;
  }
  Result<bool> log_intermediate_output_delegate(const char*, DelegateId, const int&) override { return true; }
  Result<bool> log_intermediate_output_delegate(const char*, DelegateId, const bool&) override { return true; }
  Result<bool> log_intermediate_output_delegate(const char*, DelegateId, const double&) override { return true; }
  void set_delegation_intermediate_output_filter(executorch::runtime::EventTracerFilterBase*) override {}

 private:
  static constexpr const char* kDelegate = "delegate";

  Entry begun(const std::string& name, const char* where) {
    Entry entry{};
    entry.event_id = static_cast<int64_t>(runs.size());
    entry.start_time = static_cast<Ticks>(now_ns());
    open_.push_back(runs.size());
    shifted_ = false;
    runs.push_back({name, where, static_cast<int64_t>(entry.start_time), 0});
    return entry;
  }

  void ended(const Entry& entry) {
    const auto at = static_cast<size_t>(entry.event_id);
    if (at < runs.size()) {
      runs[at].ns = now_ns() - static_cast<int64_t>(entry.start_time);
    }
    if (!open_.empty()) {
      open_.pop_back();
    }
    shifted_ = false;
  }

  std::vector<size_t> open_;
  int64_t shift_ = 0;
  bool shifted_ = false;
};

class EtModel : public PlainModel {
 public:
  EtModel(std::unique_ptr<Module> module, const PlainArguments& given) : module_(std::move(module)) {
    method_ = need(module_->method("forward"), "the method forward cannot be loaded");
    const auto meta = method_->method_meta();
    if (meta.num_inputs() != 1 || meta.num_outputs() != 1) {
      throw GiveUp{"bad_output", "the model has " + std::to_string(meta.num_inputs()) + " inputs and " +
                                     std::to_string(meta.num_outputs()) + " outputs, not one of each"};
    }
    const TensorInfo input = need(meta.input_tensor_meta(0), "the input is no tensor");
    const std::vector<int64_t> dims = sizes_of(input, "takes");
    if (dims != given.input_dims) {
      throw GiveUp{"run_failed", "the model takes " + json(dims) + ", not " + json(given.input_dims)};
    }
    sizes_.assign(dims.begin(), dims.end());
    const auto order = input.dim_order();
    order_.assign(order.begin(), order.end());
    // Data in another layout would give other answers without an error.
    const bool last = order_ == std::vector<TensorImpl::DimOrderType>{0, 2, 3, 1};
    if (last != given.channels_last) {
      throw GiveUp{"wrong_layout", std::string("the file takes ") + (last ? "channels_last" : "contiguous_format") +
                                       " data, not " + (given.channels_last ? "channels_last" : "contiguous_format")};
    }
    strides_.resize(order_.size());
    TensorImpl::StridesType stride = 1;
    for (size_t at = order_.size(); at-- > 0;) {
      if (order_[at] >= order_.size()) {
        throw GiveUp{"load_failed", "the input's dimensions have no order"};
      }
      strides_[order_[at]] = stride;
      stride *= sizes_[order_[at]];
    }
    answer_dims_ = sizes_of(need(meta.output_tensor_meta(0), "the output is no tensor"), "answers");
  }

  void bind(const float* input, size_t) override {
    tensor_ = std::make_unique<TensorImpl>(ScalarType::Float, static_cast<ssize_t>(sizes_.size()), sizes_.data(),
                                           const_cast<float*>(input), order_.data(), strides_.data());
  }

  void forward() override {
    Error error = method_->set_input(EValue(executorch::aten::Tensor(tensor_.get())), 0);
    if (error == Error::Ok) {
      error = method_->execute();
    }
    if (error != Error::Ok) {
      refuse("run_failed", "the method forward cannot be run", error);
    }
  }

  const float* answer() const override { return method_->get_output(0).toTensor().const_data_ptr<float>(); }
  const std::vector<int64_t>& answer_dims() const override { return answer_dims_; }

 private:
  std::unique_ptr<Module> module_;
  Method* method_ = nullptr;
  std::vector<TensorImpl::SizesType> sizes_;
  std::vector<TensorImpl::DimOrderType> order_;
  std::vector<TensorImpl::StridesType> strides_;
  std::unique_ptr<TensorImpl> tensor_;
  std::vector<int64_t> answer_dims_;
};

class ExecuTorch : public Toolchain {
 public:
  ExecuTorch() { executorch::runtime::runtime_init(); }

  const char* runner() const override { return "native-executorch"; }
  const char* runner_version() const override { return EDGESWEEP_RUNNER_VERSION; }
  std::string version() const override { return "executorch " EDGESWEEP_EXECUTORCH_VERSION; }

  // Shared libraries whose name has ExecuTorch's; where it is linked in, the program itself.
  int64_t library_bytes() const override {
    std::set<std::string> files;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      const size_t start = line.find('/');
      if (start != std::string::npos && line.find("libexecutorch", start) != std::string::npos) {
        files.insert(line.substr(start));
      }
    }
    if (files.empty()) {
      files.insert("/proc/self/exe");
    }
    int64_t bytes = 0;
    for (const std::string& file : files) {
      struct stat status {};
      bytes += stat(file.c_str(), &status) == 0 ? int64_t{status.st_size} : 0;
    }
    return bytes;
  }

  std::vector<std::string> backends() const override {
    std::vector<std::string> found;
    for (const auto& [backend, name] : kDelegates) {
      if (name.empty() || executorch::runtime::get_backend_class(name.c_str()) != nullptr) {
        found.push_back(backend);
      }
    }
    return found;
  }

  void prepare(const PlainArguments& given) override {
    if (given.exact_int8) {
      bad_arguments("a pte file runs as it is: there is no --exact-int8");
    }
    const std::string& name = kDelegates.at(given.backend);
    if (!name.empty() && executorch::runtime::get_backend_class(name.c_str()) == nullptr) {
      throw GiveUp{"backend_missing", "this ExecuTorch has no " + name};
    }
    auto* const pool = get_threadpool();
    if (pool != nullptr && pool->get_thread_count() != static_cast<size_t>(given.threads)) {
      pool->_unsafe_reset_threadpool(static_cast<uint32_t>(given.threads));
    }
  }

  int64_t threads(const PlainArguments&) const override {
    const auto* const pool = get_threadpool();
    return pool == nullptr ? 1 : static_cast<int64_t>(pool->get_thread_count());
  }

  std::unique_ptr<PlainModel> load(const PlainArguments& given) override {
    check_identifier(*given.model);
    std::unique_ptr<Notes> notes = given.profile ? std::make_unique<Notes>() : nullptr;
    notes_ = notes.get();
    auto module = std::make_unique<Module>(*given.model, Module::LoadMode::Mmap, std::move(notes));
    if (const Error error = module->load(Program::Verification::InternalConsistency); error != Error::Ok) {
      refuse("load_failed", version() + " cannot load the program", error);
    }
    const auto meta = need(module->method_meta("forward"), "there is no method forward");
    const std::string& name = kDelegates.at(given.backend);
    for (size_t at = 0; at < meta.num_backends(); ++at) {
      if (const std::string other = need(meta.get_backend_name(at), "a backend has no name"); other != name) {
        throw GiveUp{"wrong_backend", "the file was lowered to " + other + ", not for " + given.backend};
      }
    }
    if (const Error error = module->load_method("forward"); error != Error::Ok) {
      if (error == Error::OperatorMissing) {
        refuse("runtime_skew", version() + " has no kernel for " + missing(*given.model), error);
      }
      refuse(error == Error::NotFound ? "backend_missing" : "load_failed",
             version() + " cannot load the method forward", error);
    }
    return std::make_unique<EtModel>(std::move(module), given);
  }

  void forget_profile() override { notes_->forget(); }

  void tell_profile(PlainModel&, const std::vector<int64_t>& taken, const Report& report) override {
    report.tell(Event("profile").with("iteration_ns", taken));
    tell_operators(notes_->runs, report);
  }

 private:
  Notes* notes_ = nullptr;  // the module's

  static std::string missing(const std::string& path) {
    std::string named;
    try {
      for (const std::string& name : pte::operators(path)) {
        if (!executorch::runtime::registry_has_op_function(name.c_str())) {
          named += (named.empty() ? "" : ", ") + name;
        }
      }
    } catch (const std::out_of_range&) {
      // A library that does not check what it loads took a damaged file.
    }
    // A kernel may be there for other types only.
    return named.empty() ? "one of the operators of " + path : named;
  }

  // As in the Python runner: a file of another format is newer or older, not damaged.
  static void check_identifier(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    char head[8] = {};
    if (!file.read(head, sizeof head)) {
      throw GiveUp{"load_failed", path + " is damaged, or no file of ExecuTorch"};
    }
    const std::string identifier(head + 4, 4);
    if (identifier.rfind("ET", 0) == 0 && identifier != "ET12") {
      throw GiveUp{"runtime_skew", "the file has the format " + identifier + ", executorch " +
                                       EDGESWEEP_EXECUTORCH_VERSION + " reads ET12"};
    }
  }
};

}  // namespace

int main(int argc, char** argv) {
  std::set<std::string> backends;
  for (const auto& [backend, name] : kDelegates) {
    backends.insert(backend);
  }
  ExecuTorch toolchain;
  return plain_program(argc, argv, toolchain, backends);
}
