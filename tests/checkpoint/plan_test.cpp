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
      {"model.mtp_layers.0.self_attn.q_proj.weight", Reason::multi_token},  // MiMo
      {"model.mtp_block.0.mlp.up_proj.weight", Reason::multi_token},        // Ernie 4.5
      {"model.mtp_linear_proj.0.weight", Reason::multi_token},
      {"model.layers.0.mlp.gate.wg.weight", Reason::router},             // Hunyuan
      {"model.projector.layers.weight", Reason::projector},              // DeepSeek-OCR
      {"projector.layers.0.weight", Reason::projector},                  // DeepSeek-VL2
      {"visual_tokenizer.vit.blocks.0.mlp.fc1.weight", Reason::vision},  // Ovis
      {"visual_tokenizer.head.0.weight", Reason::vision},
      {"vte.weight", Reason::embedding},
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

// The layers of these types are no linear ones, and their weights lie the other way round; types
// whose layers have the same names are not meant.
TEST(Decisions, KnowTheTypesThatKeepWeightsTheOtherWayRound) {
  for (const char* type : {"gpt2", "openai-gpt", "imagegpt", "decision_transformer"}) {
    const std::string config = std::string(R"({"model_type":")") + type + "\"}";
    for (const char* name : {"attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"}) {
      const std::string tensor = "transformer.h.0." + std::string(name) + ".weight";
      EXPECT_EQ(decided(tensor, {64, 192}, config), Reason::input_first) << type << name;
      EXPECT_EQ(decided(tensor, {64, 192}, R"({"model_type":"gpt_bigcode"})"),
                Reason::linear_weight);
    }
    EXPECT_EQ(decided("transformer.h.0.ln_1.weight", {64}, config), Reason::one_dimensional);
  }
}

TEST(Decisions, ExpertsOfAPredictionLayerStayTooInOneTensor) {
  EXPECT_EQ(decided("mtp.layers.0.mlp.experts.gate_up_proj", {4, 64, 64}), Reason::multi_token);
  EXPECT_EQ(decided("model.layers.2.mlp.experts.down_proj", {4, 64, 64},
                    R"({"num_hidden_layers":2,"num_nextn_predict_layers":1})"),
            Reason::multi_token);
  EXPECT_EQ(decided("model.layers.1.mlp.experts.down_proj", {4, 64, 64},
                    R"({"num_hidden_layers":2,"num_nextn_predict_layers":1})"),
            Reason::linear_weight);
  EXPECT_EQ(decided("model.layers.1.mlp.experts.down_proj", {4, 0, 64}), Reason::empty);
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
}

// Left alone, an FP8 weight of the source would need a second format beside that of the output.
TEST_F(Plans, AnIgnoredFp8WeightIsDequantized) {
  const std::vector<StoredTensor> tensors = {
      bf16_tensor("a.norm.weight", {128}, 1),
      {"b.weight", "F8_E4M3", {128, 128}, std::string(16384, '\x38')},
      {"b.weight_scale_inv", "F32", {1, 1}, std::string(4, '\0')},
      {"c.weight", "F8_E4M3", {128, 128}, std::string(16384, '\x38')},
      {"c.weight_scale_inv", "F32", {1, 1}, std::string(4, '\0')}};
  for (const auto& [dtype, stored] :
       {std::pair("", StoredType::bf16), std::pair(R"("torch_dtype":"float16",)", StoredType::f16),
        std::pair(R"("dtype":"float32",)", StoredType::f32)}) {
    for (const Scheme scheme : {Scheme::fp8_dynamic, Scheme::fp8_block, Scheme::fp8_tensor}) {
      const Plan& plan = plan_of(
          tensors, scheme, {"b"},
          std::string("{") + dtype +
              R"("quantization_config":{"quant_method":"fp8","weight_block_size":[128,128]}})");
      EXPECT_EQ(plan.ignore, std::vector<std::string>{"b"});
      for (const TensorPlan& tensor : plan.tensors) {
        const auto outputs = outputs_of(plan, *model_, tensor);
        const auto& name = model_->entry(tensor.source).name;
        if (name == "b.weight") {
          EXPECT_EQ(tensor.action, Action::dequantize);
          EXPECT_STREQ(code_of(tensor.reason), "requested");
          ASSERT_EQ(outputs.size(), 1U);
          EXPECT_EQ(outputs[0].type, stored);
        } else if (name == "b.weight_scale_inv") {
          EXPECT_TRUE(outputs.empty());
        }
      }
    }
  }
  expect_refused(tensors, FailureKind::input, "nothing to quantize", {"b", "c"},
                 R"({"quantization_config":{"quant_method":"fp8","weight_block_size":[128,128]}})");
}

// What readers merge cannot be FP8 in part; the source says nothing of how it was meant.
TEST_F(Plans, FusedGroupsOfAnFp8SourceAreOfOneType) {
  const std::string block = R"({"quantization_config":{"quant_method":"fp8","weight_block_size":)"
                            R"([128,128]}})";
  const auto fp8 = [](const std::string& module) {
    return std::vector<StoredTensor>{
        {module + ".weight", "F8_E4M3", {128, 128}, std::string(16384, '\x38')},
        {module + ".weight_scale_inv", "F32", {1, 1}, std::string("\0\0\x80\x3f", 4)}};
  };
  std::vector<StoredTensor> tensors;
  for (const char* module : {"a.q_proj", "a.v_proj"}) {
    for (const StoredTensor& tensor : fp8(module)) tensors.push_back(tensor);
  }
  tensors.push_back(bf16_tensor("a.k_proj.weight", {128, 128}, 2));
  for (const Scheme scheme : {Scheme::fp8_dynamic, Scheme::fp8_block}) {
    try {
      plan_of(tensors, scheme, {}, block);
      ADD_FAILURE() << "was planned";
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.kind(), FailureKind::input);
      for (const char* name : {"a.q_proj.weight", "a.k_proj.weight"}) {
        EXPECT_NE(std::string(failure.what()).find(name), std::string::npos) << failure.what();
      }
    }
  }
  tensors.pop_back();
  for (const StoredTensor& tensor : fp8("a.k_proj")) tensors.push_back(tensor);
  tensors.push_back(bf16_tensor("a.o_proj.weight", {128, 128}, 2));  // of no group
  EXPECT_NO_THROW(plan_of(tensors, Scheme::fp8_dynamic, {}, block));
  // Dequantized, a member is asked for like one that was never FP8: with all others or not at all.
  for (const StoredTensor& tensor : fp8("b")) tensors.push_back(tensor);
  expect_refused(tensors, FailureKind::usage, "take both or none", {"a.q_proj"}, block);
  const Plan& plan = plan_of(tensors, Scheme::fp8_block, {"re:a.[qkv]_proj"}, block);
  EXPECT_EQ(plan.ignore,
            (std::vector<std::string>{"a.k_proj", "a.o_proj", "a.q_proj", "a.v_proj"}));
  EXPECT_EQ(plan.by_reason[static_cast<size_t>(Reason::requested)].tensors, 3);
}

// The way out of a group of which the source has a part in FP8.
TEST_F(Plans, AGroupThatIsFp8InPartCanBeDequantized) {
  const std::string block = R"({"quantization_config":{"quant_method":"fp8","weight_block_size":)"
                            R"([128,128]}})";
  std::vector<StoredTensor> tensors = {bf16_tensor("a.k_proj.weight", {128, 128}, 2)};
  for (const std::string module : {"a.q_proj", "a.v_proj", "b"}) {
    tensors.push_back({module + ".weight", "F8_E4M3", {128, 128}, std::string(16384, '\x38')});
    tensors.push_back(
        {module + ".weight_scale_inv", "F32", {1, 1}, std::string("\0\0\x80\x3f", 4)});
  }
  expect_refused(tensors, FailureKind::input, "which readers merge with it", {}, block);
  expect_refused(tensors, FailureKind::usage, "take both or none", {"a.q_proj"}, block);
  const Plan& plan = plan_of(tensors, Scheme::fp8_dynamic, {"a.q_proj", "a.v_proj"}, block);
  EXPECT_EQ(plan.ignore, (std::vector<std::string>{"a.k_proj", "a.q_proj", "a.v_proj"}));
}

TEST_F(Plans, NarrowTypesOfOtherFormatsAreRefusedByName) {
  for (const char* type : {"F8_E5M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "F8_E8M0", "F4", "F6_E2M3"}) {
    std::vector<StoredTensor> tensors = attention("a");
    const size_t bytes = type[1] == '4' ? 32 : type[1] == '6' ? 48 : 64;
    tensors.push_back({"b.weight", type, {8, 8}, std::string(bytes, '\x38')});
    expect_refused(tensors, FailureKind::input, std::string("\"b.weight\": expected BF16"));
    expect_refused(tensors, FailureKind::input, std::string("got ") + type);
  }
}

TEST_F(Plans, ExpertsThatAreThereTwiceAreRefused) {
  const std::string config = R"({"model_type":"qwen3_5_moe"})";
  std::vector<StoredTensor> tensors = {bf16_tensor("a.mlp.experts.gate_up_proj", {2, 64, 32}, 1)};
  EXPECT_NO_THROW(plan_of(tensors, Scheme::fp8_dynamic, {}, config));
  tensors.push_back(bf16_tensor("a.mlp.experts.0.gate_proj.weight", {32, 32}, 1));
  expect_refused(tensors, FailureKind::input, "a.mlp.experts.0.gate_proj.weight", {}, config);
}

// A shape may promise any number of experts where it holds nothing.
TEST_F(Plans, NumbersOfExpertsAreBounded) {
  const int64_t many = int64_t{1} << 40;
  for (const char* type : {"qwen3_5_moe", "unknown"}) {
    const std::string config = std::string(R"({"model_type":")") + type + "\"}";
    for (const std::vector<int64_t>& shape :
         {std::vector<int64_t>{many, 0, 16}, {many, 16, 0}, {0, many, 16}}) {
      std::vector<StoredTensor> tensors = attention("a");
      tensors.push_back({"a.experts.gate_up_proj", "BF16", shape, ""});
      tensors.push_back({"a.experts.down_proj", "I8", shape, ""});
      const Plan& plan = plan_of(tensors, Scheme::fp8_dynamic, {"a.o_proj"}, config);
      EXPECT_EQ(plan.by_reason[static_cast<size_t>(Reason::empty)].tensors, 2);
      EXPECT_LT(plan.ignore.size(), 5U);
    }
    expect_refused({bf16_tensor("a.experts.gate_up_proj", {4097, 2, 2}, 1)}, FailureKind::input,
                   "expected at most 4096 experts, got 4097", {}, config);
  }
  EXPECT_NO_THROW(plan_of({bf16_tensor("a.experts.gate_up_proj", {4096, 2, 2}, 1)},
                          Scheme::fp8_dynamic, {}, R"({"model_type":"qwen3_5_moe"})"));
}

TEST_F(Plans, NothingToQuantizeIsRefused) {
  expect_refused({bf16_tensor("model.embed_tokens.weight", {8, 8}, 1)}, FailureKind::input,
                 "nothing to quantize");
}

TEST_F(Plans, BlocksThatDoNotDivideAreWarnedOf) {
  const auto warned = [&](const std::vector<int64_t>& up, const std::vector<int64_t>& down) {
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
