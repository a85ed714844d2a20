// Widths of activations from config.json. The sizes are those that the published configurations of
// the named models state.
#include "model_shapes.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "failure.hpp"

namespace rowscale::cli {
namespace {

using Widths = std::vector<std::pair<int64_t, std::string>>;

Widths widths(const std::string& json) {
  Widths out;
  for (const ModelShape& shape : model_shapes_of(json, "config.json")) {
    out.emplace_back(shape.hidden, shape.input_of);
  }
  return out;
}

TEST(ModelShapes, DenseModel) {  // Llama 3.1 8B
  EXPECT_EQ(widths(R"({"hidden_size": 4096, "intermediate_size": 14336,
                       "num_attention_heads": 32, "num_key_value_heads": 8})"),
            (Widths{{4096, "qkv, o, gate_up"}, {14336, "down"}}));
}

TEST(ModelShapes, AttentionWiderThanTheModel) {  // Qwen3 0.6B: 16 heads of 128 over 1024
  EXPECT_EQ(widths(R"({"hidden_size": 1024, "intermediate_size": 3072,
                       "num_attention_heads": 16, "head_dim": 128})"),
            (Widths{{1024, "qkv, gate_up"}, {2048, "o"}, {3072, "down"}}));
}

TEST(ModelShapes, ExpertsAndLatentAttention) {  // DeepSeek V3: 128 heads whose values have 128
  EXPECT_EQ(widths(R"({"hidden_size": 7168, "intermediate_size": 18432,
                       "moe_intermediate_size": 2048, "num_attention_heads": 128,
                       "v_head_dim": 128})"),
            (Widths{{7168, "qkv, gate_up"}, {16384, "o"}, {18432, "down"}, {2048, "expert down"}}));
}

TEST(ModelShapes, LanguageModelOfAModelWithPictures) {
  EXPECT_EQ(widths(R"({"vision_config": {"hidden_size": 1280},
                       "text_config": {"hidden_size": 5120, "intermediate_size": 27648}})"),
            (Widths{{5120, "qkv, o, gate_up"}, {27648, "down"}}));
}

struct Linear {
  std::string layer;
  int64_t n, k;
  int64_t experts = 0, top_k = 0;
  friend bool operator==(const Linear&, const Linear&) = default;
};

void PrintTo(const Linear& one, std::ostream* out) {
  *out << one.layer << ' ' << one.n << 'x' << one.k << ' ' << one.experts << '/' << one.top_k;
}

std::vector<Linear> linears(const std::string& json) {
  std::vector<Linear> out;
  for (const LinearShape& one : linear_shapes_of(json, "config.json")) {
    out.push_back({one.layer, one.n, one.k, one.experts, one.top_k});
  }
  return out;
}

// n and k as the checkpoints of the named models store them, q, k, v and gate, up concatenated.
TEST(LinearShapes, DenseModel) {  // Llama 3.1 8B
  EXPECT_EQ(linears(R"({"hidden_size": 4096, "intermediate_size": 14336,
                        "num_attention_heads": 32, "num_key_value_heads": 8})"),
            (std::vector<Linear>{{"qkv", 6144, 4096},
                                 {"o", 4096, 4096},
                                 {"gate_up", 28672, 4096},
                                 {"down", 4096, 14336}}));
}

TEST(LinearShapes, OneKeyHeadForEachQueryHead) {  // Qwen2 0.5B's widths, Llama 2's heads
  EXPECT_EQ(linears(R"({"hidden_size": 896, "num_attention_heads": 14})"),
            (std::vector<Linear>{{"qkv", 2688, 896}, {"o", 896, 896}}));
}

TEST(LinearShapes, AttentionWiderThanTheModel) {  // Qwen3 0.6B
  EXPECT_EQ(
      linears(R"({"hidden_size": 1024, "intermediate_size": 3072, "num_attention_heads": 16,
                        "num_key_value_heads": 8, "head_dim": 128})"),
      (std::vector<Linear>{
          {"qkv", 4096, 1024}, {"o", 1024, 2048}, {"gate_up", 6144, 1024}, {"down", 1024, 3072}}));
}

TEST(LinearShapes, ExpertsAlone) {  // Mixtral 8x7B: every layer has experts
  EXPECT_EQ(linears(R"({"hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32,
                        "num_key_value_heads": 8, "num_local_experts": 8,
                        "num_experts_per_tok": 2})"),
            (std::vector<Linear>{{"qkv", 6144, 4096},
                                 {"o", 4096, 4096},
                                 {"w13", 28672, 4096, 8, 2},
                                 {"w2", 4096, 14336, 8, 2}}));
}

TEST(LinearShapes, ExpertsOfTheirOwnWidth) {  // Qwen3 30B A3B
  EXPECT_EQ(linears(R"({"hidden_size": 2048, "intermediate_size": 6144, "head_dim": 128,
                        "num_attention_heads": 32, "num_key_value_heads": 4, "num_experts": 128,
                        "num_experts_per_tok": 8, "moe_intermediate_size": 768,
                        "decoder_sparse_step": 1, "mlp_only_layers": []})"),
            (std::vector<Linear>{{"qkv", 5120, 2048},
                                 {"o", 2048, 4096},
                                 {"w13", 1536, 2048, 128, 8},
                                 {"w2", 2048, 768, 128, 8}}));
}

TEST(LinearShapes, LatentAttentionAndSharedExperts) {  // DeepSeek V3
  const std::string config = R"("hidden_size": 7168, "intermediate_size": 18432,
      "moe_intermediate_size": 2048, "n_routed_experts": 256, "n_shared_experts": 1,
      "num_experts_per_tok": 8, "first_k_dense_replace": 3, "num_attention_heads": 128,
      "num_key_value_heads": 128, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
      "qk_rope_head_dim": 64, "v_head_dim": 128)";
  const std::vector<Linear> rest = {
      {"kv_a", 576, 7168},         {"kv_b", 32768, 512},        {"o", 7168, 16384},
      {"gate_up", 36864, 7168},    {"down", 7168, 18432},       {"shared gate_up", 4096, 7168},
      {"shared down", 7168, 2048}, {"w13", 4096, 7168, 256, 8}, {"w2", 7168, 2048, 256, 8}};
  std::vector<Linear> with = {{"q_a", 1536, 7168}, {"q_b", 24576, 1536}};
  with.insert(with.end(), rest.begin(), rest.end());
  EXPECT_EQ(linears("{" + config + R"(, "q_lora_rank": 1536})"), with);
  std::vector<Linear> without = {{"q", 24576, 7168}};  // as V2 Lite: the query is not compressed
  without.insert(without.end(), rest.begin(), rest.end());
  EXPECT_EQ(linears("{" + config + R"(, "q_lora_rank": null})"), without);
}

TEST(LinearShapes, RefusesWhatNamesNone) {
  for (const char* json : {"", "{}", R"({"hidden_size": 4096})"}) {
    EXPECT_THROW(linear_shapes_of(json, "config.json"), Failure) << json;
  }
}

TEST(ModelShapes, RefusesWhatNamesNoWidth) {
  for (const char* json : {"", "[1]", "{}", R"({"hidden_size": "wide"})", R"({"hidden_size": 0})",
                           R"({"hidden_size": 99999999999})", R"({"hidden_size": 4096)"}) {
    try {
      model_shapes_of(json, "some/config.json");
      ADD_FAILURE() << json;
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.code(), ExitCode::input) << json;
      EXPECT_NE(std::string(failure.what()).find("some/config.json"), std::string::npos);
    }
  }
  EXPECT_THROW(model_shapes("no/such/folder"), Failure);
}

}  // namespace
}  // namespace rowscale::cli
