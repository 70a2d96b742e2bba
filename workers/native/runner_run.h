// Times an artifact or evaluates it. What is in a time and what is not: runner/timing.py.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "runner_load.h"

using Tensors = std::vector<at::Tensor>;

// A float tensor in the model's layout, quantized to quint8 where the model takes it so.
inline at::Tensor as_given(const at::Tensor& x, const Arguments& given) {
  at::Tensor laid = x.contiguous(given.channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous);
  return given.quantized ? at::quantize_per_tensor(laid, *given.input_scale, *given.input_zero_point, at::kQUInt8)
                         : laid;
}

// Arguments number `index` (from 0) of those that the file carries.
inline Tensors bundled_input(const Model& model, int64_t index) {
  std::optional<c10::IValue> all;
  try {
    all = model.bundled_inputs();
  } catch (const std::exception&) {
    all = std::nullopt;
  }
  if (!all || !all->isList()) {
    throw GiveUp{"no_bundled_input", "the model carries no inputs; its eval sibling does"};
  }
  const auto inputs = all->toListRef();
  if (index < 0 || index >= static_cast<int64_t>(inputs.size())) {
    throw GiveUp{"no_bundled_input", "the model carries " + std::to_string(inputs.size()) +
                                         " inputs, counted from 0, and none is " + std::to_string(index)};
  }
  Tensors found;
  if (inputs[index].isTuple()) {
    for (const c10::IValue& value : inputs[index].toTuple()->elements()) {
      if (!value.isTensor()) {
        break;
      }
      found.push_back(value.toTensor());
    }
  }
  if (!inputs[index].isTuple() || found.size() != inputs[index].toTuple()->elements().size()) {
    throw GiveUp{"no_bundled_input",
                 "the bundled input " + std::to_string(index) + " holds something else than tensors"};
  }
  return found;
}

// Nothing between the two readings of the clock but forward, and where the input is not reused its allocation.
class Timed {
 public:
  Timed(const Model& model, const Arguments& given, Tensors data)
      : model_(model), reuse_(given.reuse_input), data_(std::move(data)), reused_(allocated()) {}

  int64_t once() {
    int64_t allocation = 0;
    Tensors fresh;
    if (!reuse_) {
      const int64_t started = now_ns();
      fresh = allocated();
      for (at::Tensor& argument : fresh) {
        argument.fill_(0);
      }
      allocation = now_ns() - started;
    }
    const Tensors& arguments = reuse_ ? reused_ : fresh;
    for (size_t at = 0; at < data_.size(); ++at) {
      arguments[at].copy_(data_[at]);
    }
    Model::Values values(arguments.begin(), arguments.end());
    const int64_t started = now_ns();
    model_.forward(std::move(values));
    return now_ns() - started + allocation;
  }

  std::vector<int64_t> block(int64_t iterations, double min_seconds, double max_seconds) {
    std::vector<int64_t> taken;
    taken.reserve(static_cast<size_t>(std::min<int64_t>(iterations, 1 << 16)));
    const int64_t begin = now_ns();
    const int64_t least = begin + static_cast<int64_t>(min_seconds * 1e9);
    const int64_t most = begin + static_cast<int64_t>(max_seconds * 1e9);
    while (true) {
      const int64_t now = now_ns();
      const bool enough = static_cast<int64_t>(taken.size()) >= iterations && now >= least;
      if (enough || (!taken.empty() && now >= most)) {
        return taken;
      }
      taken.push_back(once());
    }
  }

 private:
  Tensors allocated() const {
    Tensors tensors;
    for (const at::Tensor& source : data_) {
      tensors.push_back(at::empty_like(source));
    }
    return tensors;
  }

  const Model& model_;
  const bool reuse_;
  const Tensors data_;
  const Tensors reused_;
};

inline void tell_all(const Report& report, const char* name, const std::vector<int64_t>& taken) {
  constexpr size_t kLineOfSamples = 10'000;
  for (size_t start = 0; start < taken.size(); start += kLineOfSamples) {
    const auto end = taken.begin() + static_cast<std::ptrdiff_t>(std::min(start + kLineOfSamples, taken.size()));
    const std::vector<int64_t> part(taken.begin() + static_cast<std::ptrdiff_t>(start), end);
    report.tell(Event(name).with("ns", part));
  }
}

inline void measure(const Model& model, const Arguments& given, const Report& report) {
  Tensors data;
  if (given.bundled_input) {
    data = bundled_input(model, *given.bundled_input);
  } else {
    data = {as_given(at::rand(given.input_dims, at::detail::createCPUGenerator(0)), given)};
  }
  Timed timed(model, given, std::move(data));
  const int64_t first = timed.once();
  // A warm-up that is asked for in seconds gets them; one in iterations must not outlast the measurement.
  const double longest = std::max(given.max_seconds, given.warmup_seconds);
  std::vector<int64_t> warmup;
  if (given.warmup > 0 || given.warmup_seconds > 0) {
    warmup = timed.block(given.warmup, given.warmup_seconds, longest);
  }
  const std::vector<int64_t> samples = timed.block(given.iterations, given.min_seconds, given.max_seconds);
  report.tell(Event("first_inference").with("ns", first));
  tell_all(report, "warmup", warmup);
  tell_all(report, "sample", samples);
}

// (N, *shape) float32, mapped from a file of little-endian floats. Mapped until the process ends.
inline at::Tensor images_of(const std::string& path, const std::vector<int64_t>& dims) {
  const auto refuse = [&](const std::string& why) { throw GiveUp{"bad_eval_inputs", path + why}; };
  uint64_t image_bytes = sizeof(float);
  for (size_t at = 1; at < dims.size(); ++at) {
    if (__builtin_mul_overflow(image_bytes, static_cast<uint64_t>(dims[at]), &image_bytes)) {
      refuse(" can not hold images of that many bytes");
    }
  }
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat status {};
  if (file < 0 || fstat(file, &status) != 0) {
    refuse(std::string(" can not be read: ") + std::strerror(errno));
  }
  const auto bytes = static_cast<uint64_t>(status.st_size);
  if (bytes == 0 || bytes % image_bytes != 0) {
    refuse(" does not hold whole images of " + std::to_string(image_bytes) + " bytes: " + std::to_string(bytes));
  }
  void* content = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
  if (content == MAP_FAILED) {
    refuse(std::string(" can not be read: ") + std::strerror(errno));
  }
  close(file);
  std::vector<int64_t> shape = dims;
  shape.front() = static_cast<int64_t>(bytes / image_bytes);
  return at::from_blob(content, shape, at::TensorOptions(at::kFloat));
}

// In Python's words, which the other runner uses.
inline std::string type_name(const c10::IValue& value) {
  return value.isNone()          ? "NoneType"
         : value.isTuple()       ? "tuple"
         : value.isGenericDict() ? "dict"
         : value.isList()        ? "list"
         : value.isString()      ? "str"
                                 : value.tagKind();
}

inline std::string type_name(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return "torch.float32";
    case at::kDouble:
      return "torch.float64";
    case at::kHalf:
      return "torch.float16";
    case at::kLong:
      return "torch.int64";
    case at::kInt:
      return "torch.int32";
    default:
      return toString(type);
  }
}

// (batch, classes) float32, contiguous.
inline at::Tensor logits_of(const c10::IValue& answer, int64_t batch) {
  if (!answer.isTensor()) {
    throw GiveUp{"bad_output", "the model answers a " + type_name(answer) + ", not one tensor (batch, classes)"};
  }
  at::Tensor logits = answer.toTensor();
  logits = logits.is_quantized() ? logits.dequantize() : logits;
  if (logits.dim() != 2 || logits.size(0) != batch || !logits.is_floating_point()) {
    std::string shape;
    for (const int64_t size : logits.sizes()) {
      shape += (shape.empty() ? "" : ", ") + std::to_string(size);
    }
    throw GiveUp{"bad_output", "the model answers " + type_name(logits.scalar_type()) + " of shape (" + shape +
                                   (logits.dim() == 1 ? "," : "") + "), not float32 of (" + std::to_string(batch) +
                                   ", classes)"};
  }
  return logits.to(at::kFloat).contiguous();
}

inline void write_whole(const std::string& target, const std::vector<float>& content) {
  const std::string partial = target + ".partial";
  std::FILE* file = std::fopen(partial.c_str(), "wb");
  bool written = file != nullptr;
  written = written && std::fwrite(content.data(), sizeof(float), content.size(), file) == content.size();
  written = file != nullptr && std::fclose(file) == 0 && written;
  if (!written || std::rename(partial.c_str(), target.c_str()) != 0) {
    throw GiveUp{"eval_outputs_not_written", target + " can not be written: " + std::strerror(errno)};
  }
}

// All images in batches of --input-dims, the last one filled up with its last image.
inline void evaluate(const Model& model, const Arguments& given, const Report& report) {
  const int64_t batch = given.input_dims.front();
  const at::Tensor images = images_of(*given.eval_inputs, given.input_dims);
  const int64_t count = images.size(0);
  std::vector<float> answers;
  int64_t classes = 0;
  int64_t first = 0;
  for (int64_t start = 0; start < count; start += std::min(batch, count - start)) {
    const int64_t kept = std::min(batch, count - start);
    at::Tensor part = images.narrow(0, start, kept);
    if (kept < batch) {
      std::vector<int64_t> filling = given.input_dims;
      filling.front() = batch - kept;
      part = at::cat({part, part.narrow(0, kept - 1, 1).expand(filling)});
    }
    // Cloned: a model may write into its input, and keep it.
    const at::Tensor x = as_given(part.clone(), given);
    const int64_t started = now_ns();
    const c10::IValue answer = model.forward({x});
    first = first == 0 ? now_ns() - started : first;
    const at::Tensor logits = logits_of(answer, batch);
    if (classes != 0 && logits.size(1) != classes) {
      throw GiveUp{"bad_output", "the model answers " + std::to_string(classes) + " classes, then " +
                                     std::to_string(logits.size(1))};
    }
    classes = logits.size(1);
    const float* values = logits.data_ptr<float>();
    answers.insert(answers.end(), values, values + kept * classes);
  }
  write_whole(*given.eval_outputs, answers);
  report.tell(Event("first_inference").with("ns", first));
  report.tell(Event("eval").with("images", count).with("classes", classes));
}
