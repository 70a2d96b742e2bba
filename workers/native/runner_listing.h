// Which accelerators NNAPI has here, and which operations of a model each of them takes: NeuralNetworks.h, asked with
// the model as PyTorch's own loader builds it. As workers/runtimes/torchscript/nnapi/devices.py.
#pragma once

#include <ATen/Functions.h>
#include <ATen/core/class_type.h>
#include <ATen/core/ivalue.h>
#include <dlfcn.h>
#ifndef EDGESWEEP_WITHOUT_FULL
#include <torch/csrc/jit/api/module.h>
#endif

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runner_backend.h"
#include "runner_events.h"
#include "runner_nnapi_model.h"

using Object = c10::intrusive_ptr<c10::ivalue::Object>;

// ANeuralNetworksOperandType.
struct OperandType {
  int32_t type;
  uint32_t dimension_count;
  const uint32_t* dimensions;
  float scale;
  int32_t zero_point;
};

// The C API. Every call that goes wrong ends the run.
class Nnapi {
 public:
  Nnapi() : library_(dlopen(kNnapiLibrary, RTLD_NOW)) {}

  template <class... Arguments>
  void call(const std::string& name, Arguments... arguments) const {
    const auto function = reinterpret_cast<int (*)(Arguments...)>(symbol(name));
    if (function == nullptr) {
      throw GiveUp{"backend_missing", "this NNAPI has no ANeuralNetworks" + name + ": Android 10 brings it"};
    }
    const int result = function(arguments...);
    if (result != 0) {
      throw GiveUp{"nnapi_compile_failed", "ANeuralNetworks" + name + " returned error " + std::to_string(result) +
                                               " (" + meaning(result) + ")"};
    }
  }

  void free(void* model) const {
    if (const auto function = reinterpret_cast<void (*)(void*)>(symbol("Model_free"))) {
      function(model);
    }
  }

  std::vector<void*> devices() const {
    uint32_t count = 0;
    call("_getDeviceCount", &count);
    std::vector<void*> found(count);
    for (uint32_t index = 0; index < count; ++index) {
      call("_getDevice", index, &found[index]);
    }
    return found;
  }

 private:
  void* symbol(const std::string& name) const {
    return library_ == nullptr ? nullptr : dlsym(library_, ("ANeuralNetworks" + name).c_str());
  }

  void* library_;
};

inline c10::IValue attribute(const Object& object, const std::string& name) {
  const auto slot = object->type()->findAttributeSlot(name);
  return slot ? object->getSlot(*slot) : c10::IValue();
}

// The parts of `object` that run in NNAPI, outermost first.
inline void collect_parts(const Object& object, std::vector<Object>& parts) {
  if (attribute(object, "ser_model").isTensor()) {
    parts.push_back(object);
  }
  for (const c10::IValue& slot : object->slots()) {
    if (slot.isObject() && slot.toObject()->type()->is_module()) {
      collect_parts(slot.toObject(), parts);
    }
  }
}

// The serialized model; `input_dims` fill in the sizes of one with a flexible batch.
inline NnapiContent content_of(const Object& part, const std::vector<int64_t>& input_dims) {
  const at::Tensor words = attribute(part, "ser_model").toTensor().contiguous();
#ifndef EDGESWEEP_WITHOUT_FULL
  const c10::IValue shapes = attribute(part, "shape_compute_module");
  if (!input_dims.empty() && shapes.isObject()) {
    c10::List<at::Tensor> inputs;
    inputs.push_back(at::empty(input_dims));
    torch::jit::Module(shapes.toObject()).get_method("prepare")({words, inputs});
  }
#endif
  return parse_nnapi({static_cast<const char*>(words.data_ptr()), words.nbytes()});
}

// The model in NNAPI's hands, finished, while this lives. It points into the weights and `content`.
class NnapiBuilt {
 public:
  NnapiBuilt(const Nnapi& nnapi, const NnapiContent& content, const Object& part) : nnapi_(nnapi) {
    const c10::IValue listed = attribute(part, "weights");
    for (const c10::IValue& weight : listed.isList() ? listed.toListRef() : c10::ArrayRef<c10::IValue>()) {
      weights_.push_back(weight.toTensor().contiguous());
    }
    nnapi_.call("Model_create", &model_);
    try {
      fill(content);
      const c10::IValue relaxed = attribute(part, "relax_f32_to_f16");
      nnapi_.call("Model_relaxComputationFloat32toFloat16", model_, relaxed.isBool() && relaxed.toBool());
      nnapi_.call("Model_finish", model_);
    } catch (...) {
      nnapi_.free(model_);
      throw;
    }
  }
  NnapiBuilt(const NnapiBuilt&) = delete;
  NnapiBuilt& operator=(const NnapiBuilt&) = delete;
  ~NnapiBuilt() { nnapi_.free(model_); }

  // For each operation, whether `device` takes it.
  std::vector<bool> accepted(void* device, size_t operations) const {
    const std::unique_ptr<bool[]> taken(new bool[operations + 1]());
    const void* const devices[] = {device};
    nnapi_.call("Model_getSupportedOperationsForDevices", model_, &devices[0], uint32_t{1}, taken.get());
    return std::vector<bool>(taken.get(), taken.get() + operations);
  }

 private:
  void fill(const NnapiContent& content) const {
    for (const NnapiOperand& operand : content.operands) {
      const OperandType type{operand.type, static_cast<uint32_t>(operand.dimensions.size()), operand.dimensions.data(),
                             operand.scale, operand.zero_point};
      nnapi_.call("Model_addOperand", model_, &type);
    }
    for (const auto& [index, value] : content.values) {
      nnapi_.call("Model_setOperandValue", model_, static_cast<int32_t>(index), place_of(index, value),
                  size_t{value.length});
    }
    for (const NnapiOperation& operation : content.operations) {
      nnapi_.call("Model_addOperation", model_, operation.code, static_cast<uint32_t>(operation.inputs.size()),
                  operation.inputs.data(), static_cast<uint32_t>(operation.outputs.size()), operation.outputs.data());
    }
    nnapi_.call("Model_identifyInputsAndOutputs", model_, static_cast<uint32_t>(content.inputs.size()),
                content.inputs.data(), static_cast<uint32_t>(content.outputs.size()), content.outputs.data());
  }

  const void* place_of(uint32_t index, const NnapiValue& value) const {
    if (!value.in_weights) {
      return value.content.data();
    }
    if (value.weight >= weights_.size() ||
        uint64_t{value.offset} + value.length > static_cast<uint64_t>(weights_[value.weight].nbytes())) {
      malformed("operand " + std::to_string(index) + " lies outside of the weights");
    }
    return static_cast<const char*>(weights_[value.weight].data_ptr()) + value.offset;
  }

  const Nnapi& nnapi_;
  std::vector<at::Tensor> weights_;
  void* model_ = nullptr;
};

inline Event described(const Nnapi& nnapi, void* device) {
  static const char* const kTypes[] = {"unknown", "other", "cpu", "gpu", "accelerator"};
  const char* name = nullptr;
  const char* version = nullptr;
  int32_t type = 0;
  int64_t feature_level = 0;
  nnapi.call("Device_getName", device, &name);
  nnapi.call("Device_getType", device, &type);
  nnapi.call("Device_getVersion", device, &version);
  nnapi.call("Device_getFeatureLevel", device, &feature_level);
  const bool known = type >= 0 && type < static_cast<int32_t>(std::size(kTypes));
  return Event("nnapi_device")
      .with("name", name == nullptr ? "" : name)
      .with("type", kTypes[known ? type : 0])
      .with("version", version == nullptr ? "" : version)
      .with("feature_level", feature_level);
}

// Ask the library that is loaded or installed, for the model `object` if there is one.
inline void tell_devices(const Object& object, const std::vector<int64_t>& input_dims, const Report& report) {
  const Nnapi nnapi;
  const std::vector<void*> devices = nnapi.devices();
  std::vector<Object> parts;
  if (object) {
    collect_parts(object, parts);
    if (parts.empty()) {
      throw GiveUp{"wrong_backend", "the model has no part for NNAPI"};
    }
  }
  std::vector<std::string> operations;
  std::vector<std::vector<bool>> accepts(devices.size());
  for (const Object& part : parts) {
    const NnapiContent content = content_of(part, input_dims);
    for (const NnapiOperation& operation : content.operations) {
      operations.push_back(operation_name(operation.code));
    }
    const NnapiBuilt built(nnapi, content, part);
    for (size_t at = 0; at < devices.size(); ++at) {
      const std::vector<bool> taken = built.accepted(devices[at], content.operations.size());
      accepts[at].insert(accepts[at].end(), taken.begin(), taken.end());
    }
  }
  if (object) {
    report.tell(Event("nnapi_model").with("operations", operations));
  }
  for (size_t at = 0; at < devices.size(); ++at) {
    Event event = described(nnapi, devices[at]);
    report.tell(object ? event.with("accepts", accepts[at]) : event);
  }
}
