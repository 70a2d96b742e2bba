// The constants and structures of NNAPI's C interface that PyTorch's runtime uses, and the failure that every part
// of the reference raises. Values are those of Android's NeuralNetworksTypes.h, which are frozen.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

namespace nnapi {

enum Result : int {
  kNoError = 0,
  kOutOfMemory = 1,
  kUnexpectedNull = 3,
  kBadData = 4,
  kOpFailed = 5,
  kBadState = 6,
  kUnmappable = 7,
  kOutputInsufficientSize = 8,
  kUnavailableDevice = 9,
};

enum Type : int32_t {
  kFloat32 = 0,
  kInt32 = 1,
  kUint32 = 2,
  kTensorFloat32 = 3,
  kTensorInt32 = 4,
  kTensorQuant8Asymm = 5,
  kBool = 6,
  kTensorQuant16Symm = 7,
  kTensorFloat16 = 8,
  kTensorBool8 = 9,
  kFloat16 = 10,
  kTensorQuant8SymmPerChannel = 11,
  kTensorQuant16Asymm = 12,
  kTensorQuant8Symm = 13,
};

// One step of an 8-bit tensor, and the number that stands for 0.
struct Quantization {
  double scale = 0;
  int64_t zero_point = 0;
  bool operator==(const Quantization& other) const { return scale == other.scale && zero_point == other.zero_point; }
};

// A refused call: the result code that it returns and the sentence that says why.
struct Failure {
  int code;
  std::string sentence;
};

template <class... Parts>
[[noreturn]] void fail(int code, const Parts&... parts) {
  throw Failure{code, c10::str(parts...)};
}

struct TypeFacts {
  const char* name;
  at::ScalarType stored;
  bool tensor;
};

inline const TypeFacts& facts(int32_t type) {
  static const TypeFacts table[] = {
      {"FLOAT32", at::kFloat, false},
      {"INT32", at::kInt, false},
      {"UINT32", at::kInt, false},
      {"TENSOR_FLOAT32", at::kFloat, true},
      {"TENSOR_INT32", at::kInt, true},
      {"TENSOR_QUANT8_ASYMM", at::kByte, true},
      {"BOOL", at::kByte, false},
      {"TENSOR_QUANT16_SYMM", at::kShort, true},
      {"TENSOR_FLOAT16", at::kHalf, true},
      {"TENSOR_BOOL8", at::kByte, true},
      {"FLOAT16", at::kHalf, false},
      {"TENSOR_QUANT8_SYMM_PER_CHANNEL", at::kChar, true},
      {"TENSOR_QUANT16_ASYMM", at::kShort, true},
      {"TENSOR_QUANT8_SYMM", at::kChar, true},
  };
  if (type < 0 || type >= static_cast<int32_t>(std::size(table))) {
    fail(kBadData, "there is no operand type ", type);
  }
  return table[type];
}

using Sizes = std::vector<int64_t>;

// Android refuses operands of 2^32 bytes; PyTorch counts them in 31 bits.
constexpr int64_t kMostBytes = std::numeric_limits<int32_t>::max();

// Bytes of a tensor of these sizes; 0 if one of them is 0. Fails beyond kMostBytes.
inline int64_t byte_size(int32_t type, const Sizes& sizes) {
  int64_t bytes = static_cast<int64_t>(c10::elementSize(facts(type).stored));
  for (const int64_t size : sizes) {
    if (size == 0) {
      return 0;
    }
    if (size > kMostBytes / bytes) {
      fail(kBadData, "a ", facts(type).name, " of sizes ", c10::IntArrayRef(sizes), " is larger than 2 GB");
    }
    bytes *= size;
  }
  return bytes;
}

// Whether sizes that are known fit the declared ones, in which 0 is unknown and an empty list an unknown rank.
inline bool fits(const Sizes& declared, c10::IntArrayRef sizes) {
  if (declared.empty()) {
    return true;
  }
  if (declared.size() != sizes.size()) {
    return false;
  }
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (declared[i] != 0 && declared[i] != sizes[i]) {
      return false;
    }
  }
  return true;
}

inline bool complete(const Sizes& sizes) {
  for (const int64_t size : sizes) {
    if (size == 0) {
      return false;
    }
  }
  return !sizes.empty();
}

// A tensor that owns a copy of `bytes`: the caller's memory need neither be aligned nor live on.
inline at::Tensor copied(const void* bytes, int32_t type, const Sizes& sizes) {
  at::Tensor tensor = at::empty(sizes, facts(type).stored);
  std::memcpy(tensor.data_ptr(), bytes, tensor.nbytes());
  return tensor;
}

}  // namespace nnapi

// The structures that cross the C boundary.
struct ANeuralNetworksOperandType {
  int32_t type;
  uint32_t dimensionCount;
  const uint32_t* dimensions;
  float scale;
  int32_t zeroPoint;
};

struct ANeuralNetworksSymmPerChannelQuantParams {
  uint32_t channelDim;
  uint32_t scaleCount;
  const float* scales;
};
