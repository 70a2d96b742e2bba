// PyTorch Mobile's Metal operators for the machine that exports: the names, schemas and pickled state of iOS' libtorch
// (aten/src/ATen/native/metal/MetalPrepackOpRegister.cpp, v2.8), so that optimize_for_mobile(backend="metal")
// works on the stock wheel and its file loads on iOS; and host kernels, so that the file can be checked here.
//
// What the host kernels model: iOS keeps every image and every weight as fp16, so input, weight, bias and result are
// rounded to fp16. What they do not: how the GPU accumulates inside an operator (here: fp32), the order of its sums,
// and subnormals that it may flush to zero. Time on the host says nothing about iOS.

#include <cmath>
#include <limits>
#include <optional>
#include <tuple>
#include <vector>

#include <ATen/ATen.h>
#include <torch/custom_class.h>
#include <torch/library.h>

namespace {

using at::Scalar;
using at::Tensor;
using MaybeTensor = std::optional<Tensor>;
using MaybeScalar = std::optional<Scalar>;
using Numbers = std::vector<int64_t>;

// Longest side of a Metal texture. Anything above is a broken file.
constexpr int64_t kLongestSide = 16384;

Tensor as_half(const Tensor& tensor) {
  return tensor.to(at::kHalf).to(at::kFloat);
}

void check_tensor(const Tensor& tensor, int64_t dims, const char* what) {
  const bool dense = tensor.defined() && tensor.device().is_cpu() && tensor.layout() == at::kStrided;
  TORCH_CHECK(dense, what, " must be a dense CPU tensor");
  TORCH_CHECK(tensor.scalar_type() == at::kFloat, what, " must be float32, not ", tensor.scalar_type());
  TORCH_CHECK(tensor.dim() == dims, what, " must have ", dims, " dimensions, not ", tensor.dim());
}

void check_bias(const MaybeTensor& bias, int64_t channels) {
  if (bias.has_value()) {
    check_tensor(*bias, 1, "the bias");
    TORCH_CHECK(bias->size(0) == channels, "the bias is for ", bias->size(0), " channels, the weight for ", channels);
  }
}

void check_pair(const Numbers& pair, int64_t least, const char* what) {
  TORCH_CHECK(pair.size() == 2, what, " must be two numbers, not ", pair.size());
  for (const auto number : pair) {
    const bool within = number >= least && number <= kLongestSide;
    TORCH_CHECK(within, what, " ", number, " is not within ", least, " and ", kLongestSide);
  }
}

// The fused activation. iOS knows none, ReLU (0, none) and a clamp between two bounds; it leaves any other bound out.
class Bounds {
 public:
  Bounds(const MaybeScalar& low, const MaybeScalar& high) : low_(low), high_(high) {
    const auto infinity = std::numeric_limits<float>::infinity();
    const auto least = low ? low->to<float>() : -infinity;
    const auto most = high ? high->to<float>() : infinity;
    const bool none = least == -infinity && most == infinity;
    const bool relu = least == 0 && most == infinity;
    const bool clamp = std::isfinite(least) && std::isfinite(most) && least <= most;
    TORCH_CHECK(none || relu || clamp, "iOS fuses no activation between ", least, " and ", most);
  }

  Tensor apply(const Tensor& result) const {
    return low_ || high_ ? at::clamp(result, low_, high_) : result;
  }

  const MaybeScalar& low() const { return low_; }
  const MaybeScalar& high() const { return high_; }

 private:
  MaybeScalar low_, high_;
};

// The state is what iOS unpickles, in fp32; the rounded copies are for the host.
class Conv2dOpContext : public torch::CustomClassHolder {
 public:
  using State = std::tuple<Tensor, MaybeTensor, Numbers, Numbers, Numbers, int64_t, MaybeScalar, MaybeScalar>;

  Conv2dOpContext(
      Tensor weight,
      MaybeTensor bias,
      Numbers stride,
      Numbers padding,
      Numbers dilation,
      int64_t groups,
      const MaybeScalar& low,
      const MaybeScalar& high)
      : weight_(std::move(weight)),
        bias_(std::move(bias)),
        stride_(std::move(stride)),
        padding_(std::move(padding)),
        dilation_(std::move(dilation)),
        groups_(groups),
        bounds_(low, high) {
    check_tensor(weight_, 4, "the weight");
    check_pair(stride_, 1, "the stride");
    check_pair(padding_, 0, "the padding");
    check_pair(dilation_, 1, "the dilation");
    TORCH_CHECK(weight_.numel() > 0, "the weight is empty");
    const auto channels = weight_.size(0);
    const bool divides = groups_ >= 1 && groups_ <= channels && channels % groups_ == 0;
    TORCH_CHECK(divides, channels, " output channels can not form ", groups_, " groups");
    check_bias(bias_, channels);
    half_weight_ = as_half(weight_);
    half_bias_ = bias_ ? std::make_optional(as_half(*bias_)) : std::nullopt;
  }

  State pack() const {
    return {weight_, bias_, stride_, padding_, dilation_, groups_, bounds_.low(), bounds_.high()};
  }

  Tensor run(const Tensor& input) const {
    check_tensor(input, 4, "the input");
    const auto channels = weight_.size(1) * groups_;
    TORCH_CHECK(input.size(1) == channels, "the input has ", input.size(1), " channels, the weight is for ", channels);
    TORCH_CHECK(dilation_[0] == 1 && dilation_[1] == 1, "iOS has no dilated convolution");
    const auto result = at::conv2d(as_half(input), half_weight_, half_bias_, stride_, padding_, dilation_, groups_);
    return as_half(bounds_.apply(result));
  }

 private:
  Tensor weight_;
  MaybeTensor bias_;
  Numbers stride_, padding_, dilation_;
  int64_t groups_;
  Bounds bounds_;
  Tensor half_weight_;
  MaybeTensor half_bias_;
};

class LinearOpContext : public torch::CustomClassHolder {
 public:
  using State = std::tuple<Tensor, MaybeTensor, MaybeScalar, MaybeScalar>;

  LinearOpContext(Tensor weight, MaybeTensor bias, const MaybeScalar& low, const MaybeScalar& high)
      : weight_(std::move(weight)), bias_(std::move(bias)), bounds_(low, high) {
    check_tensor(weight_, 2, "the weight");
    TORCH_CHECK(weight_.numel() > 0, "the weight is empty");
    check_bias(bias_, weight_.size(0));
    half_weight_ = as_half(weight_);
    half_bias_ = bias_ ? std::make_optional(as_half(*bias_)) : std::nullopt;
  }

  State pack() const {
    return {weight_, bias_, bounds_.low(), bounds_.high()};
  }

  Tensor run(const Tensor& input) const {
    check_tensor(input, 2, "the input");
    const auto features = weight_.size(1);
    TORCH_CHECK(input.size(1) == features, "the input has ", input.size(1), " features, the weight is for ", features);
    return as_half(bounds_.apply(at::linear(as_half(input), half_weight_, half_bias_)));
  }

 private:
  Tensor weight_;
  MaybeTensor bias_;
  Bounds bounds_;
  Tensor half_weight_;
  MaybeTensor half_bias_;
};

c10::intrusive_ptr<Conv2dOpContext> conv2d_prepack(
    const Tensor& weight,
    const MaybeTensor& bias,
    Numbers stride,
    Numbers padding,
    Numbers dilation,
    int64_t groups,
    const MaybeScalar& low,
    const MaybeScalar& high) {
  return c10::make_intrusive<Conv2dOpContext>(
      weight, bias, std::move(stride), std::move(padding), std::move(dilation), groups, low, high);
}

c10::intrusive_ptr<LinearOpContext> linear_prepack(
    const Tensor& weight, const MaybeTensor& bias, const MaybeScalar& low, const MaybeScalar& high) {
  return c10::make_intrusive<LinearOpContext>(weight, bias, low, high);
}

Tensor conv2d_run(const Tensor& input, const c10::intrusive_ptr<Conv2dOpContext>& context) {
  return context->run(input);
}

Tensor linear_run(const Tensor& input, const c10::intrusive_ptr<LinearOpContext>& context) {
  return context->run(input);
}

template <class Context>
c10::intrusive_ptr<Context> unpack(typename Context::State state) {
  const auto make = [](auto&&... parts) { return c10::make_intrusive<Context>(std::move(parts)...); };
  return std::apply(make, std::move(state));
}

TORCH_LIBRARY(metal, m) {
  m.class_<Conv2dOpContext>("Conv2dOpContext")
      .def_pickle(
          [](const c10::intrusive_ptr<Conv2dOpContext>& context) { return context->pack(); },
          [](Conv2dOpContext::State state) { return unpack<Conv2dOpContext>(std::move(state)); });
  m.class_<LinearOpContext>("LinearOpContext")
      .def_pickle(
          [](const c10::intrusive_ptr<LinearOpContext>& context) { return context->pack(); },
          [](LinearOpContext::State state) { return unpack<LinearOpContext>(std::move(state)); });
  m.def("copy_to_host(Tensor X) -> Tensor Y");
}

TORCH_LIBRARY(metal_prepack, m) {
  m.def(
      "conv2d_prepack(Tensor W, Tensor? B, int[2] stride, int[2] padding, int[2] dilation, int groups, "
      "Scalar? output_min=None, Scalar? output_max=None) -> __torch__.torch.classes.metal.Conv2dOpContext");
  m.def("conv2d_run(Tensor X, __torch__.torch.classes.metal.Conv2dOpContext W_prepack) -> Tensor Y");
  m.def(
      "linear_prepack(Tensor W, Tensor? B, Scalar? output_min=None, Scalar? output_max=None) "
      "-> __torch__.torch.classes.metal.LinearOpContext");
  m.def("linear_run(Tensor X, __torch__.torch.classes.metal.LinearOpContext W_prepack) -> Tensor Y");
}

TORCH_LIBRARY_IMPL(metal, CPU, m) {
  m.impl("copy_to_host", TORCH_FN(as_half));
}

TORCH_LIBRARY_IMPL(metal_prepack, CPU, m) {
  m.impl("conv2d_prepack", TORCH_FN(conv2d_prepack));
  m.impl("conv2d_run", TORCH_FN(conv2d_run));
  m.impl("linear_prepack", TORCH_FN(linear_prepack));
  m.impl("linear_run", TORCH_FN(linear_run));
}

}  // namespace
