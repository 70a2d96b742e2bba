// Convolutions and the fully connected layer: sums of products with a bias.
#pragma once

#include "nnapi_window.h"

namespace nnapi {

inline void require_bias(const Call& call, int64_t channels) {
  const at::Tensor bias = call.raw(2);
  if (bias.dim() != 1 || bias.size(0) != channels) {
    call.refuse("operand 2, the bias, must have size ", channels, ", but has ", bias.sizes());
  }
}

// multiply(image, filter) with the bias added along `channel`, as real values. `filter_channel` is the dimension of the
// filter operand along which channels have scales of their own. 8-bit numbers are multiplied as the integers that they
// are: in float32 where no sum can leave the integers that it holds exactly, else in float64.
template <class Multiply>
at::Tensor accumulated(const Call& call, int64_t channel, int64_t filter_channel, const Multiply& multiply) {
  const auto along = [&](const at::Tensor& values, const at::Tensor& like) {
    Sizes shape(like.dim(), 1);
    shape[channel] = -1;
    return values.reshape(shape);
  };
  if (!call.quantized()) {
    const at::Tensor sums = multiply(call.real(0), call.real(1));
    return sums + along(call.real(2), sums);
  }
  const Operand& filter = call.operand(1);
  if (!filter.channel_scales.empty() && filter.channel_dimension != filter_channel) {
    call.refuse("operand 1 has its scales along dimension ", filter.channel_dimension, ", not ", filter_channel);
  }
  const double largest_input =
      std::max(call.operand(0).quantization.zero_point, 255 - call.operand(0).quantization.zero_point);
  const at::Tensor weights = call.centered(1, at::kFloat);
  const at::Tensor weight_sums = at::abs(weights).transpose(0, filter_channel).flatten(1).sum(1, false, at::kDouble);
  const double largest_sum = largest_input * weight_sums.max().item<double>();
  const bool small = largest_sum < (1 << 24);
  const auto as = small ? at::kFloat : at::kDouble;
  const at::Tensor sums = multiply(call.centered(0, as), weights.to(as)).to(at::kDouble);
  const at::Tensor integers = sums + along(call.raw(2).to(at::kDouble), sums);
  const at::Tensor scales = call.scale(1).reshape({-1}) * call.operand(0).quantization.scale;
  return integers * along(scales, sums);
}

enum class Kernel { kPlain, kDepthwise, kGrouped };

inline void convolve(Call& call, Kernel kernel) {
  require_image(call, 0);
  require_image(call, 1);
  const size_t strides_end = call.form().implicit_padding ? 6 : 9;
  const size_t activation = strides_end + (kernel == Kernel::kPlain ? 0 : 1);
  const bool nchw = call.flag(activation + 1);
  if (call.has(activation + 2) != call.has(activation + 3)) {
    call.refuse("only one of its two dilations has a value");
  }
  const bool dilated = call.has(activation + 2);
  const int64_t dilation_width = dilated ? call.integer(activation + 2, 1, kMostStride) : 1;
  const int64_t dilation_height = dilated ? call.integer(activation + 3, 1, kMostStride) : 1;
  const Sizes image = nchw_of(call.raw(0), nchw).sizes().vec();
  const Sizes filter =
      call.raw(1).sizes().vec();  // [out, height, width, in], or [1, height, width, out] of a depthwise one
  const bool depthwise = kernel == Kernel::kDepthwise;
  const int64_t channels = depthwise ? filter[3] : filter[0];
  int64_t groups = 1;
  if (depthwise) {
    groups = image[1];
    const int64_t multiplier = call.integer(strides_end, 1, kMostStride);
    if (filter[0] != 1 || channels != image[1] * multiplier) {
      call.refuse("a filter of sizes ", c10::IntArrayRef(filter), " does not fit ", image[1],
                  " channels with multiplier ", multiplier);
    }
  } else {
    groups = kernel == Kernel::kGrouped ? call.integer(strides_end, 1, kMostStride) : 1;
    if (image[1] != filter[3] * groups || channels % groups != 0) {
      call.refuse("a filter of sizes ", c10::IntArrayRef(filter), " does not fit ", image[1], " channels in ", groups,
                  " groups");
    }
  }
  require_bias(call, channels);
  const Window window = window_of(call, 3, image, filter[1], filter[2], dilation_height, dilation_width);
  expect_image(call, image[0], channels, window.height.steps(image[2]), window.width.steps(image[3]), nchw);
  const auto& [top, bottom] = window.height.padding;
  const auto& [left, right] = window.width.padding;
  const bool even = top == bottom && left == right;
  const int64_t strides[] = {window.height.stride, window.width.stride};
  const int64_t padding[] = {even ? top : 0, even ? left : 0};
  const int64_t dilations[] = {dilation_height, dilation_width};
  const at::Tensor real =
      accumulated(call, 1, depthwise ? 3 : 0, [&](const at::Tensor& input, const at::Tensor& weights) {
        const at::Tensor ordered = depthwise ? weights.permute({3, 0, 1, 2}) : weights.permute({0, 3, 1, 2});
        const at::Tensor source = nchw_of(input, nchw);
        return at::conv2d(even ? source : padded(call, source, window, 0), ordered, {}, strides, padding, dilations,
                          groups);
      });
  call.put(laid_out(call.activated(real, activation), nchw));
}

inline void conv_2d(Call& call) { convolve(call, Kernel::kPlain); }
inline void depthwise_conv_2d(Call& call) { convolve(call, Kernel::kDepthwise); }
inline void grouped_conv_2d(Call& call) { convolve(call, Kernel::kGrouped); }

inline void transpose_conv_2d(Call& call) {
  require_image(call, 0);
  require_image(call, 1);
  const bool implicit = call.form().implicit_padding;
  const size_t activation = implicit ? 7 : 9;
  const bool nchw = call.flag(activation + 1);
  const Sizes image = nchw_of(call.raw(0), nchw).sizes().vec();
  const Sizes filter = call.raw(1).sizes().vec();  // [out, height, width, in]
  if (filter[3] != image[1]) {
    call.refuse("a filter of sizes ", c10::IntArrayRef(filter), " does not fit ", image[1], " channels");
  }
  require_bias(call, filter[0]);
  Window window;
  int64_t height = 0;
  int64_t width = 0;
  if (implicit) {
    const Sizes wanted = call.integers(3);
    if (wanted.size() != 4) {
      call.refuse("operand 3, the sizes of the result, must have 4 elements, but has ", wanted.size());
    }
    height = wanted[nchw ? 2 : 1];
    width = wanted[nchw ? 3 : 2];
    expect_image(call, wanted[0], wanted[nchw ? 1 : 3], height, width, nchw);
    const bool same = call.integer(4, kSame, kValid) == kSame;
    window.width = {filter[2], call.integer(5, 1, kMostStride), 1, {}};
    window.height = {filter[1], call.integer(6, 1, kMostStride), 1, {}};
    if (same) {
      window.height.padding = same_padding(height, window.height);
      window.width.padding = same_padding(width, window.width);
    }
    if (window.height.steps(height) != image[2] || window.width.steps(width) != image[3]) {
      call.refuse("an image of ", image[2], " x ", image[3], " can not become ", height, " x ", width);
    }
  } else {
    window = window_of(call, 3, image, filter[1], filter[2]);
    const auto grown = [](int64_t size, const Span& span) {
      return (size - 1) * span.stride + span.filter - span.padding.before - span.padding.after;
    };
    height = grown(image[2], window.height);
    width = grown(image[3], window.width);
  }
  expect_image(call, image[0], filter[0], height, width, nchw);
  // The whole transposed convolution, of which padding cuts the edges off.
  call.afford({image[0], filter[0], (image[2] - 1) * window.height.stride + filter[1],
               (image[3] - 1) * window.width.stride + filter[2]});
  const at::Tensor real = accumulated(call, 1, 0, [&](const at::Tensor& input, const at::Tensor& weights) {
    const int64_t strides[] = {window.height.stride, window.width.stride};
    const at::Tensor whole = at::conv_transpose2d(nchw_of(input, nchw), weights.permute({3, 0, 1, 2}), {}, strides);
    const auto cut = [](const at::Tensor& of, int64_t dimension, const Padding& padding, int64_t size) {
      const int64_t missing = padding.before + size - of.size(dimension);
      Sizes more(2 * (4 - dimension), 0);
      more.back() = std::max<int64_t>(0, missing);
      return at::constant_pad_nd(of, more, 0).narrow(dimension, padding.before, size);
    };
    return cut(cut(whole, 2, window.height.padding, height), 3, window.width.padding, width);
  });
  call.put(laid_out(call.activated(real, activation), nchw));
}

inline void fully_connected(Call& call) {
  const at::Tensor weights = call.raw(1);
  if (weights.dim() != 2 || call.raw(0).dim() < 2) {
    call.refuse("it needs data of 2 to 4 dimensions and weights of 2, not ", call.raw(0).sizes(), " and ",
                weights.sizes());
  }
  const int64_t size = weights.size(1);
  if (call.raw(0).numel() % size != 0) {
    call.refuse("data of sizes ", call.raw(0).sizes(), " does not divide into rows of ", size);
  }
  require_bias(call, weights.size(0));
  call.expect({call.raw(0).numel() / size, weights.size(0)});
  const at::Tensor real = accumulated(call, 1, 0, [&](const at::Tensor& input, const at::Tensor& filter) {
    return at::linear(input.reshape({-1, size}), filter);
  });
  call.put(call.activated(real, 3));
}

}  // namespace nnapi
