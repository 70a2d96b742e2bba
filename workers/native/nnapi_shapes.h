// Operations that move numbers and change none.
#pragma once

#include <numeric>

#include "nnapi_call.h"

namespace nnapi {

inline void reshape(Call& call) {
  const at::Tensor values = call.raw(0);
  Sizes sizes = call.integers(1);
  int64_t known = 1;
  int64_t open = -1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == -1 && open < 0) {
      open = static_cast<int64_t>(i);
    } else if (sizes[i] <= 0 || sizes[i] > kMostElements / known) {
      call.refuse("operand 1 asks for sizes ", c10::IntArrayRef(sizes));
    } else {
      known *= sizes[i];
    }
  }
  if (open >= 0) {
    sizes[open] = values.numel() / known;
  }
  if (sizes.empty() || values.numel() % known != 0 || (open < 0 && known != values.numel())) {
    call.refuse("a tensor of sizes ", values.sizes(), " can not take sizes ", c10::IntArrayRef(sizes));
  }
  call.put_raw(values.reshape(sizes));
}

inline void transpose(Call& call) {
  const at::Tensor values = call.raw(0);
  Sizes order(values.dim());
  std::iota(order.rbegin(), order.rend(), 0);
  if (call.has(1)) {
    order = call.integers(1);
  }
  Sizes sorted = order;
  std::sort(sorted.begin(), sorted.end());
  Sizes all(values.dim());
  std::iota(all.begin(), all.end(), 0);
  if (sorted != all) {
    call.refuse("operand 1, ", c10::IntArrayRef(order), ", is no order of ", values.dim(), " dimensions");
  }
  call.put_raw(values.permute(order));
}

inline void squeeze(Call& call) {
  const at::Tensor values = call.raw(0);
  std::vector<bool> dropped(values.dim(), !call.has(1));
  if (call.has(1)) {
    for (const int64_t given : call.integers(1)) {
      const int64_t axis = call.axis(given, values.dim());
      if (values.size(axis) != 1) {
        call.refuse("dimension ", axis, " of ", values.sizes(), " is not 1");
      }
      dropped[axis] = true;
    }
  }
  Sizes sizes;
  for (int64_t i = 0; i < values.dim(); ++i) {
    if (!dropped[i] || values.size(i) != 1) {
      sizes.push_back(values.size(i));
    }
  }
  call.put_raw(values.reshape(sizes.empty() ? Sizes{1} : sizes));
}

inline void expand_dims(Call& call) {
  const at::Tensor values = call.raw(0);
  call.put_raw(values.unsqueeze(call.axis(call.integer(1), values.dim() + 1)));
}

inline void concatenation(Call& call) {
  const size_t last = call.count() - 1;
  Sizes sizes = call.raw(0).sizes().vec();
  const int64_t axis = call.integer(last, 0, static_cast<int64_t>(sizes.size()) - 1);
  std::vector<at::Tensor> parts;
  for (size_t i = 0; i < last; ++i) {
    const at::Tensor part = call.raw(i);
    if (i > 0) {
      Sizes rest = part.sizes().vec();
      if (rest.size() == sizes.size()) {
        rest[axis] = sizes[axis];
      }
      if (rest != sizes) {
        call.refuse("operand ", i, " of sizes ", part.sizes(), " can not follow ", c10::IntArrayRef(sizes), " along ",
                    axis);
      }
      sizes[axis] += part.size(axis);
    }
    const bool as_is = !call.quantized() || call.operand(i).quantization == call.result().quantization;
    parts.push_back(as_is ? part : call.steps(call.real(i)));
  }
  call.expect(sizes);
  call.put_raw(at::cat(parts, axis));
}

inline void pad(Call& call) {
  const at::Tensor values = call.raw(0);
  const at::Tensor amounts = call.raw(1);
  if (amounts.dim() != 2 || amounts.size(0) != values.dim() || amounts.size(1) != 2) {
    call.refuse("operand 1 must have sizes [", values.dim(), ", 2], but has ", amounts.sizes());
  }
  const int32_t* amount = amounts.data_ptr<int32_t>();
  Sizes sizes = values.sizes().vec();
  Sizes around(2 * values.dim());
  for (int64_t i = 0; i < values.dim(); ++i) {
    if (amount[2 * i] < 0 || amount[2 * i + 1] < 0) {
      call.refuse("operand 1 has padding below 0");
    }
    const int64_t from_end = values.dim() - 1 - i;
    around[2 * from_end] = amount[2 * i];
    around[2 * from_end + 1] = amount[2 * i + 1];
    sizes[i] += around[2 * from_end] + around[2 * from_end + 1];
  }
  call.expect(sizes);
  const double nothing = call.quantized() ? static_cast<double>(call.operand(0).quantization.zero_point) : 0;
  call.put_raw(at::constant_pad_nd(values, around, nothing));
}

// The elements first, first + stride, ... before `end` along one dimension.
inline at::Tensor strided(const at::Tensor& values, int64_t dimension, int64_t first, int64_t end, int64_t stride) {
  return stride > 0 ? values.slice(dimension, first, end, stride)
                    : values.index_select(dimension, at::arange(first, end, stride, at::kLong));
}

inline Sizes one_per_dimension(const Call& call, size_t i, int64_t dimensions) {
  const Sizes list = call.integers(i);
  if (static_cast<int64_t>(list.size()) != dimensions) {
    call.refuse("operand ", i, " must have ", dimensions, " elements, but has ", list.size());
  }
  return list;
}

inline void slice(Call& call) {
  at::Tensor values = call.raw(0);
  const Sizes begins = one_per_dimension(call, 1, values.dim());
  const Sizes sizes = one_per_dimension(call, 2, values.dim());
  for (int64_t i = 0; i < values.dim(); ++i) {
    const int64_t size = sizes[i] == -1 ? values.size(i) - begins[i] : sizes[i];
    if (begins[i] < 0 || size <= 0 || begins[i] + size > values.size(i)) {
      call.refuse("there are no ", sizes[i], " elements from ", begins[i], " on in dimension ", i, " of ",
                  call.raw(0).sizes());
    }
    values = values.narrow(i, begins[i], size);
  }
  call.put_raw(values);
}

inline void strided_slice(Call& call) {
  at::Tensor values = call.raw(0);
  const int64_t dimensions = values.dim();
  const Sizes begins = one_per_dimension(call, 1, dimensions);
  const Sizes ends = one_per_dimension(call, 2, dimensions);
  const Sizes strides = one_per_dimension(call, 3, dimensions);
  const int64_t begin_mask = call.integer(4);
  const int64_t end_mask = call.integer(5);
  const int64_t shrink_mask = call.integer(6);
  Sizes kept;
  for (int64_t i = 0; i < dimensions; ++i) {
    const int64_t size = values.size(i);
    const int64_t stride = strides[i];
    if (stride == 0) {
      call.refuse("operand 3 has a stride of 0 in dimension ", i);
    }
    const int64_t lowest = stride > 0 ? 0 : -1;
    const int64_t highest = stride > 0 ? size : size - 1;
    const auto clamped = [&](int64_t index) { return std::clamp(index < 0 ? index + size : index, lowest, highest); };
    const bool bit_begin = (begin_mask >> i) & 1;
    const bool bit_end = (end_mask >> i) & 1;
    const int64_t first = bit_begin ? (stride > 0 ? 0 : size - 1) : clamped(begins[i]);
    const int64_t end = bit_end ? (stride > 0 ? size : -1) : clamped(ends[i]);
    if (stride > 0 ? first >= end : first <= end) {
      call.refuse("nothing is left of dimension ", i, " of ", call.raw(0).sizes());
    }
    values = strided(values, i, first, end, stride);
    if (!((shrink_mask >> i) & 1)) {
      kept.push_back(values.size(i));
    } else if (stride < 0 || values.size(i) != 1) {
      call.refuse("dimension ", i, " has ", values.size(i), " elements left and can not be dropped");
    }
  }
  call.put_raw(values.reshape(kept.empty() ? Sizes{1} : kept));
}

// The source of each of `to` places among `from`, as NNAPI rounds.
inline at::Tensor nearest(int64_t from, int64_t to, bool aligned, bool centered) {
  const at::Tensor places = at::arange(to, at::kFloat);
  const float step = aligned && to > 1 ? static_cast<float>(from - 1) / static_cast<float>(to - 1)
                                       : static_cast<float>(from) / static_cast<float>(to);
  const at::Tensor at_source = (centered ? places + 0.5 : places) * step;
  return (aligned ? rounded(at_source) : at::floor(at_source)).to(at::kLong).clamp(0, from - 1);
}

inline void resize_nearest_neighbor(Call& call) {
  const at::Tensor values = call.raw(0);
  if (values.dim() != 4) {
    call.refuse("operand 0 must have 4 dimensions, but has ", values.dim());
  }
  if (call.operand(1).type != call.operand(2).type) {
    call.refuse("operands 1 and 2 must both be sizes or both be factors");
  }
  const bool nchw = call.flag(3);
  const int64_t height_at = nchw ? 2 : 1;
  const int64_t width_at = nchw ? 3 : 2;
  const auto target = [&](size_t i, int64_t size) {
    const double given = call.operand(i).type == kFloat32 ? std::floor(static_cast<double>(size) * call.number(i))
                                                          : static_cast<double>(call.integer(i));
    if (!(given >= 1 && given <= static_cast<double>(kMostElements))) {
      call.refuse("operand ", i, " makes ", given, " of ", size, " pixels");
    }
    return static_cast<int64_t>(given);
  };
  const int64_t width = target(1, values.size(width_at));
  const int64_t height = target(2, values.size(height_at));
  const bool aligned = call.flag(4);
  const bool centered = call.flag(5);
  if (aligned && centered) {
    call.refuse("operands 4 and 5 can not both be true");
  }
  Sizes sizes = values.sizes().vec();
  sizes[height_at] = height;
  sizes[width_at] = width;
  call.expect(sizes);
  const at::Tensor rows = nearest(values.size(height_at), height, aligned, centered);
  const at::Tensor columns = nearest(values.size(width_at), width, aligned, centered);
  call.put_raw(values.index_select(height_at, rows).index_select(width_at, columns));
}

inline void channel_shuffle(Call& call) {
  const at::Tensor values = call.raw(0);
  const int64_t axis = call.axis(call.integer(2), values.dim());
  const int64_t groups = call.integer(1, 1, kMostElements);
  const int64_t size = values.size(axis);
  if (size % groups != 0) {
    call.refuse(size, " channels do not divide into ", groups, " groups");
  }
  const at::Tensor order = at::arange(size, at::kLong).reshape({groups, size / groups}).t().reshape({-1});
  call.put_raw(values.index_select(axis, order));
}

}  // namespace nnapi
