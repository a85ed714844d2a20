// The widths of the activations that a model quantizes and the sizes of its linear layers, from its
// config.json.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rowscale::cli {

struct ModelShape {
  int64_t hidden = 0;
  std::string input_of;  // the layers that read these activations
};

// `path`: a config.json or its folder. Throws Failure(input) where it cannot be read or names no
// width. A width that several layers share comes once, with all their names.
std::vector<ModelShape> model_shapes(const std::string& path);

// The same from the text of a config.json; `name` is for messages.
std::vector<ModelShape> model_shapes_of(std::string_view json, const std::string& name);

// A matrix of weights [n, k] as inference engines hold it: q, k and v are one, and so are gate and
// up.
struct LinearShape {
  std::string layer;  // "qkv"; several that share a size come once, with all their names
  int64_t n = 0;
  int64_t k = 0;
  int64_t experts = 0;  // 0: every token goes through the one matrix
  int64_t top_k = 0;    // experts of a token
};

// The linear layers of one block of the model, of its first dense layers too where it has experts;
// neither embeddings nor the head. Throws Failure(input) where the config names none.
std::vector<LinearShape> linear_shapes(const std::string& path);
std::vector<LinearShape> linear_shapes_of(std::string_view json, const std::string& name);

}  // namespace rowscale::cli
