// The operations that the reference knows: all that PyTorch's serializer emits, and what a rewrite may add.
#pragma once

#include "nnapi_convolution.h"
#include "nnapi_elementwise.h"
#include "nnapi_pool.h"
#include "nnapi_shapes.h"

namespace nnapi {

inline const std::vector<Signature>& signatures() {
  using Types = std::vector<int32_t>;
  const Types real = {kTensorFloat32};
  const Types either = {kTensorFloat32, kTensorQuant8Asymm};
  const Types numbers = {kTensorFloat32, kTensorQuant8Asymm, kTensorInt32};
  const Types filters = {kTensorQuant8Asymm, kTensorQuant8SymmPerChannel};
  const std::vector<Form> depthwise = {{"xwbiiiiiiii|nii"}, {"xwbiiiii|nii", true}};
  const std::vector<Form> pool = {{"xiiiiiiiii|n"}, {"xiiiiii|n", true}};
  constexpr auto freely = Quantized::kFreely;
  constexpr auto as_input = Quantized::kAsInput;
  constexpr size_t any = kMostDimensions;
  static const std::vector<Signature> table = {
      {0, "ADD", numbers, {{"xxi"}}, {}, freely, 4, activated_binary<sum>, false},
      {1, "AVERAGE_POOL_2D", either, pool, {}, as_input, 4, average_pool_2d, false},
      {2, "CONCATENATION", either, {{"x*i"}}, {}, freely, 4, concatenation, false},
      {3, "CONV_2D", either, {{"xwbiiiiiii|nii"}, {"xwbiiii|nii", true}}, {}, freely, 4, conv_2d, true},
      {4, "DEPTHWISE_CONV_2D", either, depthwise, {}, freely, 4, depthwise_conv_2d, true},
      {6, "DEQUANTIZE", filters, {{"x"}}, real, freely, any, unary<same>, false},
      {9, "FULLY_CONNECTED", either, {{"xwbi"}}, {}, freely, 4, fully_connected, false},
      {14, "LOGISTIC", either, {{"x"}}, {}, Quantized::kProbability, 4, unary<logistic>, false},
      {17, "MAX_POOL_2D", either, pool, {}, as_input, 4, max_pool_2d, false},
      {18, "MUL", numbers, {{"xxi"}}, {}, Quantized::kAboveProduct, 4, activated_binary<product>, false},
      {19, "RELU", either, {{"x"}}, {}, as_input, 4, unary<relu>, false},
      {20, "RELU1", either, {{"x"}}, {}, as_input, 4, unary<relu1>, false},
      {21, "RELU6", either, {{"x"}}, {}, as_input, 4, unary<relu6>, false},
      {22, "RESHAPE", either, {{"xv"}}, {}, as_input, 4, reshape, false},
      {25, "SOFTMAX", either, {{"xf|i"}}, {}, Quantized::kProbability, 4, normalized<softmax>, false},
      {28, "TANH", either, {{"x"}}, {}, Quantized::kTanh, 4, unary<hyperbolic_tangent>, false},
      {30, "DIV", {kTensorFloat32, kTensorInt32}, {{"xxi"}}, {}, freely, 4, activated_binary<quotient>, false},
      {31, "MEAN", either, {{"xvi"}}, {}, as_input, 4, mean, false},
      {32, "PAD", either, {{"xv"}}, {}, as_input, 4, pad, false},
      {34, "SQUEEZE", either, {{"x|v"}}, {}, as_input, 4, squeeze, false},
      {35, "STRIDED_SLICE", either, {{"xvvviii"}}, {}, as_input, 4, strided_slice, false},
      {36, "SUB", numbers, {{"xxi"}}, {}, freely, 4, activated_binary<difference>, false},
      {37, "TRANSPOSE", either, {{"x|v"}}, {}, as_input, 4, transpose, false},
      {38, "ABS", real, {{"x"}}, {}, freely, any, unary<absolute>, false},
      {45, "CAST", numbers, {{"x"}}, numbers, freely, any, cast, false},
      {46, "CHANNEL_SHUFFLE", either, {{"xii"}}, {}, as_input, 4, channel_shuffle, false},
      {49, "EXP", real, {{"x"}}, {}, freely, any, unary<exponential>, false},
      {50, "EXPAND_DIMS", numbers, {{"xi"}}, {}, as_input, any, expand_dims, false},
      {55, "GROUPED_CONV_2D", either, {{"xwbiiiiiiiin"}, {"xwbiiiiin", true}}, {}, freely, 4, grouped_conv_2d, true},
      {64, "LOG_SOFTMAX", real, {{"xfi"}}, {}, freely, any, normalized<log_softmax>, false},
      {65, "MAXIMUM", numbers, {{"xx"}}, {}, freely, any, binary<larger>, false},
      {66, "MINIMUM", numbers, {{"xx"}}, {}, freely, any, binary<smaller>, false},
      {71, "PRELU", either, {{"xx"}}, {}, freely, any, binary<prelu>, false},
      {72, "QUANTIZE", real, {{"x"}}, {kTensorQuant8Asymm}, freely, any, unary<same>, false},
      {83, "RSQRT", real, {{"x"}}, {}, freely, any, unary<reciprocal_root>, false},
      {86, "SLICE", numbers, {{"xvv"}}, {}, as_input, any, slice, false},
      {91, "TRANSPOSE_CONV_2D", either, {{"xwbiiiiiiin"}, {"xwbviiiin", true}}, {}, freely, 4, transpose_conv_2d, true},
      {94, "RESIZE_NEAREST_NEIGHBOR", either, {{"xrrn|nn"}}, {}, as_input, 4, resize_nearest_neighbor, false},
      {99, "HARD_SWISH", either, {{"x"}}, {}, freely, any, unary<hard_swish>, false},
      {102, "BATCH_MATMUL", real, {{"xxnn"}}, {}, freely, 4, batch_matmul, false},
  };
  return table;
}

inline const Signature& signature_of(int32_t code) {
  for (const Signature& signature : signatures()) {
    if (signature.code == code) {
      return signature;
    }
  }
  fail(kBadData, "the reference knows no operation ", code);
}

inline void require_quantized(const Signature& signature, const Operand& input, const Operand& result, double product) {
  const auto require = [&](bool right, const auto&... parts) {
    if (!right) {
      fail(kBadData, signature.name, ": its result has scale ", result.quantization.scale, " and zero point ",
           result.quantization.zero_point, ", but NNAPI wants ", parts...);
    }
  };
  switch (signature.quantized) {
    case Quantized::kAsInput:
      require(result.quantization == input.quantization, "those of operand 0, ", input.quantization.scale, " and ",
              input.quantization.zero_point);
      break;
    case Quantized::kProbability:
      require(result.quantization == Quantization{1.0 / 256, 0}, "1/256 and 0");
      break;
    case Quantized::kTanh:
      require(result.quantization == Quantization{1.0 / 128, 128}, "1/128 and 128");
      break;
    case Quantized::kAboveProduct:
      require(result.quantization.scale > product, "a scale above ", product, ", the product of the inputs' scales");
      break;
    case Quantized::kFreely:
      break;
  }
}

// The bias of an 8-bit convolution counts in units of input scale times filter scale.
inline void require_bias_scale(const Signature& signature, const Operand& input, const Operand& filter,
                               const Operand& bias) {
  const double scale = bias.quantization.scale;
  const double product = filter.type == kTensorQuant8Asymm ? input.quantization.scale * filter.quantization.scale : 0;
  if (std::abs(scale - product) > 1e-6 * std::min(scale, product) || (product == 0 && scale != 0)) {
    fail(kBadData, signature.name, ": operand 2, the bias, has scale ", scale, ", but must have ", product);
  }
}

inline void Model::add_operation(int32_t code, uint32_t input_count, const uint32_t* given_inputs,
                                 uint32_t output_count, const uint32_t* given_outputs) {
  require_open();
  const Signature& signature = signature_of(code);
  const std::string name = signature.name;
  Operation operation;
  operation.signature = &signature;
  operation.number = static_cast<int64_t>(operations.size());
  operation.inputs = indices(name + " input", input_count, given_inputs);
  operation.outputs = indices(name + " output", output_count, given_outputs);
  if (output_count != 1) {
    fail(kBadData, name, ": it has 1 result, not ", output_count);
  }
  std::vector<int32_t> types;
  for (const uint32_t index : operation.inputs) {
    types.push_back(operands[index].type);
  }
  if (types.empty() || std::find(signature.data.begin(), signature.data.end(), types[0]) == signature.data.end()) {
    fail(kBadData, name, ": it does not take ", types.empty() ? "no operands" : facts(types[0]).name);
  }
  operation.form = &form_of(signature, types);
  Operand& result = operands[operation.outputs[0]];
  const std::vector<int32_t> results = signature.results.empty() ? std::vector<int32_t>{types[0]} : signature.results;
  if (std::find(results.begin(), results.end(), result.type) == results.end()) {
    fail(kBadData, name, ": its result can not be a ", facts(result.type).name);
  }
  if (result.source != Source::kComputed || result.writer >= 0) {
    fail(kBadData, name, ": its result, operand ", operation.outputs[0], ", has a value already");
  }
  const Operand& input = operands[operation.inputs[0]];
  if (types[0] == kTensorQuant8Asymm) {
    const std::string form = *letters(*operation.form, types.size());
    if (form.substr(0, 3) == "xwb") {
      require_bias_scale(signature, input, operands[operation.inputs[1]], operands[operation.inputs[2]]);
    }
    const double product =
        form.substr(0, 2) == "xx" ? input.quantization.scale * operands[operation.inputs[1]].quantization.scale : 0;
    require_quantized(signature, input, result, product);
  }
  result.writer = operation.number;
  operations.push_back(std::move(operation));
}

}  // namespace nnapi
