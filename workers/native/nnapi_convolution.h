// Operations that slide a window over images: convolutions and pools; and the fully connected layer.
#pragma once

#include "nnapi_call.h"

namespace nnapi {

struct Padding {
  int64_t before = 0;
  int64_t after = 0;
};

// One direction of a window.
struct Span {
  int64_t filter = 1;
  int64_t stride = 1;
  int64_t dilation = 1;
  Padding padding;

  int64_t reach() const { return (filter - 1) * dilation + 1; }
  int64_t steps(int64_t size) const {
    const int64_t room = size + padding.before + padding.after - reach();
    return room < 0 ? 0 : room / stride + 1;
  }
};

struct Window {
  Span height;
  Span width;
};

constexpr int64_t kMostStride = 1 << 15;
constexpr int64_t kSame = 1;
constexpr int64_t kValid = 2;

// NNAPI's SAME: as many steps as there are strides in the image, the odd pixel after it.
inline Padding same_padding(int64_t size, const Span& span) {
  const int64_t steps = (size + span.stride - 1) / span.stride;
  const int64_t total = std::max<int64_t>(0, (steps - 1) * span.stride + span.reach() - size);
  return {total / 2, total - total / 2};
}

// Padding (explicit: left, right, top, bottom; implicit: a scheme) and strides from operand `i` on.
inline Window window_of(const Call& call, size_t i, c10::IntArrayRef image, int64_t filter_height, int64_t filter_width,
                        int64_t dilation_height = 1, int64_t dilation_width = 1) {
  Window window;
  const size_t strides = i + (call.form().implicit_padding ? 1 : 4);
  window.width = {filter_width, call.integer(strides, 1, kMostStride), dilation_width, {}};
  window.height = {filter_height, call.integer(strides + 1, 1, kMostStride), dilation_height, {}};
  if (!call.form().implicit_padding) {
    window.width.padding = {call.integer(i, 0, kMostStride), call.integer(i + 1, 0, kMostStride)};
    window.height.padding = {call.integer(i + 2, 0, kMostStride), call.integer(i + 3, 0, kMostStride)};
  } else if (call.integer(i, kSame, kValid) == kSame) {
    window.height.padding = same_padding(image[2], window.height);
    window.width.padding = same_padding(image[3], window.width);
  }
  return window;
}

inline at::Tensor padded(const Call& call, const at::Tensor& image, const Window& window, double with) {
  const auto& [top, bottom] = window.height.padding;
  const auto& [left, right] = window.width.padding;
  if (top == 0 && bottom == 0 && left == 0 && right == 0) {
    return image;
  }
  call.afford({image.size(0), image.size(1), image.size(2) + top + bottom, image.size(3) + left + right});
  return at::constant_pad_nd(image, {left, right, top, bottom}, with);
}

inline void require_image(const Call& call, size_t i) {
  if (call.raw(i).dim() != 4) {
    call.refuse("operand ", i, " must have 4 dimensions, but has ", call.raw(i).dim());
  }
}

inline at::Tensor nchw_of(const at::Tensor& image, bool nchw) { return nchw ? image : image.permute({0, 3, 1, 2}); }
inline at::Tensor laid_out(const at::Tensor& image, bool nchw) { return nchw ? image : image.permute({0, 2, 3, 1}); }

inline void expect_image(const Call& call, int64_t batch, int64_t channels, int64_t height, int64_t width, bool nchw) {
  call.expect(nchw ? Sizes{batch, channels, height, width} : Sizes{batch, height, width, channels});
}

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

struct Pool {
  Window window;
  at::Tensor image;  // NCHW; 8-bit images as their stored numbers, whose means are exact
  bool nchw;
  size_t activation;
};

inline Pool pool_of(const Call& call) {
  require_image(call, 0);
  const bool implicit = call.form().implicit_padding;
  const size_t activation = implicit ? 6 : 9;
  const bool nchw = call.flag(activation + 1);
  const at::Tensor image = nchw_of(call.quantized() ? call.raw(0).to(at::kDouble) : call.real(0), nchw);
  const int64_t width = call.integer(activation - 2, 1, kMostStride);
  const int64_t height = call.integer(activation - 1, 1, kMostStride);
  const Window window = window_of(call, 1, image.sizes(), height, width);
  for (const Span& span : {window.height, window.width}) {
    if (span.padding.before >= span.filter || span.padding.after >= span.filter) {
      call.refuse("a window of ", span.filter, " would fit into a padding of ",
                  std::max(span.padding.before, span.padding.after));
    }
  }
  expect_image(call, image.size(0), image.size(1), window.height.steps(image.size(2)),
               window.width.steps(image.size(3)), nchw);
  return {window, image, nchw, activation};
}

inline void put_pooled(Call& call, const Pool& pool, const at::Tensor& pooled) {
  at::Tensor real = pooled;
  if (call.quantized()) {
    const auto [scale, zero_point] = call.operand(0).quantization;
    real = (at::floor(pooled + 0.5) - static_cast<double>(zero_point)) * scale;
  }
  call.put(laid_out(call.activated(real, pool.activation), pool.nchw));
}

// NNAPI's mean leaves the padding out of the count.
inline void average_pool_2d(Call& call) {
  const Pool pool = pool_of(call);
  const int64_t filter[] = {pool.window.height.filter, pool.window.width.filter};
  const int64_t strides[] = {pool.window.height.stride, pool.window.width.stride};
  const auto sums = [&](const at::Tensor& image) {
    return at::avg_pool2d(padded(call, image, pool.window, 0), filter, strides, {0, 0}, false, true, 1);
  };
  const at::Tensor ones = at::ones({1, 1, pool.image.size(2), pool.image.size(3)}, pool.image.options());
  put_pooled(call, pool, sums(pool.image) / sums(ones));
}

inline void max_pool_2d(Call& call) {
  const Pool pool = pool_of(call);
  const int64_t filter[] = {pool.window.height.filter, pool.window.width.filter};
  const int64_t strides[] = {pool.window.height.stride, pool.window.width.stride};
  const double lowest = -std::numeric_limits<double>::infinity();
  put_pooled(call, pool, at::max_pool2d(padded(call, pool.image, pool.window, lowest), filter, strides));
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
