// Pools.
#pragma once

#include "nnapi_window.h"

namespace nnapi {

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

}  // namespace nnapi
