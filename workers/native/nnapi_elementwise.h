// Operations on each element, along one axis, or from one type to another.
#pragma once

#include "nnapi_call.h"

namespace nnapi {

inline void expect_broadcast(const Call& call) {
  const c10::IntArrayRef left = call.raw(0).sizes();
  const c10::IntArrayRef right = call.raw(1).sizes();
  Sizes sizes(std::max(left.size(), right.size()), 1);
  for (const c10::IntArrayRef side : {left, right}) {
    for (size_t i = 0; i < side.size(); ++i) {
      int64_t& size = sizes[sizes.size() - side.size() + i];
      if (size != 1 && side[i] != 1 && size != side[i]) {
        call.refuse("operands of sizes ", left, " and ", right, " do not broadcast");
      }
      size = std::max(size, side[i]);
    }
  }
  call.expect(sizes);
}

using Binary = at::Tensor (*)(const at::Tensor&, const at::Tensor&);

template <Binary compute>
void binary(Call& call) {
  expect_broadcast(call);
  call.put(compute(call.real(0), call.real(1)));
}

template <Binary compute>
void activated_binary(Call& call) {
  expect_broadcast(call);
  const at::Tensor values = compute(call.real(0), call.real(1));
  if (call.operand(0).type == kTensorInt32 && call.integer(2, 0, 3) != 0) {
    call.refuse("operand 2 must be 0 beside integers, which have no fused activation");
  }
  call.put(call.activated(values, 2));
}

inline at::Tensor sum(const at::Tensor& left, const at::Tensor& right) { return at::add(left, right); }
inline at::Tensor difference(const at::Tensor& left, const at::Tensor& right) { return at::sub(left, right); }
inline at::Tensor product(const at::Tensor& left, const at::Tensor& right) { return at::mul(left, right); }
inline at::Tensor larger(const at::Tensor& left, const at::Tensor& right) { return at::maximum(left, right); }
inline at::Tensor smaller(const at::Tensor& left, const at::Tensor& right) { return at::minimum(left, right); }
inline at::Tensor prelu(const at::Tensor& values, const at::Tensor& slope) {
  return at::where(values >= 0, values, values * slope);
}
// Integers are divided as Python's // does.
inline at::Tensor quotient(const at::Tensor& left, const at::Tensor& right) {
  return left.is_floating_point() ? at::div(left, right) : at::div(left, right, "floor");
}

using Unary = at::Tensor (*)(const at::Tensor&);

template <Unary compute>
void unary(Call& call) {
  call.put(compute(call.real(0)));
}

inline at::Tensor same(const at::Tensor& values) { return values; }
inline at::Tensor relu(const at::Tensor& values) { return at::clamp_min(values, 0); }
inline at::Tensor relu1(const at::Tensor& values) { return at::clamp(values, -1, 1); }
inline at::Tensor relu6(const at::Tensor& values) { return at::clamp(values, 0, 6); }
inline at::Tensor logistic(const at::Tensor& values) { return at::sigmoid(values); }
inline at::Tensor hyperbolic_tangent(const at::Tensor& values) { return at::tanh(values); }
inline at::Tensor absolute(const at::Tensor& values) { return at::abs(values); }
inline at::Tensor exponential(const at::Tensor& values) { return at::exp(values); }
inline at::Tensor reciprocal_root(const at::Tensor& values) { return at::rsqrt(values); }
inline at::Tensor hard_swish(const at::Tensor& values) { return values * at::clamp(values + 3, 0, 6) / 6; }

template <at::Tensor (*compute)(const at::Tensor&, int64_t, std::optional<at::ScalarType>)>
void normalized(Call& call) {
  const double beta = call.number(1);
  if (!std::isfinite(beta) || beta <= 0) {
    call.refuse("operand 1, beta, is ", beta, ", but must be above 0");
  }
  const at::Tensor values = call.real(0);
  const int64_t axis = call.axis(call.has(2) ? call.integer(2) : -1, values.dim());
  call.put(compute(values * beta, axis, std::nullopt));
}

inline at::Tensor softmax(const at::Tensor& values, int64_t axis, std::optional<at::ScalarType> type) {
  return at::softmax(values, axis, type);
}
inline at::Tensor log_softmax(const at::Tensor& values, int64_t axis, std::optional<at::ScalarType> type) {
  return at::log_softmax(values, axis, type);
}

// All dimensions at once leave one element of one dimension.
inline void mean(Call& call) {
  const at::Tensor values = call.real(0);
  Sizes axes;
  for (const int64_t given : call.integers(1)) {
    const int64_t axis = call.axis(given, values.dim());
    if (std::find(axes.begin(), axes.end(), axis) == axes.end()) {
      axes.push_back(axis);
    }
  }
  const at::Tensor means = axes.empty() ? values : at::mean(values, axes, call.integer(2) > 0);
  call.put(means.dim() == 0 ? means.reshape({1}) : means);
}

// 8-bit tensors count as the integers that they store; what a type can not hold becomes its nearest.
inline void cast(Call& call) {
  const at::Tensor values = call.raw(0).to(at::kDouble);
  switch (call.result().type) {
    case kTensorFloat32:
      return call.put(values);
    case kTensorInt32:
      return call.put_raw(at::nan_to_num(values, 0.0).trunc().clamp(-2147483648.0, 2147483647.0));
    default:
      return call.put_raw(at::nan_to_num(values, 0.0).trunc().clamp(0, 255));
  }
}

inline void batch_matmul(Call& call) {
  at::Tensor left = call.real(0);
  at::Tensor right = call.real(1);
  if (call.flag(2)) left = left.transpose(-1, -2);
  if (call.flag(3)) right = right.transpose(-1, -2);
  if (left.dim() < 2 || left.dim() != right.dim() || left.size(-1) != right.size(-2)) {
    call.refuse("operands of sizes ", left.sizes(), " and ", right.sizes(), " do not multiply");
  }
  call.put(at::matmul(left, right));
}

}  // namespace nnapi
