// SHA-256 of a file (FIPS 180-4), by which a batch tells which artifact it timed.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

class Sha256 {
 public:
  void add(const uint8_t* bytes, size_t count) {
    length_ += count;
    while (count > 0) {
      const size_t taken = std::min(count, kBlock - filled_);
      std::memcpy(block_.data() + filled_, bytes, taken);
      filled_ += taken;
      bytes += taken;
      count -= taken;
      if (filled_ == kBlock) {
        mix();
        filled_ = 0;
      }
    }
  }

  // Lower-case hex. Nothing can be added after it.
  std::string hex() {
    const uint64_t bits = length_ * 8;
    const std::array<uint8_t, kBlock> padding = {0x80};
    add(padding.data(), (filled_ < kBlock - 8 ? kBlock - 8 : 2 * kBlock - 8) - filled_);
    std::array<uint8_t, 8> length;
    for (size_t at = 0; at < length.size(); ++at) {
      length[at] = static_cast<uint8_t>(bits >> (56 - 8 * at));
    }
    add(length.data(), length.size());
    std::string out;
    for (const uint32_t word : state_) {
      char digits[9];
      std::snprintf(digits, sizeof digits, "%08x", word);
      out += digits;
    }
    return out;
  }

 private:
  static constexpr size_t kBlock = 64;

  static uint32_t turned(uint32_t word, int by) { return word >> by | word << (32 - by); }

  void mix() {
    static constexpr std::array<uint32_t, 64> kRounds = {
        0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
        0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
        0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
        0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
        0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
        0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
        0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
        0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
    std::array<uint32_t, 64> words;
    for (size_t at = 0; at < 16; ++at) {
      const uint8_t* four = block_.data() + 4 * at;
      words[at] = uint32_t{four[0]} << 24 | uint32_t{four[1]} << 16 | uint32_t{four[2]} << 8 | four[3];
    }
    for (size_t at = 16; at < words.size(); ++at) {
      const uint32_t early = words[at - 15], late = words[at - 2];
      words[at] = words[at - 16] + (turned(early, 7) ^ turned(early, 18) ^ early >> 3) + words[at - 7] +
                  (turned(late, 17) ^ turned(late, 19) ^ late >> 10);
    }
    auto [a, b, c, d, e, f, g, h] = state_;
    for (size_t at = 0; at < words.size(); ++at) {
      const uint32_t first = h + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + ((e & f) ^ (~e & g)) + kRounds[at] +
                             words[at];
      const uint32_t second = (turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
      h = g;
      g = f;
      f = e;
      e = d + first;
      d = c;
      c = b;
      b = a;
      a = first + second;
    }
    const std::array<uint32_t, 8> mixed = {a, b, c, d, e, f, g, h};
    for (size_t at = 0; at < mixed.size(); ++at) {
      state_[at] += mixed[at];
    }
  }

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, kBlock> block_{};
  size_t filled_ = 0;
  uint64_t length_ = 0;
};

// Empty where the file cannot be read.
inline std::string sha256_of(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (file == nullptr) {
    return "";
  }
  Sha256 digest;
  std::vector<uint8_t> chunk(1 << 20);
  while (const size_t count = std::fread(chunk.data(), 1, chunk.size(), file.get())) {
    digest.add(chunk.data(), count);
  }
  return std::ferror(file.get()) != 0 ? "" : digest.hex();
}
