// The runner's arguments, read strictly: whatever is not understood ends the run as `bad_arguments`.
#pragma once

#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runner_events.h"

struct Arguments {
  std::optional<std::string> model;
  std::string backend = "cpu";
  std::optional<std::string> reference;
  std::string engine = "none";
  int64_t warmup = 0;
  double warmup_seconds = 0.0;
  int64_t iterations = 1;
  double min_seconds = 0.0;
  double max_seconds = 60.0;
  int threads = 1;
  std::string cpus = "all";
  std::vector<int64_t> input_dims;  // empty: not given
  bool quantized = false;
  std::optional<double> input_scale;
  std::optional<int64_t> input_zero_point;
  bool channels_last = false;
  std::optional<int64_t> bundled_input;
  bool reuse_input = true;
  std::optional<std::string> eval_inputs;
  std::optional<std::string> eval_outputs;
  bool nnapi_devices = false;
};

[[noreturn]] inline void bad_arguments(const std::string& message) { throw GiveUp{"bad_arguments", message}; }

[[noreturn]] inline void bad_value(const std::string& option, const std::string& word) {
  bad_arguments("argument " + option + ": invalid value: '" + word + "'");
}

inline int64_t whole_number(const std::string& option, const std::string& word, int64_t least, int64_t most) {
  const size_t digits = word.rfind('-', 0) == 0 ? 1 : 0;
  errno = 0;
  const long long number = std::strtoll(word.c_str(), nullptr, 10);
  const bool plain = word.size() > digits && word.find_first_not_of("0123456789", digits) == std::string::npos;
  if (!plain || errno == ERANGE || number < least || number > most) {
    bad_value(option, word);
  }
  return number;
}

inline double decimal_number(const std::string& option, const std::string& word, double least, double most) {
  char* end = nullptr;
  const double number = std::strtod(word.c_str(), &end);
  const bool plain = !word.empty() && word.find_first_not_of("0123456789+-.eE") == std::string::npos && *end == '\0';
  if (!plain || !std::isfinite(number) || number < least || number > most) {
    bad_value(option, word);
  }
  return number;
}

inline std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (const char character : text) {
    if (character == separator) {
      parts.emplace_back();
    } else {
      parts.back() += character;
    }
  }
  return parts;
}

inline const std::string& one_of(const std::string& option, const std::string& word,
                                 const std::set<std::string>& known) {
  if (known.count(word) == 0) {
    bad_value(option, word);
  }
  return word;
}

inline void check(const Arguments& given) {
  const bool scaled = given.input_scale.has_value() && given.input_zero_point.has_value();
  const bool half_scaled = given.input_scale.has_value() != given.input_zero_point.has_value();
  if (given.quantized != scaled || half_scaled) {
    bad_arguments("--input-type quint8 goes with --input-scale and --input-zero-point");
  }
  if (given.eval_inputs.has_value() != given.eval_outputs.has_value()) {
    bad_arguments("--eval-inputs and --eval-outputs go together");
  }
  if (given.eval_inputs && given.bundled_input) {
    bad_arguments("--use-bundled-input is timed, --eval-inputs are not");
  }
  if (given.nnapi_devices) {
    return;
  }
  if (!given.model) {
    bad_arguments("--model is missing");
  }
  if (given.input_dims.empty() && !given.bundled_input) {
    bad_arguments("--input-dims are missing");
  }
  if (given.channels_last && !given.input_dims.empty() && given.input_dims.size() != 4) {
    bad_arguments("--memory-format channels_last needs four --input-dims");
  }
  if (given.reference && given.backend == "cpu") {
    bad_arguments("--reference stands in for nnapi or metal, and the backend is cpu");
  }
  if (given.reference && !given.eval_inputs) {
    throw GiveUp{"emulated", "an emulated backend's time is never a time: --reference goes with --eval-inputs only"};
  }
}

inline Arguments parse(int argc, char** argv) {
  // Bounds keep what is computed from them (nanoseconds, threads) in range.
  constexpr int64_t kMost = int64_t{1} << 40;
  constexpr int kMostThreads = 1024;
  constexpr double kMostSeconds = 1e6;
  Arguments given;
  using Take = std::function<void(const std::string& option, const std::string& word)>;
  const std::map<std::string, Take> options = {
      {"--model", [&](auto&, auto& word) { given.model = word; }},
      {"--backend", [&](auto& name, auto& word) { given.backend = one_of(name, word, {"cpu", "nnapi", "metal"}); }},
      {"--reference", [&](auto&, auto& word) { given.reference = word; }},
      {"--engine", [&](auto&, auto& word) { given.engine = word; }},
      {"--warmup", [&](auto& name, auto& word) { given.warmup = whole_number(name, word, 0, kMost); }},
      {"--warmup-seconds",
       [&](auto& name, auto& word) { given.warmup_seconds = decimal_number(name, word, 0, kMostSeconds); }},
      {"--iter", [&](auto& name, auto& word) { given.iterations = whole_number(name, word, 1, kMost); }},
      {"--min-seconds",
       [&](auto& name, auto& word) { given.min_seconds = decimal_number(name, word, 0, kMostSeconds); }},
      {"--max-seconds",
       [&](auto& name, auto& word) { given.max_seconds = decimal_number(name, word, 0, kMostSeconds); }},
      {"--threads",
       [&](auto& name, auto& word) { given.threads = static_cast<int>(whole_number(name, word, 1, kMostThreads)); }},
      {"--cpus", [&](auto&, auto& word) { given.cpus = word; }},
      {"--input-dims",
       [&](auto& name, auto& word) {
         for (const std::string& part : split(word, ',')) {
           given.input_dims.push_back(whole_number(name, part, 1, kMost));
         }
       }},
      {"--input-type",
       [&](auto& name, auto& word) { given.quantized = one_of(name, word, {"float", "quint8"}) == "quint8"; }},
      {"--input-scale", [&](auto& name, auto& word) { given.input_scale = decimal_number(name, word, 1e-30, 1e30); }},
      {"--input-zero-point",
       [&](auto& name, auto& word) { given.input_zero_point = whole_number(name, word, 0, 255); }},
      {"--memory-format",
       [&](auto& name, auto& word) {
         given.channels_last = one_of(name, word, {"contiguous_format", "channels_last"}) == "channels_last";
       }},
      {"--use-bundled-input",
       [&](auto& name, auto& word) { given.bundled_input = whole_number(name, word, -kMost, kMost); }},
      {"--reuse-input", [&](auto& name, auto& word) { given.reuse_input = one_of(name, word, {"0", "1"}) == "1"; }},
      {"--eval-inputs", [&](auto&, auto& word) { given.eval_inputs = word; }},
      {"--eval-outputs", [&](auto&, auto& word) { given.eval_outputs = word; }},
  };
  std::set<std::string> seen;
  for (int at = 1; at < argc; ++at) {
    std::string word = argv[at];
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    if (!seen.insert(name).second) {
      bad_arguments("argument " + name + ": given twice");
    }
    if (word == "--nnapi-devices") {
      given.nnapi_devices = true;
      continue;
    }
    const auto option = options.find(name);
    if (option == options.end()) {
      bad_arguments("unrecognized argument: " + word);
    }
    if (equals != std::string::npos) {
      word.erase(0, equals + 1);
    } else if (++at < argc && std::string(argv[at]).rfind("--", 0) != 0) {
      word = argv[at];
    } else {
      bad_arguments("argument " + name + ": expected one argument");
    }
    option->second(name, word);
  }
  check(given);
  return given;
}
