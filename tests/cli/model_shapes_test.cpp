// Widths of activations from config.json. The sizes are those that the published configurations of
// the named models state.
#include "model_shapes.hpp"

#include <gtest/gtest.h>

#include <cstdint>
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
