// Model folders written by hand, byte by byte from the description of the format: nothing here
// shares code with the reader or the writer under test.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace rowscale::test {

// A folder that is gone with the object.
class TempFolder {
 public:
  TempFolder() {
    std::string pattern = testing::TempDir() + "/rowscale_model_XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    path_ = pattern;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

inline void write_bytes(const std::string& path, const std::string& bytes) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream out(path, std::ios::binary);
  out << bytes;
  if (!out.flush()) throw std::runtime_error("cannot write " + path);
}

inline std::string read_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

struct StoredTensor {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::string data;
};

inline std::string safetensors(const std::vector<StoredTensor>& tensors) {
  std::string json = R"({"__metadata__":{"format":"pt"})";
  std::string data;
  for (const StoredTensor& t : tensors) {
    std::string shape;
    for (const int64_t size : t.shape) shape += (shape.empty() ? "" : ",") + std::to_string(size);
    json += ",\"" + t.name + R"(":{"dtype":")" + t.dtype + R"(","shape":[)" + shape +
            R"(],"data_offsets":[)" + std::to_string(data.size()) + "," +
            std::to_string(data.size() + t.data.size()) + "]}";
    data += t.data;
  }
  json += '}';
  while (json.size() % 8 != 0) json += ' ';
  std::string length;
  for (int i = 0; i < 8; ++i) length += static_cast<char>(json.size() >> (8 * i) & 0xFFU);
  return length + json + data;
}

// bf16 elements from a small generator: values of about +-2, a pattern of its own for each seed.
inline std::string bf16_data(int64_t elements, uint32_t seed) {
  std::string out;
  out.reserve(static_cast<size_t>(elements) * 2);
  uint64_t state = seed * uint64_t{0x9E3779B97F4A7C15} + 1;
  for (int64_t i = 0; i < elements; ++i) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    const auto draw = static_cast<uint32_t>(state >> 40);
    // Sign, an exponent from 2^-7 to 1, seven bits of mantissa.
    const uint32_t bits = (draw & 0x8000U) | ((120U + (draw >> 16 & 7U)) << 7) | (draw & 0x7FU);
    out += static_cast<char>(bits & 0xFFU);
    out += static_cast<char>(bits >> 8);
  }
  return out;
}

inline StoredTensor bf16_tensor(const std::string& name, std::vector<int64_t> shape,
                                uint32_t seed) {
  int64_t elements = 1;
  for (const int64_t size : shape) elements *= size;
  return {name, "BF16", std::move(shape), bf16_data(elements, seed)};
}

}  // namespace rowscale::test
