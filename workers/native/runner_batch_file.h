// The file of a batch: on each line a JSON array of strings, the arguments of one timing. As `read_items` in
// runner/batch.py. A parser of its own for so little, because a libtorch for phones brings none.
#pragma once

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "runner_arguments.h"

[[noreturn]] inline void bad_batch(const std::string& message) { throw GiveUp{"bad_batch", message}; }

// One JSON array of strings, and nothing else.
class StringArray {
 public:
  explicit StringArray(const std::string& line) : line_(line) {}

  std::vector<std::string> words() {
    std::vector<std::string> found;
    need(is_next('['));
    if (!is_next(']')) {
      do {
        found.push_back(word());
      } while (is_next(','));
      need(is_next(']'));
    }
    skip_space();
    need(at_ == line_.size());
    return found;
  }

 private:
  static void need(bool met) {
    if (!met) {
      bad_batch("it is no JSON array of strings");
    }
  }

  void skip_space() {
    while (at_ < line_.size() && std::strchr(" \t\r", line_[at_]) != nullptr && line_[at_] != '\0') {
      ++at_;
    }
  }

  bool is_next(char wanted) {
    skip_space();
    const bool found = at_ < line_.size() && line_[at_] == wanted;
    at_ += found ? 1 : 0;
    return found;
  }

  char take() {
    need(at_ < line_.size());
    return line_[at_++];
  }

  std::string word() {
    need(is_next('"'));
    std::string found;
    for (char character = take(); character != '"'; character = take()) {
      need(static_cast<unsigned char>(character) >= 0x20);
      if (character == '\\') {
        escaped(found);
      } else {
        found += character;
      }
    }
    return found;
  }

  void escaped(std::string& into) {
    const std::string names = "\"\\/bfnrt", characters = "\"\\/\b\f\n\r\t";
    const char name = take();
    if (name != 'u') {
      const size_t which = names.find(name);
      need(which != std::string::npos);
      into += characters[which];
      return;
    }
    uint32_t code = four_digits();
    if (code >> 10 == 0xd800 >> 10) {
      need(take() == '\\' && take() == 'u');
      const uint32_t low = four_digits();
      need(low >> 10 == 0xdc00 >> 10);
      code = 0x10000 + ((code & 0x3ff) << 10) + (low & 0x3ff);
    }
    need(code != 0 && code >> 10 != 0xdc00 >> 10);  // arguments end with a NUL
    append_utf8(code, into);
  }

  uint32_t four_digits() {
    uint32_t code = 0;
    for (int digit = 0; digit < 4; ++digit) {
      const std::string digits = "0123456789abcdefABCDEF";
      const size_t which = digits.find(take());
      need(which != std::string::npos);
      code = code << 4 | static_cast<uint32_t>(which < 16 ? which : which - 6);
    }
    return code;
  }

  static void append_utf8(uint32_t code, std::string& into) {
    const int rest = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    constexpr uint32_t kLead[] = {0x00, 0xc0, 0xe0, 0xf0};
    into += static_cast<char>(kLead[rest] | code >> (6 * rest));
    for (int left = rest - 1; left >= 0; --left) {
      into += static_cast<char>(0x80 | ((code >> (6 * left)) & 0x3f));
    }
  }

  const std::string& line_;
  size_t at_ = 0;
};

inline Arguments batch_item(const std::string& line) {
  std::vector<std::string> words = StringArray(line).words();
  std::string name = "runner";
  std::vector<char*> argv = {name.data()};
  for (std::string& word : words) {
    argv.push_back(word.data());
  }
  const Arguments item = parse(static_cast<int>(argv.size()), argv.data());
  if (item.nnapi_devices || item.eval_inputs) {
    bad_batch("a batch only times");
  }
  return item;
}

// The timings of all lines. All ask for the same threads and CPUs, which are the process's.
inline std::vector<Arguments> batch_items(const std::string& path) {
  constexpr off_t kMostBytes = 16 * 1024 * 1024;
  struct stat status {};
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode) || !file) {
    bad_batch(path + " cannot be read: " + (errno == 0 ? "it is no file" : std::strerror(errno)));
  }
  if (status.st_size > kMostBytes) {
    bad_batch(path + " is larger than " + std::to_string(kMostBytes) + " bytes");
  }
  const std::string content{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::string> lines = split(content, '\n');
  if (lines.back().empty()) {
    lines.pop_back();
  }
  if (lines.empty()) {
    bad_batch(path + " has no line");
  }
  std::vector<Arguments> items;
  for (const std::string& line : lines) {
    const std::string where = "line " + std::to_string(items.size() + 1) + " of the batch";
    try {
      items.push_back(batch_item(line));
    } catch (const GiveUp& given) {
      bad_batch(where + ": " + given.message);
    }
    if (items.back().threads != items.front().threads || items.back().cpus != items.front().cpus) {
      bad_batch(where + " asks for other threads or CPUs than line 1");
    }
  }
  return items;
}
