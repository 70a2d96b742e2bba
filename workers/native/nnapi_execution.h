// Compilations and executions: a finished model run on the caller's buffers.
#pragma once

#include <atomic>
#include <future>
#include <memory>

#include <c10/core/InferenceMode.h>

#include "nnapi_memory.h"
#include "nnapi_operations.h"

namespace nnapi {

struct Compilation {
  std::shared_ptr<const Model> model;
  bool accelerator_only = false;
  bool finished = false;

  void finish() {
    if (finished) {
      fail(kBadState, "the compilation is finished already");
    }
    for (const Operation& operation : model->operations) {
      if (accelerator_only && !accelerated(*model, operation)) {
        fail(kBadData, Model::name(operation), " is supported by no device of the compilation");
      }
    }
    finished = true;
  }

  static bool accelerated(const Model& model, const Operation& operation) {
    return operation.signature->convolution && model.operands[operation.inputs[0]].type == kTensorQuant8Asymm;
  }
};

// A buffer of the caller, or a place in a memory.
struct Place {
  bool set = false;
  bool omitted = false;
  Sizes sizes;  // as known when it was set
  void* buffer = nullptr;
  std::shared_ptr<const Memory> memory;
  size_t offset = 0;
  size_t length = 0;
};

class Execution {
 public:
  explicit Execution(std::shared_ptr<const Model> model)
      : model_(std::move(model)), inputs_(model_->inputs.size()), outputs_(model_->outputs.size()) {}

  void set_input(int32_t index, const ANeuralNetworksOperandType* type, Place place) {
    Place& kept = slot(inputs_, index, "input");
    const Operand& operand = model_->operands[model_->inputs[index]];
    if (place.omitted && type == nullptr) {
      kept = std::move(place);
      return;
    }
    place.sizes = sizes_of(operand, type, "input", index);
    if (facts(operand.type).tensor && !complete(place.sizes)) {
      fail(kBadData, "input ", index, " has sizes ", c10::IntArrayRef(place.sizes), ": all must be known and none 0");
    }
    require_length(place, operand, "input", index);
    kept = std::move(place);
  }

  void set_output(int32_t index, const ANeuralNetworksOperandType* type, Place place) {
    Place& kept = slot(outputs_, index, "output");
    const Operand& operand = model_->operands[model_->outputs[index]];
    place.sizes = sizes_of(operand, type, "output", index);
    if (complete(place.sizes) && !place.omitted) {
      require_length(place, operand, "output", index);
    }
    kept = std::move(place);
  }

  // Claims the one time that an execution may be computed.
  void start() {
    if (started_.exchange(true)) {
      fail(kBadState, "the execution was computed before, or is being computed");
    }
  }

  void compute() {
    const c10::InferenceMode inference;
    try {
      run();
    } catch (...) {
      done_ = true;
      throw;
    }
    done_ = true;
  }

  Sizes output_sizes(int32_t index) const {
    if (!done_) {
      fail(kBadState, "the execution has not been computed");
    }
    if (index < 0 || index >= static_cast<int32_t>(outputs_.size())) {
      fail(kBadData, "there is no output ", index, ": the model has ", outputs_.size());
    }
    if (results_.empty()) {
      fail(kBadState, "the execution failed and has no output");
    }
    return results_[index];
  }

  // The sizes of an output that found too little room are told, with the code that says so.
  void require_room(int32_t index) const {
    if (short_[index]) {
      fail(kOutputInsufficientSize, "output ", index, " of sizes ", c10::IntArrayRef(results_[index]),
           " found too little room");
    }
  }

 private:
  Place& slot(std::vector<Place>& places, int32_t index, const char* role) {
    if (started_) {
      fail(kBadState, "the execution was started and its ", role, "s are fixed");
    }
    if (index < 0 || index >= static_cast<int32_t>(places.size())) {
      fail(kBadData, "there is no ", role, " ", index, ": the model has ", places.size());
    }
    return places[index];
  }

  // The declared sizes, completed by those of the call.
  static Sizes sizes_of(const Operand& declared, const ANeuralNetworksOperandType* type, const char* role,
                        int32_t index) {
    if (type == nullptr) {
      return declared.sizes;
    }
    const Operand given = operand_of(*type);
    if (given.type != declared.type || !(given.quantization == declared.quantization)) {
      fail(kBadData, role, " ", index, " is a ", facts(given.type).name, " with scale ", given.quantization.scale,
           " and zero point ", given.quantization.zero_point, ", but the model declares a ", facts(declared.type).name,
           " with ", declared.quantization.scale, " and ", declared.quantization.zero_point);
    }
    if (!fits(declared.sizes, given.sizes)) {
      fail(kBadData, role, " ", index, " has sizes ", c10::IntArrayRef(given.sizes), ", but the model declares ",
           c10::IntArrayRef(declared.sizes));
    }
    return given.sizes;
  }

  static void require_length(const Place& place, const Operand& operand, const char* role, int32_t index) {
    const int64_t expected = byte_size(operand.type, place.sizes);
    if (place.length != static_cast<size_t>(expected)) {
      fail(kBadData, role, " ", index, " must be ", expected, " bytes long, but is ", place.length);
    }
  }

  void run() {
    const Model& model = *model_;
    std::vector<at::Tensor> values(model.operands.size());
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = model.operands[i].value;
    }
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const Place& place = inputs_[i];
      if (!place.set) {
        fail(kBadData, "input ", i, " was never set");
      }
      if (!place.omitted) {
        const int32_t type = model.operands[model.inputs[i]].type;
        values[model.inputs[i]] = place.memory
                                      ? copied(place.memory->read(place.offset, place.length).data(), type, place.sizes)
                                      : copied(place.buffer, type, place.sizes);
      }
    }
    for (size_t i = 0; i < outputs_.size(); ++i) {
      if (!outputs_[i].set) {
        fail(kBadData, "output ", i, " was never set");
      }
    }
    std::vector<int64_t> readers = model.readers;
    for (const Operation& operation : model.operations) {
      run_one(operation, values);
      for (const uint32_t index : operation.inputs) {
        if (--readers[index] == 0 && !model.operands[index].output) {
          values[index].reset();
        }
      }
    }
    deliver(values);
  }

  void run_one(const Operation& operation, std::vector<at::Tensor>& values) const {
    Call call(*model_, operation, values);
    try {
      for (size_t i = 0; i < call.count(); ++i) {
        if (call.has(i) && call.raw(i).dim() > static_cast<int64_t>(operation.signature->most_dimensions)) {
          call.refuse("operand ", i, " has ", call.raw(i).dim(), " dimensions; it takes ",
                      operation.signature->most_dimensions);
        }
      }
      operation.signature->run(call);
    } catch (const c10::Error& error) {
      fail(kOpFailed, Model::name(operation), ": ", error.what_without_backtrace());
    }
  }

  void deliver(const std::vector<at::Tensor>& values) {
    short_.assign(outputs_.size(), false);
    std::string told;
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const at::Tensor& value = values[model_->outputs[i]];
      const Place& place = outputs_[i];
      results_.push_back(value.sizes().vec());
      if (!fits(place.sizes, value.sizes())) {
        fail(kBadData, "output ", i, " has sizes ", value.sizes(), ", but ", c10::IntArrayRef(place.sizes),
             " was asked for");
      }
      if (place.length < value.nbytes()) {
        short_[i] = true;
        told = c10::str("output ", i, " of sizes ", value.sizes(), " needs ", value.nbytes(), " bytes, but has ",
                        place.length);
      } else if (place.memory) {
        place.memory->write(place.offset, value.data_ptr(), value.nbytes());
      } else {
        std::memcpy(place.buffer, value.data_ptr(), value.nbytes());
      }
    }
    if (!told.empty()) {
      fail(kOutputInsufficientSize, told);
    }
  }

  std::shared_ptr<const Model> model_;
  std::vector<Place> inputs_;
  std::vector<Place> outputs_;
  std::atomic<bool> started_{false};
  std::atomic<bool> done_{false};
  std::vector<Sizes> results_;
  std::vector<bool> short_;
};

}  // namespace nnapi
