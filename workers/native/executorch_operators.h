// The operators of a pte file that are in no delegate, by name: ExecuTorch tells which it lacks in its log only, and a
// build for a phone may have none. A FlatBuffer of the schema program.fbs, as workers/runtimes/executorch/pte.py reads it.
#pragma once

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <stdexcept>
#include <string>

namespace pte {

// A table of the file. Offsets out of it throw std::out_of_range.
class Table {
 public:
  Table(const std::string& content, size_t position) : content_(content), position_(position) {}

  static Table root(const std::string& content) { return {content, at<uint32_t>(content, 0)}; }

  std::string text(size_t field) const {
    const size_t place = target(field);
    if (place == 0) {
      return "";
    }
    const size_t length = at<uint32_t>(content_, place);
    if (length > content_.size()) {
      throw std::out_of_range("a text");
    }
    return content_.substr(place + sizeof(uint32_t), length);
  }

  template <class Each>
  void each(size_t field, Each&& told) const {
    const size_t place = target(field);
    const size_t count = place == 0 ? 0 : at<uint32_t>(content_, place);
    for (size_t index = 1; index <= count; ++index) {
      const size_t one = place + index * sizeof(uint32_t);
      told(Table(content_, one + at<uint32_t>(content_, one)));
    }
  }

 private:
  template <class Number>
  static Number at(const std::string& content, size_t place) {
    if (place > content.size() || content.size() - place < sizeof(Number)) {
      throw std::out_of_range("an offset");
    }
    Number number;
    std::memcpy(&number, content.data() + place, sizeof number);
    return number;
  }

  // Where a field's value is; 0 if the table has none.
  size_t target(size_t field) const {
    const size_t fields = position_ - static_cast<size_t>(int64_t{at<int32_t>(content_, position_)});
    const size_t slot = 4 + 2 * field;
    const size_t offset = slot < at<uint16_t>(content_, fields) ? at<uint16_t>(content_, fields + slot) : 0;
    return offset == 0 ? 0 : position_ + offset + at<uint32_t>(content_, position_ + offset);
  }

  const std::string& content_;
  size_t position_;
};

// Of the method forward: `aten::add.out`. Throws std::out_of_range if the file is damaged.
inline std::set<std::string> operators(const std::string& path) {
  constexpr size_t kPlans = 1, kName = 0, kOperators = 6;
  std::ifstream file(path, std::ios::binary);
  const std::string content{std::istreambuf_iterator<char>(file), {}};
  std::set<std::string> found;
  Table::root(content).each(kPlans, [&](const Table& plan) {
    if (plan.text(kName) != "forward") {
      return;
    }
    plan.each(kOperators, [&](const Table& one) {
      const std::string overload = one.text(1);
      found.insert(one.text(0) + (overload.empty() ? "" : "." + overload));
    });
  });
  return found;
}

}  // namespace pte
