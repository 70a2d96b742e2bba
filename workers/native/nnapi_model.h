// A model: operands, operations and the order in which they run. What it holds after finish() never changes.
#pragma once

#include <algorithm>
#include <cstring>
#include <optional>

#include "nnapi_signature.h"
#include "nnapi_types.h"

namespace nnapi {

// More than any model has; a count beyond it is garbage, and is refused before anything is read.
constexpr uint32_t kMostDimensions = 8;
constexpr uint32_t kMostOperands = 1u << 20;
constexpr uint32_t kMostRepeated = 16;

enum class Source { kComputed, kConstant, kOmitted, kInput };

struct Operand {
  int32_t type = 0;
  Sizes sizes;  // as declared: 0 is unknown, empty with a tensor type an unknown rank
  Quantization quantization;
  int64_t channel_dimension = 0;
  std::vector<double> channel_scales;
  Source source = Source::kComputed;
  at::Tensor value;     // of a constant
  int64_t writer = -1;  // the operation whose result it is
  bool output = false;  // of the model
};

struct Operation {
  const Signature* signature = nullptr;
  const Form* form = nullptr;
  std::vector<uint32_t> inputs;
  std::vector<uint32_t> outputs;
  int64_t number = 0;  // as added
};

// What a type in a call says, checked as Android checks it.
inline Operand operand_of(const ANeuralNetworksOperandType& given) {
  const TypeFacts& type = facts(given.type);
  if (given.dimensionCount > kMostDimensions || (!type.tensor && given.dimensionCount != 0)) {
    fail(kBadData, "a ", type.name, " can not have ", given.dimensionCount, " dimensions");
  }
  if (given.dimensionCount != 0 && given.dimensions == nullptr) {
    fail(kUnexpectedNull, "a ", type.name, " with ", given.dimensionCount, " dimensions came without them");
  }
  Operand operand;
  operand.type = given.type;
  operand.sizes.assign(given.dimensions, given.dimensions + given.dimensionCount);
  operand.quantization = {given.scale, given.zeroPoint};
  byte_size(given.type, operand.sizes);
  const auto [scale, zero_point] = operand.quantization;
  const bool asymmetric = given.type == kTensorQuant8Asymm || given.type == kTensorQuant16Asymm;
  const bool scaled = asymmetric || given.type == kTensorQuant8Symm || given.type == kTensorQuant16Symm;
  const int64_t highest = given.type == kTensorQuant8Asymm ? 255 : given.type == kTensorQuant16Asymm ? 65535 : 0;
  if (!std::isfinite(scale) || scale < 0 || (scaled && scale == 0)) {
    fail(kBadData, "a ", type.name, " can not have scale ", scale);
  }
  if (!scaled && given.type != kTensorInt32 && scale != 0) {
    fail(kBadData, "a ", type.name, " has no scale, but ", scale, " was given");
  }
  if (zero_point < 0 || zero_point > highest) {
    fail(kBadData, "a ", type.name, " can not have zero point ", zero_point);
  }
  return operand;
}

class Model {
 public:
  std::vector<Operand> operands;
  std::vector<Operation> operations;  // in the order in which they run, once finished
  std::vector<uint32_t> inputs;
  std::vector<uint32_t> outputs;
  std::vector<int64_t> readers;  // operations that read an operand
  bool relaxed = false;
  bool finished = false;

  void add_operand(const ANeuralNetworksOperandType& given) {
    require_open();
    if (operands.size() >= kMostOperands) {
      fail(kBadData, "the model has more than ", kMostOperands, " operands");
    }
    operands.push_back(operand_of(given));
  }

  // The bytes that `length` says are read, and only after they were found to be the operand's.
  void set_value(int32_t index, const void* bytes, size_t length) {
    Operand& operand = unset(index);
    if (bytes == nullptr) {
      if (length != 0) {
        fail(kUnexpectedNull, "the value of operand ", index, " is null, but ", length, " bytes long");
      }
      operand.source = Source::kOmitted;
      return;
    }
    require_length(operand, index, length);
    operand.value = copied(bytes, operand.type, operand.sizes);
    operand.source = Source::kConstant;
  }

  // The operand that a value of `length` bytes may be set for.
  void require_value_fits(int32_t index, size_t length) { require_length(unset(index), index, length); }

  void set_channel_scales(int32_t index, const ANeuralNetworksSymmPerChannelQuantParams& given) {
    require_open();
    Operand& operand = at(index);
    if (operand.type != kTensorQuant8SymmPerChannel) {
      fail(kBadData, "operand ", index, " is a ", facts(operand.type).name, ", which has no scale per channel");
    }
    if (given.scales == nullptr) {
      fail(kUnexpectedNull, "the channel scales of operand ", index, " are null");
    }
    if (given.channelDim >= operand.sizes.size() || operand.sizes[given.channelDim] != given.scaleCount) {
      fail(kBadData, "operand ", index, " of sizes ", c10::IntArrayRef(operand.sizes), " can not have ",
           given.scaleCount, " scales along dimension ", given.channelDim);
    }
    std::vector<double> scales(given.scales, given.scales + given.scaleCount);
    for (const double scale : scales) {
      if (!std::isfinite(scale) || scale <= 0) {
        fail(kBadData, "operand ", index, " can not have channel scale ", scale);
      }
    }
    operand.channel_dimension = given.channelDim;
    operand.channel_scales = std::move(scales);
  }

  void add_operation(int32_t code, uint32_t input_count, const uint32_t* given_inputs, uint32_t output_count,
                     const uint32_t* given_outputs);

  void identify(uint32_t input_count, const uint32_t* given_inputs, uint32_t output_count,
                const uint32_t* given_outputs) {
    require_open();
    if (!outputs.empty()) {
      fail(kBadState, "the inputs and outputs of the model were named before");
    }
    if (output_count == 0) {
      fail(kBadData, "the model has no output");
    }
    std::vector<uint32_t> in = indices("model input", input_count, given_inputs);
    std::vector<uint32_t> out = indices("model output", output_count, given_outputs);
    std::vector<uint32_t> all = in;
    all.insert(all.end(), out.begin(), out.end());
    std::sort(all.begin(), all.end());
    if (const auto twice = std::adjacent_find(all.begin(), all.end()); twice != all.end()) {
      fail(kBadData, "operand ", *twice, " is an input or output of the model more than once");
    }
    for (const uint32_t index : all) {
      if (operands[index].source != Source::kComputed) {
        fail(kBadData, "operand ", index, " has a value and can not be an input or output of the model");
      }
    }
    for (const uint32_t index : in) {
      if (operands[index].writer >= 0) {
        fail(kBadData, "model input ", index, " is the result of operation ", operands[index].writer);
      }
      operands[index].source = Source::kInput;
    }
    for (const uint32_t index : out) {
      operands[index].output = true;
    }
    inputs = std::move(in);
    outputs = std::move(out);
  }

  // Orders the operations; fails on values that are read and never written, and on cycles.
  void finish() {
    require_open();
    if (outputs.empty()) {
      fail(kBadState, "the inputs and outputs of the model were never named");
    }
    for (const uint32_t index : outputs) {
      if (operands[index].writer < 0) {
        fail(kBadData, "model output ", index, " is no operation's result");
      }
    }
    readers.assign(operands.size(), 0);
    std::vector<std::vector<size_t>> waiting(operands.size());
    std::vector<size_t> missing(operations.size(), 0);
    std::vector<size_t> ready;
    for (size_t i = 0; i < operations.size(); ++i) {
      for (const uint32_t index : operations[i].inputs) {
        readers[index] += 1;
        const Operand& operand = operands[index];
        if (operand.type == kTensorQuant8SymmPerChannel && operand.channel_scales.empty()) {
          fail(kBadData, name(operations[i]), ": operand ", index, " has no scales per channel");
        }
        if (operand.source == Source::kComputed) {
          if (operand.writer < 0) {
            fail(kBadData, name(operations[i]), ": operand ", index, " is read, but nothing gives it a value");
          }
          waiting[index].push_back(i);
          missing[i] += 1;
        }
      }
      if (missing[i] == 0) {
        ready.push_back(i);
      }
    }
    std::vector<Operation> ordered;
    for (size_t next = 0; next < ready.size(); ++next) {
      ordered.push_back(operations[ready[next]]);
      for (const uint32_t index : ordered.back().outputs) {
        for (const size_t reader : waiting[index]) {
          if (--missing[reader] == 0) {
            ready.push_back(reader);
          }
        }
      }
    }
    if (ordered.size() != operations.size()) {
      const size_t stuck =
          std::find_if(missing.begin(), missing.end(), [](size_t n) { return n > 0; }) - missing.begin();
      fail(kBadData, name(operations[stuck]), " waits for its own result: the model has a cycle");
    }
    operations = std::move(ordered);
    finished = true;
  }

  void require_open() const {
    if (finished) {
      fail(kBadState, "the model is finished and can not change any more");
    }
  }

  static std::string name(const Operation& operation) {
    return c10::str(operation.signature->name, " (operation ", operation.number, ")");
  }

 private:
  Operand& at(int64_t index) {
    if (index < 0 || index >= static_cast<int64_t>(operands.size())) {
      fail(kBadData, "there is no operand ", index, ": the model has ", operands.size());
    }
    return operands[index];
  }

  Operand& unset(int32_t index) {
    require_open();
    Operand& operand = at(index);
    if (operand.source == Source::kInput || operand.output || operand.writer >= 0) {
      fail(kBadData, "operand ", index, " is computed or an input, and can not have a fixed value");
    }
    return operand;
  }

  static void require_length(const Operand& operand, int32_t index, size_t length) {
    if (facts(operand.type).tensor && !complete(operand.sizes)) {
      fail(kBadData, "operand ", index, " of sizes ", c10::IntArrayRef(operand.sizes), " can not have a fixed value");
    }
    const int64_t expected = byte_size(operand.type, operand.sizes);
    if (length != static_cast<size_t>(expected)) {
      fail(kBadData, "the value of operand ", index, " must be ", expected, " bytes long, but is ", length);
    }
  }

  std::vector<uint32_t> indices(const std::string& role, uint32_t count, const uint32_t* given) const {
    // One operand may stand in several places of an operation.
    if (count > operands.size() + kMostRepeated) {
      fail(kBadData, role, "s: ", count, " of them, but the model has ", operands.size(), " operands");
    }
    if (count != 0 && given == nullptr) {
      fail(kUnexpectedNull, role, "s are null");
    }
    std::vector<uint32_t> found(given, given + count);
    for (const uint32_t index : found) {
      if (index >= operands.size()) {
        fail(kBadData, role, " ", index, " does not exist: the model has ", operands.size(), " operands");
      }
    }
    return found;
  }
};

}  // namespace nnapi
