// What an operation accepts: the forms of its operands, the types of its data and how its result is quantized.
#pragma once

#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "nnapi_types.h"

namespace nnapi {

class Call;

// One letter per operand; those after `|` may be left out, `x*` stands for one or more.
//   x  a tensor of the data's type        w  a filter             b  a bias
//   i  INT32    f  FLOAT32    n  BOOL     r  INT32 or FLOAT32     v  TENSOR_INT32
struct Form {
  const char* operands;
  bool implicit_padding = false;
};

// How NNAPI wants an 8-bit result to be quantized.
enum class Quantized {
  kFreely,
  kAsInput,
  kProbability,   // 1/256, 0
  kTanh,          // 1/128, 128
  kAboveProduct,  // a scale above the product of the inputs' scales
};

struct Signature {
  int32_t code;
  const char* name;
  std::vector<int32_t> data;  // the types that operand 0 may have
  std::vector<Form> forms;
  std::vector<int32_t> results;  // empty: as operand 0
  Quantized quantized;
  size_t most_dimensions;
  void (*run)(Call&);
  bool convolution;  // what an accelerator for convolutions would take
};

const Signature& signature_of(int32_t code);

inline bool takes(char letter, int32_t type, int32_t data) {
  switch (letter) {
    case 'x':
      return type == data;
    case 'w':
      return type == data || (data == kTensorQuant8Asymm && type == kTensorQuant8SymmPerChannel);
    case 'b':
      return type == (data == kTensorQuant8Asymm ? kTensorInt32 : data);
    case 'i':
      return type == kInt32;
    case 'f':
      return type == kFloat32;
    case 'n':
      return type == kBool;
    case 'r':
      return type == kInt32 || type == kFloat32;
    default:
      return type == kTensorInt32;
  }
}

inline const char* wanted(char letter) {
  switch (letter) {
    case 'x':
      return "of the type of operand 0";
    case 'w':
      return "a filter of the type of operand 0 (or TENSOR_QUANT8_SYMM_PER_CHANNEL beside 8-bit data)";
    case 'b':
      return "a bias (TENSOR_FLOAT32, or TENSOR_INT32 beside 8-bit data)";
    case 'i':
      return "an INT32";
    case 'f':
      return "a FLOAT32";
    case 'n':
      return "a BOOL";
    case 'r':
      return "an INT32 or a FLOAT32";
    default:
      return "a TENSOR_INT32";
  }
}

// The letters of the form for so many operands; nothing if it does not take so many.
inline std::optional<std::string> letters(const Form& form, size_t count) {
  const std::string text = form.operands;
  const std::string required = text.substr(0, text.find('|'));
  if (const size_t star = required.find("x*"); star != std::string::npos) {
    const std::string rest = required.substr(star + 2);
    if (count < rest.size() + 1) {
      return std::nullopt;
    }
    return std::string(count - rest.size(), 'x') + rest;
  }
  const std::string all = required.size() == text.size() ? text : required + text.substr(required.size() + 1);
  if (count < required.size() || count > all.size()) {
    return std::nullopt;
  }
  return all.substr(0, count);
}

// The form that operands of these types have; fails with the first operand that no form takes.
inline const Form& form_of(const Signature& signature, const std::vector<int32_t>& types) {
  std::string told = c10::str("it does not take ", types.size(), " operands");
  for (const Form& form : signature.forms) {
    const std::optional<std::string> expected = letters(form, types.size());
    if (!expected) {
      continue;
    }
    size_t i = 0;
    while (i < types.size() && takes((*expected)[i], types[i], types[0])) {
      ++i;
    }
    if (i == types.size()) {
      return form;
    }
    told = c10::str("operand ", i, " must be ", wanted((*expected)[i]), ", but is ", facts(types[i]).name);
  }
  fail(kBadData, signature.name, ": ", told);
}

}  // namespace nnapi
