// The list `ignore` of an output: every matrix that stays, by the names that readers have. Names of
// tied heads are those of the models' own code in transformers (`_tied_weights_keys`).
#include "checkpoint/ignore_list.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "tests/checkpoint/plan_fixture.hpp"

namespace rowscale::checkpoint {
namespace {

using test::bf16_tensor;
using test::StoredTensor;
using Names = std::vector<std::string>;

class IgnoreLists : public test::Plans {
 protected:
  // Of a model with these matrices and one that is quantized.
  Names ignored(const Names& left, const std::string& config = R"({"model_type":"x"})") {
    std::vector<StoredTensor> tensors = {bf16_tensor("x.quantized.weight", {32, 16}, 1)};
    for (const std::string& name : left) tensors.push_back(bf16_tensor(name, {8, 16}, 2));
    return plan_of(tensors, Scheme::fp8_dynamic, {}, config).ignore;
  }
};

TEST_F(IgnoreLists, NameATiedHeadAsItsReadersDo) {
  struct Case {
    const char* table;
    const char* beside;  // what else tells which head it is
    const char* head;
  };
  const Case cases[] = {
      {"model.embed_tokens", nullptr, "lm_head"},                 // Llama, Gemma-2
      {"model.language_model.embed_tokens", nullptr, "lm_head"},  // Qwen2.5-VL, Gemma-3
      {"language_model.model.embed_tokens", nullptr, "language_model.lm_head"},  // LLaVA, InternVL
      {"thinker.model.embed_tokens", nullptr, "thinker.lm_head"},                // Qwen2.5-Omni
      {"transformer.wte", nullptr, "lm_head"},                                   // GPT-2, MPT
      {"transformer.word_embeddings", nullptr, "lm_head"},                       // Falcon
      {"model.decoder.embed_tokens", nullptr, "lm_head"},                        // OPT
      {"model.decoder.embed_tokens", "model.encoder.conv1", "proj_out"},         // Whisper
      {"shared", nullptr, "lm_head"},                                            // T5
      {"bert.embeddings.word_embeddings", "cls.predictions.transform.dense",
       "cls.predictions.decoder"},
      {"roberta.embeddings.word_embeddings", "lm_head.dense", "lm_head.decoder"},
      {"distilbert.embeddings.word_embeddings", "vocab_transform", "vocab_projector"},
      {"model.embeddings.tok_embeddings", "head.dense", "decoder"},  // ModernBERT
  };
  for (const Case& c : cases) {
    const std::string table = c.table;
    Names left = {table + ".weight"};
    if (c.beside != nullptr) left.push_back(std::string(c.beside) + ".weight");
    for (const char* config : {R"({"model_type":"x"})", R"({"tie_word_embeddings":true})"}) {
      const Names got = ignored(left, config);
      EXPECT_NE(std::find(got.begin(), got.end(), c.head), got.end()) << table;
      const bool has_other = std::string(c.head) != "lm_head" &&
                             std::find(got.begin(), got.end(), "lm_head") != got.end();
      EXPECT_FALSE(has_other) << table;
    }
  }
}

TEST_F(IgnoreLists, NameNoHeadWhereTheFileHasOne) {
  EXPECT_EQ(ignored({"model.embed_tokens.weight", "output_layer.weight"}),
            (Names{"model.embed_tokens", "output_layer"}));
  // Of GPT-NeoX, by the names of the file and of transformers 5.
  EXPECT_EQ(ignored({"model.embed_tokens.weight", "embed_out.weight"}),
            (Names{"embed_out", "lm_head", "model.embed_tokens"}));
  EXPECT_EQ(ignored({"embeddings.word_embeddings.weight", "pooler.dense.weight"}),
            (Names{"embeddings.word_embeddings", "pooler.dense"}));
  EXPECT_EQ(ignored({}), Names{});
}

// The class of a module cannot be told from its name: one that sounds like a table may be a layer.
TEST_F(IgnoreLists, HoldEveryMatrixThatStays) {
  const Names left = {"electra.embeddings_project", "lm_head", "model.embed_tokens",
                      "model.embed_vision.embedding_projection", "model.layers.0.mlp.gate"};
  Names tensors;
  for (const std::string& module : left) tensors.push_back(module + ".weight");
  EXPECT_EQ(ignored(tensors), left);
}

TEST_F(IgnoreLists, HoldLayersOfOtherTypesAndNoVectors) {
  StoredTensor other = bf16_tensor("a.integer.weight", {8, 16}, 1);
  other.dtype = "I16";
  const Plan& plan = plan_of(
      {bf16_tensor("a.dense.weight", {8, 16}, 1), other, bf16_tensor("a.norm.weight", {8}, 1),
       bf16_tensor("a.conv.weight", {8, 2, 2}, 1), bf16_tensor("a.dense.bias", {8}, 1)},
      Scheme::fp8_dynamic);
  EXPECT_EQ(plan.ignore, Names{"a.integer"});
}

}  // namespace
}  // namespace rowscale::checkpoint
