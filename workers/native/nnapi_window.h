// A window that slides over images: its padding, strides and steps, and the images' layout.
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

}  // namespace nnapi
