// How the runner speaks: one JSON object per line, as workers/runtimes/torchscript/report.py reads it.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

constexpr int kErrorExit = 3;

// Ends the run with an `error` line.
struct GiveUp {
  std::string kind;
  std::string message;
};

// How many bytes the UTF-8 character at `at` has; 0 where there is none.
inline size_t utf8_length(const std::string& text, size_t at) {
  const auto byte = [&](size_t offset) -> unsigned {
    return at + offset < text.size() ? static_cast<unsigned char>(text[at + offset]) : 0;
  };
  const unsigned first = byte(0);
  const size_t length = first < 0x80 ? 1 : first >> 5 == 0x6 ? 2 : first >> 4 == 0xe ? 3 : first >> 3 == 0x1e ? 4 : 0;
  for (size_t offset = 1; offset < length; ++offset) {
    if (byte(offset) >> 6 != 0x2) {
      return 0;
    }
  }
  const unsigned second = byte(1);
  const bool overlong =
      (length == 2 && first < 0xc2) || (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  const bool no_character = (first == 0xed && second > 0x9f) || first > 0xf4 || (first == 0xf4 && second > 0x8f);
  return overlong || no_character ? 0 : length;
}

// `text`, which may hold any bytes, as a JSON string.
inline std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8_length(text, at);
    const char character = text[at];
    if (length == 0) {
      out += "\\ufffd";
    } else if (length == 1 && (static_cast<unsigned char>(character) < 0x20 || character == 0x7f)) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(character));
      out += escape;
    } else {
      out += character == '"' || character == '\\' ? "\\" : "";
      out.append(text, at, length);
    }
    at += length == 0 ? 1 : length;
  }
  return out + '"';
}

inline std::string json(const std::string& value) { return quoted(value); }
inline std::string json(const char* value) { return quoted(value); }
inline std::string json(bool value) { return value ? "true" : "false"; }
inline std::string json(int64_t value) { return std::to_string(value); }

template <class Value>
std::string json(const std::vector<Value>& values) {
  std::string out = "[";
  for (const auto& value : values) {
    out += (out.size() > 1 ? ", " : "") + json(static_cast<Value>(value));
  }
  return out + ']';
}

// One line. What is not known is left out, or null.
class Event {
 public:
  explicit Event(const char* name) : line_("{\"event\": " + quoted(name)) {}

  template <class Value>
  Event& with(const char* key, const Value& value) {
    line_ += ", " + quoted(key) + ": " + json(value);
    return *this;
  }

  std::string line() const { return line_ + "}\n"; }

 private:
  std::string line_;
};

// Where the lines go. TorchScript's print() writes to stdout: the report takes a descriptor that no model knows.
class Report {
 public:
  Report() : descriptor_(dup(STDOUT_FILENO)) { dup2(STDERR_FILENO, STDOUT_FILENO); }

  void tell(const Event& event) const {
    const std::string line = event.line();
    for (size_t done = 0; done < line.size();) {
      const ssize_t taken = write(descriptor_, line.data() + done, line.size() - done);
      if (taken > 0) {
        done += static_cast<size_t>(taken);
      } else if (errno != EINTR) {
        std::_Exit(kErrorExit);  // nobody listens
      }
    }
  }

 private:
  int descriptor_;
};
