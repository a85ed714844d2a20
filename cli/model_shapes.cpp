#include "model_shapes.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

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

// The config of the language model.
Json parse_config(std::string_view json, const std::string& name) {
  Json whole = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!whole.is_object()) throw Failure(ExitCode::input, name + ": no JSON object");
  // A model of text and pictures keeps the sizes of its language model apart.
  const auto text = whole.find("text_config");
  Json config = text != whole.end() && text->is_object() ? *text : whole;
  if (size_at(config, "hidden_size") == 0) {
    throw Failure(ExitCode::input, name + ": hidden_size: expected a positive integer");
  }
  return config;
}

struct ConfigFile {
  std::string name;
  std::string text;
};

ConfigFile read_config(const std::string& path) {
  std::filesystem::path file = path;
  std::error_code error;
  if (std::filesystem::is_directory(file, error)) file /= "config.json";
  std::ifstream stream(file, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(stream), {}};
  if (!stream) throw Failure(ExitCode::input, file.string() + ": cannot be read");
  return {file.string(), std::move(text)};
}

// 0 where one of them is.
int64_t times(int64_t a, int64_t b) {
  return a != 0 && b != 0 && a <= kMostHidden / b ? a * b : 0;
}

int64_t first_size(const Json& config, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    if (const int64_t size = size_at(config, key); size != 0) return size;
  }
  return 0;
}

// The linear layers that were found so far.
class LinearShapes {
 public:
  void add(const char* layer, int64_t n, int64_t k) { add({layer, n, k}); }
  void add(LinearShape shape) {
    if (shape.n == 0 || shape.k == 0) return;
    for (LinearShape& known : shapes_) {
      if (known.n != shape.n || known.k != shape.k || known.experts != shape.experts) continue;
      known.layer += ", " + shape.layer;
      return;
    }
    shapes_.push_back(std::move(shape));
  }
  [[nodiscard]] const std::vector<LinearShape>& all() const { return shapes_; }

 private:
  std::vector<LinearShape> shapes_;
};

// Multi-head latent attention, as DeepSeek V2 and V3 name its sizes.
void add_latent_attention(const Json& config, int64_t hidden, LinearShapes* out) {
  const int64_t heads = size_at(config, "num_attention_heads");
  const int64_t latent = size_at(config, "kv_lora_rank");
  const int64_t rope = size_at(config, "qk_rope_head_dim");
  const int64_t plain = size_at(config, "qk_nope_head_dim");
  const int64_t value = size_at(config, "v_head_dim");
  const int64_t query = size_at(config, "q_lora_rank");
  if (query != 0) {
    out->add("q_a", query, hidden);
    out->add("q_b", times(heads, plain + rope), query);
  } else {
    out->add("q", times(heads, plain + rope), hidden);
  }
  out->add("kv_a", latent + rope, hidden);
  out->add("kv_b", times(heads, plain + value), latent);
  out->add("o", hidden, times(heads, value));
}

void add_attention(const Json& config, int64_t hidden, LinearShapes* out) {
  if (size_at(config, "kv_lora_rank") != 0) return add_latent_attention(config, hidden, out);
  const int64_t heads = size_at(config, "num_attention_heads");
  const int64_t width = attention_width(config, hidden);
  if (heads == 0 || width == 0 || width % heads != 0) return;
  const int64_t given = size_at(config, "num_key_value_heads");
  const int64_t kv_heads = given != 0 ? given : heads;
  out->add("qkv", width + 2 * times(kv_heads, width / heads), hidden);
  out->add("o", hidden, width);
}

// Whether some layers of a model with experts have none.
bool has_dense_layers(const Json& config) {
  const auto only = config.find("mlp_only_layers");
  return size_at(config, "first_k_dense_replace") > 0 ||
         size_at(config, "decoder_sparse_step") > 1 ||
         (only != config.end() && only->is_array() && !only->empty());
}

void add_feed_forward(const Json& config, int64_t hidden, LinearShapes* out) {
  const int64_t dense = size_at(config, "intermediate_size");
  const int64_t experts =
      first_size(config, {"n_routed_experts", "num_local_experts", "num_experts"});
  if (experts == 0 || has_dense_layers(config)) {
    out->add("gate_up", 2 * dense, hidden);
    out->add("down", hidden, dense);
  }
  if (experts == 0) return;
  const int64_t apart = size_at(config, "moe_intermediate_size");
  const int64_t width = apart != 0 ? apart : dense;
  int64_t shared = size_at(config, "shared_expert_intermediate_size");
  if (shared == 0) shared = times(size_at(config, "n_shared_experts"), width);
  out->add("shared gate_up", 2 * shared, hidden);
  out->add("shared down", hidden, shared);
  const int64_t top_k =
      std::min(experts, std::max<int64_t>(1, size_at(config, "num_experts_per_tok")));
  out->add({"w13", 2 * width, hidden, experts, top_k});
  out->add({"w2", hidden, width, experts, top_k});
}

}  // namespace

std::vector<ModelShape> model_shapes_of(std::string_view json, const std::string& name) {
  const Json config = parse_config(json, name);
  const int64_t hidden = size_at(config, "hidden_size");
  std::vector<ModelShape> shapes;
  add(&shapes, hidden, "qkv");
  add(&shapes, attention_width(config, hidden), "o");
  add(&shapes, hidden, "gate_up");
  add(&shapes, size_at(config, "intermediate_size"), "down");
  add(&shapes, size_at(config, "moe_intermediate_size"), "expert down");
  return shapes;
}

std::vector<ModelShape> model_shapes(const std::string& path) {
  const ConfigFile file = read_config(path);
  return model_shapes_of(file.text, file.name);
}

std::vector<LinearShape> linear_shapes_of(std::string_view json, const std::string& name) {
  const Json config = parse_config(json, name);
  const int64_t hidden = size_at(config, "hidden_size");
  LinearShapes shapes;
  add_attention(config, hidden, &shapes);
  add_feed_forward(config, hidden, &shapes);
  if (shapes.all().empty()) {
    throw Failure(ExitCode::input, name + ": names no size of a linear layer");
  }
  return shapes.all();
}

std::vector<LinearShape> linear_shapes(const std::string& path) {
  const ConfigFile file = read_config(path);
  return linear_shapes_of(file.text, file.name);
}

}  // namespace rowscale::cli
