// What torch says when it refuses, and the words in it that count. No regular expressions: libstdc++'s recurse once per
// character, and torch's stories are long.
#pragma once

#include <c10/util/Exception.h>

#include <exception>
#include <string>
#include <vector>

#include "runner_arguments.h"

// Not <cctype>'s, which take no negative char.
inline bool is_digit(char c) { return c >= '0' && c <= '9'; }

inline bool is_word(char c) { return is_digit(c) || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_'; }

inline bool is_name(char c) { return is_word(c) || c == '.' || c == ':'; }

inline std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Without the C++ frames that c10 appends.
inline std::string told_by(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  return torch_error == nullptr ? error.what() : torch_error->what_without_backtrace();
}

// torch ends a long story of source lines with what happened; other messages begin with it.
inline std::string last_words(const std::string& told) {
  std::string first, last;
  for (const std::string& raw : split(told, '\n')) {
    const std::string line = trimmed(raw);
    first = first.empty() ? line : first;
    const size_t colon = line.find(": ");
    size_t name = 0;
    while (name < line.size() && (is_word(line[name]) || line[name] == '.')) {
      ++name;
    }
    if (colon != std::string::npos && name == colon) {
      for (const std::string end : {"Error", "Exception"}) {
        if (name >= end.size() && line.compare(name - end.size(), end.size(), end) == 0) {
          last = line.substr(colon + 2);
        }
      }
    }
  }
  const std::string& words = last.empty() ? first : last;
  return words.empty() ? "it does not say why" : words.substr(0, 500);
}

// After each `marker`, the longest run of characters that `taken` takes.
template <class Taken>
std::vector<std::string> words_after(const std::string& told, const std::string& marker, Taken taken) {
  std::vector<std::string> found;
  for (size_t at = told.find(marker); at != std::string::npos; at = told.find(marker, at)) {
    at += marker.size();
    size_t end = at;
    while (end < told.size() && taken(told[end])) {
      ++end;
    }
    found.push_back(told.substr(at, end - at));
  }
  return found;
}
