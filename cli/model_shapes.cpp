#include "model_shapes.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <system_error>

#include "failure.hpp"

namespace rowscale::cli {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMostHidden = int64_t{1} << 24;

// 0 where the key is missing or no plausible size.
int64_t size_at(const Json& config, const char* key) {
  const auto it = config.find(key);
  if (it == config.end() || !it->is_number_integer()) return 0;
  const auto value = it->get<int64_t>();
  return value > 0 && value <= kMostHidden ? value : 0;
}

// Attention may be wider or narrower than the model.
int64_t attention_width(const Json& config, int64_t hidden) {
  const int64_t heads = size_at(config, "num_attention_heads");
  int64_t head_dim = size_at(config, "v_head_dim");
  if (head_dim == 0) head_dim = size_at(config, "head_dim");
  if (heads == 0 || head_dim == 0) return hidden;
  return heads <= kMostHidden / head_dim ? heads * head_dim : 0;
}

void add(std::vector<ModelShape>* shapes, int64_t hidden, const char* input_of) {
  if (hidden == 0) return;
  for (ModelShape& shape : *shapes) {
    if (shape.hidden != hidden) continue;
    shape.input_of += std::string(", ") + input_of;
    return;
  }
  shapes->push_back({hidden, input_of});
}

}  // namespace

std::vector<ModelShape> model_shapes_of(std::string_view json, const std::string& name) {
  const Json whole = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!whole.is_object()) throw Failure(ExitCode::input, name + ": no JSON object");
  // A model of text and pictures keeps the sizes of its language model apart.
  const auto text = whole.find("text_config");
  const Json& config = text != whole.end() && text->is_object() ? *text : whole;
  const int64_t hidden = size_at(config, "hidden_size");
  if (hidden == 0) {
    throw Failure(ExitCode::input, name + ": hidden_size: expected a positive integer");
  }
  std::vector<ModelShape> shapes;
  add(&shapes, hidden, "qkv");
  add(&shapes, attention_width(config, hidden), "o");
  add(&shapes, hidden, "gate_up");
  add(&shapes, size_at(config, "intermediate_size"), "down");
  add(&shapes, size_at(config, "moe_intermediate_size"), "expert down");
  return shapes;
}

std::vector<ModelShape> model_shapes(const std::string& path) {
  std::filesystem::path file = path;
  std::error_code error;
  if (std::filesystem::is_directory(file, error)) file /= "config.json";
  std::ifstream stream(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  if (!stream) throw Failure(ExitCode::input, file.string() + ": cannot be read");
  return model_shapes_of(text, file.string());
}

}  // namespace rowscale::cli
