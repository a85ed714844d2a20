// Plans: what is decided about each tensor, with its reason; patterns, fused groups, warnings, and
// where things lie in an output shard. Names and shapes are those of published models.
#include "checkpoint/plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/failure.hpp"
#include "checkpoint/fused_group.hpp"
#include "checkpoint/json_text.hpp"
#include "checkpoint/output_texts.hpp"
#include "checkpoint/patterns.hpp"
#include "checkpoint/shard_layout.hpp"
#include "tests/checkpoint/plan_fixture.hpp"

namespace rowscale::checkpoint {
namespace {

using test::bf16_tensor;
using test::Plans;
using test::StoredTensor;

Reason decided(const std::string& tensor, std::vector<int64_t> shape = {64, 64},
               const std::string& config = "{}") {
  return decide(traits_of(nlohmann::json::parse(config)), tensor, StoredType::bf16, shape);
}

TEST(Decisions, KnowTheNamesOfPublishedModels) {
  const std::pair<const char*, Reason> cases[] = {
      {"model.layers.0.self_attn.q_proj.weight", Reason::linear_weight},
      {"model.layers.0.mlp.gate_proj.weight", Reason::linear_weight},
      {"model.layers.3.mlp.experts.7.down_proj.weight", Reason::linear_weight},
      {"model.layers.0.block_sparse_moe.experts.0.w1.weight", Reason::linear_weight},
      {"model.layers.0.mlp.shared_expert.up_proj.weight", Reason::linear_weight},
      {"model.layers.0.self_attn.kv_a_proj_with_mqa.weight", Reason::linear_weight},
      {"transformer.h.0.attn.c_attn.weight", Reason::linear_weight},
      {"encoder.layer.0.attention.output.dense.weight", Reason::linear_weight},
      {"lm_head.weight", Reason::output_head},
      {"language_model.lm_head.weight", Reason::output_head},
      {"output.weight", Reason::output_head},
      {"transformer.output_layer.weight", Reason::output_head},
      {"model.embed_tokens.weight", Reason::embedding},
      {"transformer.wte.weight", Reason::embedding},
      {"embeddings.word_embeddings.weight", Reason::embedding},
      {"model.layers.0.mlp.gate.weight", Reason::router},
      {"model.layers.0.mlp.shared_expert_gate.weight", Reason::router},
      {"model.layers.0.block_sparse_moe.gate.weight", Reason::router},
      {"model.layers.0.feed_forward.router.weight", Reason::router},
      {"layers.0.router.proj.weight", Reason::router},
      {"model.layers.0.block_sparse_moe.router.layer.weight", Reason::router},
      {"vision_tower.vision_model.encoder.layers.0.mlp.fc1.weight", Reason::vision},
      {"model.visual.blocks.0.attn.qkv.weight", Reason::vision},
      {"embed_vision.embedding_projection.weight", Reason::vision},
      {"audio_tower.layers.0.fc1.weight", Reason::audio},
      {"multi_modal_projector.linear_1.weight", Reason::projector},
      {"model.layers.0.linear_attn.in_proj_qkvz.weight", Reason::state_space},
      {"backbone.layers.0.mixer.x_proj.weight", Reason::state_space},
      {"model.layers.0.self_attn.indexer.wq_b.weight", Reason::indexer},
      {"mtp.layers.0.mlp.gate_proj.weight", Reason::multi_token},
      {"model.layers.0.self_attn.q_proj.bias", Reason::no_weight},
      {"model.layers.0.mixer.A_log", Reason::no_weight},
  };
  for (const auto& [name, reason] : cases) {
    EXPECT_STREQ(code_of(decided(name)), code_of(reason)) << name;
  }
  EXPECT_EQ(decided("model.norm.weight", {64}), Reason::norm);
  EXPECT_EQ(decided("model.layers.0.x.weight", {64}), Reason::one_dimensional);
  EXPECT_EQ(decided("model.conv.weight", {8, 3, 3}), Reason::many_dimensional);
  EXPECT_EQ(decided("model.layers.0.q_proj.weight", {0, 64}), Reason::empty);
  EXPECT_EQ(decide({}, "a.weight", StoredType::i8, std::vector<int64_t>{4, 4}),
            Reason::integer_or_other_type);
}

// A prediction layer has a number behind the last one of the model.
TEST(Decisions, KnowThePredictionLayerByItsNumber) {
  const std::string config = R"({"num_hidden_layers":61,"num_nextn_predict_layers":1})";
  EXPECT_EQ(decided("model.layers.61.mlp.up_proj.weight", {64, 64}, config), Reason::multi_token);
  EXPECT_EQ(decided("model.layers.60.mlp.up_proj.weight", {64, 64}, config), Reason::linear_weight);
  EXPECT_EQ(decided("model.layers.61.mlp.up_proj.weight"), Reason::linear_weight);
}

TEST(FusedGroups, AreWhatReadersMerge) {
  EXPECT_EQ(scale_group("a.q_proj"), scale_group("a.v_proj"));
  EXPECT_NE(scale_group("a.q_proj"), scale_group("b.q_proj"));
  EXPECT_EQ(scale_group("a.gate_proj"), scale_group("a.up_proj"));
  EXPECT_EQ(scale_group("a.w1"), scale_group("a.w3"));
  EXPECT_EQ(scale_group("a.q_a_proj"), scale_group("a.kv_a_proj_with_mqa"));
  EXPECT_EQ(scale_group("a.o_proj"), "");
  EXPECT_EQ(decision_group("a.experts.0.down_proj"), decision_group("a.experts.9.gate_proj"));
  EXPECT_NE(scale_group("a.experts.0.up_proj"), scale_group("a.experts.1.up_proj"));
  EXPECT_EQ(experts_of("a.shared_experts.up_proj"), "");
}

TEST(Patterns, MatchAsPythonsReMatches) {
  struct Case {
    const char* pattern;
    const char* name;
    bool fits;
  };
  const Case cases[] = {
      {"lm_head", "lm_head", true},
      {"lm_head", "lm_head.x", false},    // a name is the whole name
      {"re:lm_head", "lm_head.x", true},  // anchored at the start alone
      {"re:head", "lm_head", false},
      {"re:.*mlp.gate", "a.mlp.gate_proj", true},
      {"re:.*mlp.gate$", "a.mlp.gate_proj", false},
      {"re:.*\\.(?:q|k)_proj$", "a.q_proj", true},
      {"re:(?P<x>a+)b(?P=x)", "aabaa", true},
      {"re:\\w+$", "gew\xC3\xBCrz", true},  // Unicode, as str patterns are
      {"re:.{3}$", "\xC3\xA4\xC3\xB6\xC3\xBC", true},
      {"re:model\\.layers\\.(1[0-9]|2)\\.", "model.layers.2.x", true},
  };
  for (const Case& c : cases) {
    Patterns patterns({c.pattern});
    EXPECT_EQ(patterns.match(c.name), c.fits) << c.pattern << " " << c.name;
  }
}

TEST(Patterns, RefuseWhatPythonReadsDifferently) {
  for (const char* pattern : {"re:(", "re:a{,3}", "re:[[:alpha:]]", "re:a\\Z", "re:\\Qa.b\\E",
                              "re:(?R)", "re:\\h", "re:(*FAIL)", "re:(?|a|b)"}) {
    try {
      const Patterns patterns({pattern});
      ADD_FAILURE() << pattern << " was accepted";
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.kind(), FailureKind::usage);
    }
  }
  EXPECT_NO_THROW(Patterns({"re:a\\\\h[{,]x\\.\\d"}));
  EXPECT_THROW(Patterns({"nothing"}).require_all_used(), Failure);
  // An expression that would never end is an error, not a hang.
  Patterns slow({"re:(a+)+$"});
  EXPECT_THROW(slow.match(std::string(64, 'a') + "!"), Failure);
}

TEST_F(Plans, OneDecisionForAFusedGroup) {
  std::vector<StoredTensor> tensors = attention("a");
  tensors[1].dtype = "I8";  // k_proj cannot be quantized: nor are q and v
  tensors[1].data.resize(tensors[1].data.size() / 2);
  const Plan& plan = plan_of(tensors, Scheme::fp8_dynamic);
  std::map<std::string, Reason> reasons;
  for (const TensorPlan& tensor : plan.tensors) {
    reasons[std::string(model_->entry(tensor.source).name)] = tensor.reason;
  }
  EXPECT_EQ(reasons["a.q_proj.weight"], Reason::fused_with_left);
  EXPECT_EQ(reasons["a.v_proj.weight"], Reason::fused_with_left);
  EXPECT_EQ(reasons["a.o_proj.weight"], Reason::linear_weight);
  EXPECT_EQ(plan.ignore, (std::vector<std::string>{"a.k_proj", "a.q_proj", "a.v_proj"}));
}

TEST_F(Plans, PatternsThatSplitAGroupAreNamed) {
  expect_refused(attention("a"), FailureKind::usage, "fits \"a.q_proj\", but not \"a.k_proj\"",
                 {"re:.*q_proj"});
  expect_refused(attention("a"), FailureKind::usage, "fits no module", {"a.q"});
  EXPECT_NO_THROW(plan_of(attention("a"), Scheme::fp8_dynamic, {"re:.*[qkv]_proj"}));
}

TEST_F(Plans, ScalesWithoutAConfigurationAreNotGuessed) {
  std::vector<StoredTensor> tensors = attention("a");
  tensors.push_back({"b.weight", "F8_E4M3", {128, 128}, std::string(16384, '\x38')});
  expect_refused(tensors, FailureKind::input, "F8_E4M3 in a model without a quantization_config");
  const std::string block = R"({"quantization_config":{"quant_method":"fp8","weight_block_size":)"
                            R"([128,128]}})";
  expect_refused(tensors, FailureKind::input, "expected its scales in b.weight_scale_inv", {},
                 block);
  tensors.push_back({"b.weight_scale_inv", "F32", {1, 2}, std::string(8, '\0')});
  expect_refused(tensors, FailureKind::input, "expected [1, 1] scales", {}, block);
  tensors.back() = {"b.weight_scale_inv", "F16", {1, 1}, std::string(2, '\0')};
  expect_refused(tensors, FailureKind::input, "expected scales in F32, BF16 or UE8M0", {}, block);
  tensors.back() = {"b.weight_scale_inv", "F32", {1, 1}, std::string(4, '\0')};
  tensors.push_back({"c.weight_scale_inv", "F32", {1, 1}, std::string(4, '\0')});
  expect_refused(tensors, FailureKind::input, "which is not there", {}, block);
  tensors.pop_back();
  EXPECT_NO_THROW(plan_of(tensors, Scheme::fp8_dynamic, {}, block));
  expect_refused(tensors, FailureKind::usage, "cannot be left in 16 bits", {"b"}, block);
}

TEST_F(Plans, NothingToQuantizeIsRefused) {
  expect_refused({bf16_tensor("model.embed_tokens.weight", {8, 8}, 1)}, FailureKind::input,
                 "nothing to quantize");
}

TEST_F(Plans, BlocksThatDoNotDivideAreWarnedOf) {
  const auto warned = [&](std::vector<int64_t> up, std::vector<int64_t> down) {
    const Plan& plan =
        plan_of({bf16_tensor("m.gate_proj.weight", up, 1), bf16_tensor("m.up_proj.weight", up, 2),
                 bf16_tensor("m.down_proj.weight", down, 3)},
                Scheme::fp8_block);
    std::string gpus;
    for (const std::string& warning : plan.warnings) {
      const size_t at = warning.find("tensor parallel ");
      if (at != std::string::npos) gpus += warning[at + 16];
    }
    return gpus;
  };
  EXPECT_EQ(warned({1024, 128}, {128, 1024}), "");
  EXPECT_EQ(warned({768, 128}, {128, 768}), "48");  // 768 / 4 = 192
  EXPECT_EQ(warned({320, 128}, {128, 320}), "1248");
}

TEST_F(Plans, EveryTensorOfAnOutputIsAligned) {
  std::vector<StoredTensor> tensors = attention("a");
  tensors.push_back(bf16_tensor("odd.weight", {3, 5}, 5));  // 15 bytes of codes
  tensors.push_back({"flags", "BOOL", {3}, "\x01\x01\x01"});
  tensors.push_back({"count", "I64", {1}, std::string(8, '\x01')});
  tensors.push_back({"half", "F16", {1}, "\x01\x01"});
  for (const Scheme scheme : {Scheme::fp8_dynamic, Scheme::fp8_block, Scheme::fp8_tensor}) {
    const Plan& plan = plan_of(tensors, scheme);
    const ShardLayout layout(plan, *model_, 0);
    std::string header;
    layout.write_header([&](std::string_view piece) { header += piece; });
    EXPECT_EQ(static_cast<int64_t>(header.size()), layout.header_bytes());
    EXPECT_EQ(header.size() % 8, 0U);
    SafetensorsHeader read;
    const Status status = parse_header(header.substr(8), layout.payload_bytes(), &read);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(read.metadata.at("format"), "pt");
    EXPECT_EQ(read.tensors.size(), tensors.size() + 5);  // a scale for each weight
    for (const TensorEntry& entry : read.tensors) {
      EXPECT_EQ(entry.begin % std::max<int64_t>(bits_per_element(entry.type) / 8, 1), 0)
          << entry.name;
    }
  }
}

// Keys that readers of some version refuse (scale_dtype, zp_dtype, per-group format) are not there.
TEST_F(Plans, TheConfigurationHasThePortableKeysAlone) {
  for (const Scheme scheme : {Scheme::fp8_dynamic, Scheme::fp8_block, Scheme::fp8_tensor}) {
    const Plan& plan =
        plan_of(attention("a"), scheme, {}, "{\"model_type\": \"llama\", \"rope\": Infinity}");
    const std::string text = config_text(*model_, plan);
    EXPECT_EQ(text.substr(0, 41), "{\"model_type\": \"llama\", \"rope\": Infinity,");
    const auto quantization = parse_config(text, "config.json")["quantization_config"];
    EXPECT_EQ(quantization["quant_method"], "compressed-tensors");
    const auto& group = quantization["config_groups"]["group_0"];
    EXPECT_EQ(group.size(), 4U);
    for (const char* args : {"weights", "input_activations"}) {
      for (const auto& [key, value] : group[args].items()) {
        const std::vector<std::string> portable = {
            "num_bits",        "type",     "strategy", "symmetric",      "dynamic", "group_size",
            "block_structure", "actorder", "observer", "observer_kwargs"};
        EXPECT_NE(std::find(portable.begin(), portable.end(), key), portable.end()) << key;
      }
    }
  }
}

}  // namespace
}  // namespace rowscale::checkpoint
