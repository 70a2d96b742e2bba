// One operation while it runs: its operands as numbers, and the place for its result.
#pragma once

#include "nnapi_model.h"

namespace nnapi {

// More elements than any phone holds in one tensor: the limit of what a model that leaves sizes open can ask for.
constexpr int64_t kMostElements = int64_t{1} << 28;

inline at::Tensor rounded_to_half(const at::Tensor& values) { return values.to(at::kHalf).to(at::kFloat); }

// Ties away from zero, as NNAPI rounds when it quantizes.
inline at::Tensor rounded(const at::Tensor& values) {
  return at::copysign(at::floor(at::abs(values).add_(0.5)), values);
}

class Call {
 public:
  Call(const Model& model, const Operation& operation, std::vector<at::Tensor>& values)
      : model_(model), operation_(operation), values_(values) {}

  const Form& form() const { return *operation_.form; }
  size_t count() const { return operation_.inputs.size(); }
  bool has(size_t i) const { return i < count() && operand(i).source != Source::kOmitted && stored(i).defined(); }
  const Operand& operand(size_t i) const { return model_.operands[operation_.inputs[i]]; }
  const Operand& result() const { return model_.operands[operation_.outputs[0]]; }
  bool quantized() const { return operand(0).type == kTensorQuant8Asymm; }

  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    fail(kBadData, Model::name(operation_), ": ", parts...);
  }

  // The stored numbers of a tensor.
  at::Tensor raw(size_t i) const {
    if (!has(i)) {
      refuse("operand ", i, " has no value");
    }
    return stored(i);
  }

  // What the numbers mean: float32 of float tensors, float64 of 8-bit ones, int64 of integers.
  at::Tensor real(size_t i) const {
    const at::Tensor numbers = raw(i);
    switch (operand(i).type) {
      case kTensorFloat32:
        return model_.relaxed ? rounded_to_half(numbers) : numbers;
      case kTensorInt32:
        return numbers.to(at::kLong);
      default:
        return centered(i, at::kDouble).mul_(scale(i));
    }
  }

  // The stored numbers of an 8-bit tensor less its zero point, exactly.
  at::Tensor centered(size_t i, at::ScalarType as) const {
    return raw(i).to(as).sub_(static_cast<double>(operand(i).quantization.zero_point));
  }

  // The step of an 8-bit tensor; along its channels, ready to broadcast, where each has its own.
  at::Tensor scale(size_t i) const {
    const Operand& tensor = operand(i);
    if (tensor.channel_scales.empty()) {
      return at::scalar_tensor(tensor.quantization.scale, at::kDouble);
    }
    Sizes shape(tensor.sizes.size(), 1);
    shape[tensor.channel_dimension] = -1;
    return at::tensor(tensor.channel_scales, at::kDouble).reshape(shape);
  }

  int64_t integer(size_t i) const { return *raw(i).data_ptr<int32_t>(); }

  int64_t integer(size_t i, int64_t low, int64_t high) const {
    const int64_t value = integer(i);
    if (value < low || value > high) {
      refuse("operand ", i, " is ", value, ", outside ", low, "..", high);
    }
    return value;
  }

  double number(size_t i) const {
    return operand(i).type == kFloat32 ? *raw(i).data_ptr<float>() : static_cast<double>(integer(i));
  }

  bool flag(size_t i) const { return has(i) && *raw(i).data_ptr<uint8_t>() != 0; }

  Sizes integers(size_t i) const {
    const at::Tensor list = raw(i);
    if (list.dim() != 1) {
      refuse("operand ", i, " must be a vector, but has ", list.dim(), " dimensions");
    }
    const int32_t* first = list.data_ptr<int32_t>();
    return Sizes(first, first + list.numel());
  }

  // An axis; from the end where it is negative.
  int64_t axis(int64_t given, int64_t dimensions) const {
    if (given < -dimensions || given >= dimensions) {
      refuse("axis ", given, " is outside a tensor of ", dimensions, " dimensions");
    }
    return given < 0 ? given + dimensions : given;
  }

  // Said before the work: the sizes of a tensor that it will make.
  void afford(c10::IntArrayRef sizes) const {
    int64_t elements = 1;
    for (const int64_t size : sizes) {
      if (size <= 0) {
        refuse("it would make a tensor of sizes ", sizes);
      }
      if (size > kMostElements / elements) {
        refuse("a tensor of sizes ", sizes, " is too large");
      }
      elements *= size;
    }
  }

  // Said before the work: the sizes of its result.
  void expect(c10::IntArrayRef sizes) const {
    afford(sizes);
    if (!fits(result().sizes, sizes)) {
      refuse("its result has sizes ", sizes, ", but operand ", operation_.outputs[0], " is declared with ",
             c10::IntArrayRef(result().sizes));
    }
  }

  // The result as stored numbers.
  void put_raw(const at::Tensor& numbers) {
    expect(numbers.sizes());
    values_[operation_.outputs[0]] = numbers.to(facts(result().type).stored).contiguous();
  }

  // What an 8-bit result stores for real values.
  at::Tensor steps(const at::Tensor& meant) const {
    const auto [scale, zero_point] = result().quantization;
    const at::Tensor whole = rounded(at::nan_to_num(meant.to(at::kDouble) / scale, 0.0));
    return whole.add_(static_cast<double>(zero_point)).clamp_(0, 255).to(at::kByte);
  }

  // The result as what it means: rounded to the steps, or the type, of the result.
  void put(const at::Tensor& meant) {
    const Operand& out = result();
    if (out.type == kTensorQuant8Asymm) {
      put_raw(steps(meant));
    } else if (out.type == kTensorFloat32 && model_.relaxed) {
      put_raw(rounded_to_half(meant));
    } else {
      put_raw(meant);
    }
  }

  at::Tensor activated(const at::Tensor& values, size_t i) const {
    switch (integer(i, 0, 3)) {
      case 1:
        return at::clamp_min(values, 0);
      case 2:
        return at::clamp(values, -1, 1);
      case 3:
        return at::clamp(values, 0, 6);
      default:
        return values;
    }
  }

 private:
  const at::Tensor& stored(size_t i) const { return values_[operation_.inputs[i]]; }

  const Model& model_;
  const Operation& operation_;
  std::vector<at::Tensor>& values_;
};

}  // namespace nnapi
