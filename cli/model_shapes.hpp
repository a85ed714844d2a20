// The widths of the activations that a model quantizes, from its config.json.
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

}  // namespace rowscale::cli
