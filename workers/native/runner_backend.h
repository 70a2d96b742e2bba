// Backends other than the CPU: the library that a host evaluates them with, and what they say when they fail.
// As runner/backend.py.
#pragma once

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <optional>
#include <string>

#include "runner_words.h"

constexpr const char* kNnapiLibrary = "libneuralnetworks.so";
// Of our reference library, and of no real one: why its last call failed.
constexpr const char* kReferenceReason = "edgesweep_reference_last_error";

inline void load_reference(const std::string& reference) {
  struct stat status {};
  if (stat(reference.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) {
    throw GiveUp{"bad_reference", "there is no file " + reference};
  }
  char path[PATH_MAX];
  // Torch opens it by name, and finds what is loaded already only under that name.
  if (realpath(reference.c_str(), path) == nullptr || dlopen(path, RTLD_NOW | RTLD_GLOBAL) == nullptr ||
      dlopen(kNnapiLibrary, RTLD_NOW) == nullptr) {
    const char* why = dlerror();
    throw GiveUp{"bad_reference", reference + " can not stand in for nnapi: " + last_words(why == nullptr ? "" : why)};
  }
}

// Before the model is loaded: have what `backend` runs on, which `reference` stands in for on a host.
inline void prepare(const std::string& backend, const std::optional<std::string>& reference) {
  if (backend == "cpu") {
    return;
  }
  if (backend == "metal") {
    throw GiveUp{"backend_missing",
                 "Metal runs on iOS only; the Python runner evaluates the artifact with --reference"};
  }
  if (reference) {
    load_reference(*reference);
    return;
  }
  void* library = dlopen(kNnapiLibrary, RTLD_NOW);
  if (library == nullptr) {
    throw GiveUp{"backend_missing", std::string("there is no ") + kNnapiLibrary +
                                        ", which Android has; a host can evaluate the artifact with --reference"};
  }
  if (dlsym(library, kReferenceReason) != nullptr) {
    throw GiveUp{"emulated", std::string("the ") + kNnapiLibrary + " here is the reference: name it with --reference"};
  }
}

// NNAPI's own word for a result code (NeuralNetworks.h), and the reference library's reason where that is what runs.
inline std::string meaning(long code) {
  static const char* const kMeanings[] = {"out of memory", "incomplete",       "unexpected null",
                                          "bad data",      "operation failed", "bad state",
                                          "unmappable",    "output of insufficient size", "unavailable device"};
  const bool known = code >= 1 && code <= static_cast<long>(std::size(kMeanings));
  const std::string word = known ? kMeanings[code - 1] : "a code that NeuralNetworks.h does not have";
  void* library = dlopen(kNnapiLibrary, RTLD_NOW | RTLD_NOLOAD);
  auto* reason = library == nullptr ? nullptr : reinterpret_cast<const char* (*)()>(dlsym(library, kReferenceReason));
  const std::string told = reason == nullptr ? "" : reason();
  return told.empty() ? word : word + ": " + told;
}

// NNAPI compiles in the first forward. The lite interpreter shows no source lines, so what failed decides.
inline bool while_compiling(const std::string& told) {
  for (const std::string part : {"Model_", "Compilation_"}) {
    for (size_t at = told.find(part); at != std::string::npos; at = told.find(part, at + 1)) {
      if (at == 0 || !is_word(told[at - 1])) {
        return true;
      }
    }
  }
  for (const std::string call : {".init(", ".init2("}) {
    for (size_t at = told.find(call); at != std::string::npos; at = told.find(call, at + 1)) {
      const size_t end = at > 0 && told[at - 1] == ')' ? at - 1 : at;
      size_t begin = end;
      while (begin > 0 && is_word(told[begin - 1])) {
        --begin;
      }
      if (contains(told.substr(begin, end - begin), "comp")) {
        return true;
      }
    }
  }
  return contains(told, "nnapi_model_loader") || contains(told, "nnapi_.");
}

// What a `forward` threw.
inline GiveUp failure(const std::string& backend, const std::exception& error) {
  const std::string told = told_by(error);
  std::string text = last_words(told);
  if (contains(told, "can't allocate memory")) {
    return {"out_of_memory", text};
  }
  if (backend != "nnapi") {
    return {"run_failed", text};
  }
  for (const char* marker : {"NNAPI returned error: ", "failed with error "}) {
    const auto codes = words_after(text, marker, is_digit);
    if (!codes.empty() && !codes.front().empty() && codes.front().size() < 10) {
      text += " (" + meaning(std::stol(codes.front())) + ")";
      break;
    }
  }
  return {while_compiling(told) ? "nnapi_compile_failed" : "nnapi_run_failed", text};
}
