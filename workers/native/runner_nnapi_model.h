// Reads the models that PyTorch serializes for NNAPI, as workers/runtimes/torchscript/nnapi/model.py.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runner_events.h"

struct NnapiOperand {
  int32_t type;
  std::vector<uint32_t> dimensions;
  float scale;
  int32_t zero_point;
};

// In the model itself (`content`), or in one of the weights beside it.
struct NnapiValue {
  bool in_weights;
  std::string content;
  uint32_t weight, offset, length;
};

struct NnapiOperation {
  int32_t code;
  std::vector<uint32_t> inputs, outputs;
};

struct NnapiContent {
  std::vector<NnapiOperand> operands;
  std::map<uint32_t, NnapiValue> values;
  std::vector<NnapiOperation> operations;
  std::vector<uint32_t> inputs, outputs;
};

// As in NeuralNetworks.h, without its prefix.
inline std::string operation_name(int32_t code) {
  static const std::map<int32_t, const char*> kNames = {
      {0, "ADD"}, {1, "AVERAGE_POOL_2D"}, {2, "CONCATENATION"}, {3, "CONV_2D"}, {4, "DEPTHWISE_CONV_2D"},
      {6, "DEQUANTIZE"}, {9, "FULLY_CONNECTED"}, {14, "LOGISTIC"}, {17, "MAX_POOL_2D"}, {18, "MUL"}, {19, "RELU"},
      {20, "RELU1"}, {21, "RELU6"}, {22, "RESHAPE"}, {25, "SOFTMAX"}, {28, "TANH"}, {30, "DIV"}, {31, "MEAN"},
      {35, "STRIDED_SLICE"}, {36, "SUB"}, {37, "TRANSPOSE"}, {38, "ABS"}, {49, "EXP"}, {50, "EXPAND_DIMS"},
      {55, "GROUPED_CONV_2D"}, {64, "LOG_SOFTMAX"}, {71, "PRELU"}, {72, "QUANTIZE"}, {83, "RSQRT"},
      {91, "TRANSPOSE_CONV_2D"}, {94, "RESIZE_NEAREST_NEIGHBOR"}, {99, "HARD_SWISH"}, {102, "BATCH_MATMUL"},
  };
  const auto found = kNames.find(code);
  return found == kNames.end() ? "OPERATION_" + std::to_string(code) : found->second;
}

[[noreturn]] inline void malformed(const std::string& what) {
  throw GiveUp{"malformed_nnapi_model", "this is no NNAPI model of PyTorch: " + what};
}

// The words of a serialized model, one after the other.
class NnapiReader {
 public:
  explicit NnapiReader(std::string content) : content_(std::move(content)) {}

  size_t left() const { return content_.size() - at_; }

  std::string take(size_t length) {
    if (length > left()) {
      malformed("it ends after " + std::to_string(content_.size()) + " bytes, too early");
    }
    at_ += length;
    return content_.substr(at_ - length, length);
  }

  template <class Word>
  Word word() {
    Word value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }

  std::vector<uint32_t> indices(uint32_t count) {
    const std::string words = take(size_t{4} * count);
    std::vector<uint32_t> found(count);
    std::memcpy(found.data(), words.data(), words.size());
    return found;
  }

 private:
  std::string content_;
  size_t at_ = 0;
};

inline NnapiValue value_of(NnapiReader& reader, int32_t source, uint32_t length) {
  if (source == 0) {
    NnapiValue value{false, reader.take(length), 0, 0, length};
    reader.take((4 - length % 4) % 4);
    return value;
  }
  if (source != 2 || length != 12) {
    malformed("a value from the source " + std::to_string(source) + " in " + std::to_string(length) + " bytes");
  }
  NnapiValue value{true, "", 0, 0, 0};
  value.weight = reader.word<uint32_t>();
  value.offset = reader.word<uint32_t>();
  value.length = reader.word<uint32_t>();
  return value;
}

inline NnapiContent parse_nnapi(std::string content) {
  struct Head {
    uint32_t first, second, third;
  };
  NnapiReader reader(std::move(content));
  if (reader.word<int32_t>() != 1) {
    malformed("its version is not 1");
  }
  uint32_t counts[5];
  for (uint32_t& count : counts) {
    count = reader.word<uint32_t>();
    // Every entry of every section takes 4 bytes at least.
    if (count >= 1U << 24 || count > reader.left() / 4) {
      malformed("a count of " + std::to_string(count));
    }
  }
  NnapiContent model;
  std::vector<uint32_t> ranks;
  for (uint32_t at = 0; at < counts[0]; ++at) {
    NnapiOperand operand{};
    operand.type = reader.word<int32_t>();
    ranks.push_back(reader.word<uint32_t>());
    operand.scale = reader.word<float>();
    operand.zero_point = reader.word<int32_t>();
    model.operands.push_back(operand);
  }
  std::vector<Head> values, shapes;
  for (uint32_t at = 0; at < counts[1] + counts[2]; ++at) {
    Head head{};
    head.first = reader.word<uint32_t>();
    head.second = reader.word<uint32_t>();
    head.third = reader.word<uint32_t>();
    (at < counts[1] ? values : shapes).push_back(head);
  }
  for (uint32_t at = 0; at < counts[0]; ++at) {
    model.operands[at].dimensions = reader.indices(ranks[at]);
  }
  std::vector<uint32_t> used;
  for (const Head& head : values) {
    model.values[head.first] = value_of(reader, static_cast<int32_t>(head.second), head.third);
    used.push_back(head.first);
  }
  for (const Head& head : shapes) {
    NnapiOperation operation{static_cast<int32_t>(head.first), reader.indices(head.second), {}};
    operation.outputs = reader.indices(head.third);
    used.insert(used.end(), operation.inputs.begin(), operation.inputs.end());
    used.insert(used.end(), operation.outputs.begin(), operation.outputs.end());
    model.operations.push_back(std::move(operation));
  }
  model.inputs = reader.indices(counts[3]);
  model.outputs = reader.indices(counts[4]);
  used.insert(used.end(), model.inputs.begin(), model.inputs.end());
  used.insert(used.end(), model.outputs.begin(), model.outputs.end());
  if (reader.left() != 0) {
    malformed(std::to_string(reader.left()) + " bytes after its end");
  }
  for (const uint32_t index : used) {
    if (index >= counts[0]) {
      malformed("operand " + std::to_string(index) + " of " + std::to_string(counts[0]));
    }
  }
  return model;
}
