// Loads one artifact in the interpreter of its format, and says why where it can not: above all, whether the artifact
// is newer than this runtime. As runner/load.py.
#pragma once

#include <ATen/Context.h>
#include <caffe2/serialize/inline_container.h>
#include <caffe2/serialize/versions.h>
#include <sys/stat.h>
#ifndef EDGESWEEP_WITHOUT_FULL
#include <torch/csrc/jit/serialization/import.h>
#endif
#ifndef EDGESWEEP_WITHOUT_LITE
#include <torch/csrc/jit/mobile/import.h>
#include <torch/csrc/jit/mobile/module.h>
#endif
#include <torch/csrc/api/include/torch/version.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runner_events.h"
#include "runner_process.h"
#include "runner_words.h"

// The outside of a saved model.
struct Archive {
  std::string format;   // `ptl` where it holds bytecode for the lite interpreter, else `pt`
  std::string backend;  // `nnapi` or `metal` where a part of it runs there, else `cpu`
  std::optional<int64_t> bytecode_version;
};

// A loaded model, whatever interpreter runs it.
struct Model {
  using Values = std::vector<c10::IValue>;
  std::function<c10::IValue(Values)> forward;
  std::function<std::optional<c10::IValue>()> bundled_inputs;  // nothing where the file carries none
  c10::intrusive_ptr<c10::ivalue::Object> object;
  int64_t load_ns;
};

inline std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

inline std::string runtime() { return "this runtime (torch " TORCH_VERSION ")"; }

[[noreturn]] inline void skewed(const std::string& what, const std::string& also = "") {
  const std::string way_out = "export with a torch no newer than the runtime, put a newer runtime on the device";
  throw GiveUp{"runtime_skew", what + "; " + way_out + also};
}

[[noreturn]] inline void newer(const std::string& what, const std::string& version, uint64_t highest) {
  skewed("the artifact has " + what + " version " + version + ", " + runtime() + " reads up to " +
         std::to_string(highest));
}

inline std::string engine_name(at::QEngine engine) {
  std::string name = engine == at::QEngine::NoQEngine ? "none" : toString(engine);
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name;
}

inline std::vector<std::string> engine_names() {
  std::vector<std::string> names;
  for (const at::QEngine engine : at::globalContext().supportedQEngines()) {
    names.push_back(engine_name(engine));
  }
  return names;
}

// Before loading: the engine in force then decides the kernels.
inline void choose_engine(const std::string& wanted) {
  if (wanted == "none") {
    return;
  }
  std::string there;
  for (const at::QEngine engine : at::globalContext().supportedQEngines()) {
    if (engine_name(engine) == wanted) {
      at::globalContext().setQEngine(engine);
      return;
    }
    there += (there.empty() ? "" : ", ") + engine_name(engine);
  }
  throw GiveUp{"engine_missing", "this torch has no quantized engine " + wanted + " (it has: " + there + ")"};
}

inline std::string record(caffe2::serialize::PyTorchStreamReader& reader, const std::string& name) {
  const auto found = reader.getRecord(name);
  return {static_cast<const char*>(std::get<0>(found).get()), std::get<1>(found)};
}

// The bytecode's version: the first element of the pickled tuple.
inline int64_t first_number(const std::string& pickle) {
  size_t at = pickle.rfind("\x80", 0) == 0 ? 2 : 0;  // the protocol
  at += at < pickle.size() && pickle[at] == '(' ? 1 : 0;
  const auto byte = [&](size_t offset) -> int64_t {
    return at + offset < pickle.size() ? static_cast<unsigned char>(pickle[at + offset]) : -1;
  };
  if (byte(0) == 'K' && byte(1) >= 0) {
    return byte(1);
  }
  if (byte(0) == 'M' && byte(2) >= 0) {
    return byte(1) | byte(2) << 8;
  }
  throw std::runtime_error("its bytecode has no version");
}

inline Archive read_archive(const std::string& path) {
  caffe2::serialize::PyTorchStreamReader reader(path);
  if (!reader.hasRecord("data.pkl")) {
    throw std::runtime_error("it holds no TorchScript");
  }
  Archive found{"pt", "cpu", std::nullopt};
  if (reader.hasRecord("bytecode.pkl")) {
    found.format = "ptl";
    found.bytecode_version = first_number(record(reader, "bytecode.pkl"));
  }
  for (const std::string& name : reader.getAllRecords()) {
    if (name.rfind("code/", 0) != 0 || name.size() < 3 || name.compare(name.size() - 3, 3, ".py") != 0) {
      continue;
    }
    const std::string source = record(reader, name);
    if (contains(source, "torch.classes._nnapi.")) {
      found.backend = "nnapi";
      break;
    }
    found.backend = contains(source, "ops.metal") ? "metal" : found.backend;
  }
  return found;
}

// What the file is, which must be made for `backend`.
inline Archive look(const std::string& path, const std::string& backend) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) {
    throw GiveUp{"no_model", "there is no file " + path};
  }
  Archive found;
  const std::string name = base_name(path);
  try {
    found = read_archive(path);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    const std::string told = told_by(error);
    const auto version = words_after(told, "read a PyTorch file with version ", is_digit);
    if (!version.empty() && contains(told, "maximum supported version")) {
      newer("file", version.front(), caffe2::serialize::kMaxSupportedFileFormatVersion);
    }
    throw GiveUp{"load_failed", name + " is no whole archive of a model: " + last_words(told)};
  }
  const size_t dot = name.rfind('.');
  const std::string suffix = dot == std::string::npos ? "" : name.substr(dot + 1);
  if ((suffix == "pt" || suffix == "ptl") && suffix != found.format) {
    const std::string holds = found.format == "ptl" ? "bytecode" : "no bytecode";
    throw GiveUp{"wrong_format", name + " holds " + holds + " for the lite interpreter: it is a " + found.format +
                                     " file under another name"};
  }
  if (found.backend != backend) {
    throw GiveUp{"wrong_backend", name + " is made for the backend " + found.backend + ", not for " + backend};
  }
  return found;
}

// What this runtime lacks, from what torch said when it refused the artifact; returns where it lacks nothing.
inline void tell_skew(const Archive& found, const std::string& told) {
  constexpr auto kBytecode = static_cast<int64_t>(caffe2::serialize::kMaxSupportedBytecodeVersion);
  if (found.bytecode_version.value_or(0) > kBytecode) {
    newer("bytecode", std::to_string(*found.bytecode_version), kBytecode);
  }
  std::string missing;
  const auto miss = [&](const std::string& name) { missing += (missing.empty() || name.empty() ? "" : ", ") + name; };
  for (std::string name : words_after(told, "Unknown builtin op: ", is_name)) {
    name.erase(name.find_last_not_of('.') + 1);
    miss(name);
  }
  for (const std::string& names : words_after(told, "ops cannot be found: [", [](char c) { return c != ']'; })) {
    for (const std::string& name : split(names, ',')) {
      miss(trimmed(name));
    }
  }
  const std::string or_else = ", or use another operator in the model";
  if (!missing.empty()) {
    skewed(runtime() + " has no operator " + missing, or_else);
  }
  const size_t refused = told.find("Arguments for call are not valid");
  const std::string variants = "variants are available:";
  const size_t listed = refused == std::string::npos ? refused : told.find(variants, refused);
  if (listed != std::string::npos) {
    const std::string rest = trimmed(told.substr(listed + variants.size()));
    skewed(runtime() + " knows " + rest.substr(0, rest.find('(')) + " with other arguments", or_else);
  }
  const auto classes = words_after(told, "Unknown type name '__torch__.torch.classes.", is_name);
  if (!classes.empty()) {
    skewed(runtime() + " has no class " + classes.front(), ", or build without it (optimize: [false])");
  }
}

// Both interpreters' modules have these methods under one name. Kept where it is: the lite interpreter's methods point
// at their module.
template <class Module>
Model model_of(Module loaded, int64_t started) {
  const auto module = std::make_shared<Module>(std::move(loaded));
  auto forward = module->get_method("forward");
  Model model;
  model.load_ns = now_ns() - started;
  model.object = module->_ivalue();
  model.forward = [module, forward](Model::Values values) mutable { return forward(std::move(values)); };
  model.bundled_inputs = [module]() -> std::optional<c10::IValue> {
    const auto method = module->find_method("get_all_bundled_inputs");
    return method ? std::optional<c10::IValue>((*method)({})) : std::nullopt;
  };
  return model;
}

// A ptl file holds its source too: `format` decides which interpreter reads it.
inline Model load(const std::string& path, const Archive& found, const std::string& format) {
  try {
    const int64_t started = now_ns();
    if (format == "ptl") {
#ifndef EDGESWEEP_WITHOUT_LITE
      return model_of(torch::jit::_load_for_mobile(path, at::Device(at::kCPU)), started);
#endif
    } else {
#ifndef EDGESWEEP_WITHOUT_FULL
      auto module = torch::jit::load(path, at::Device(at::kCPU));
      module.eval();
      return model_of(std::move(module), started);
#endif
    }
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {  // a damaged file makes torch throw anything
    const std::string told = told_by(error);
    tell_skew(found, told);
    throw GiveUp{"load_failed", last_words(told)};
  }
  throw GiveUp{"interpreter_missing", "this runner was built without the interpreter of " + format +
                                          " files; build it against a libtorch that has it (infra/android-runtime.md)"};
}
