// config.json: what counts as one, edits that leave every other byte, and the quantization in it.
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "checkpoint/failure.hpp"
#include "checkpoint/json_text.hpp"
#include "checkpoint/quantization_config.hpp"

namespace rowscale::checkpoint {
namespace {

std::string set(const std::string& text, const std::string& value = "{\n  \"a\": 1\n}") {
  return with_member(text, {"quantization_config"}, value, "config.json");
}

TEST(ConfigText, InsertsBehindTheLastMember) {
  EXPECT_EQ(set("{\n    \"x\": [1, {\"y\": \"}\"}]\n}\n"),
            "{\n    \"x\": [1, {\"y\": \"}\"}],\n    \"quantization_config\": {\n      \"a\": 1\n  "
            "  }\n}\n");
  EXPECT_EQ(set("{}"), "{\n  \"quantization_config\": {\n    \"a\": 1\n  }\n}");
  EXPECT_EQ(set("{\"x\":1}"), "{\"x\":1,\"quantization_config\": {\"a\":1}}");
}

TEST(ConfigText, ReplacesWhereItStands) {
  EXPECT_EQ(set("{\n  \"quantization_config\": {\"quant_method\": \"fp8\"},\n  \"z\": NaN\n}"),
            "{\n  \"quantization_config\": {\n    \"a\": 1\n  },\n  \"z\": NaN\n}");
  EXPECT_EQ(set("{\"a\\\"\": 1, \"quantization\\u005fconfig\" : null , \"b\": 2}"),
            "{\"a\\\"\": 1, \"quantization\\u005fconfig\" : {\"a\":1} , \"b\": 2}");
  // The same name deeper inside is another member.
  EXPECT_EQ(set("{\"t\":{\"quantization_config\":1}}"),
            "{\"t\":{\"quantization_config\":1},\"quantization_config\": {\"a\":1}}");
  EXPECT_THROW(set("{\"quantization_config\":1,\"quantization_config\":2}"), Failure);
}

TEST(ConfigText, AcceptsPythonsNumbersOutsideStringsOnly) {
  const auto config =
      parse_config("{\"a\": Infinity, \"b\": [-Infinity, NaN], \"c\": \"NaN Infinity \\\" NaN\"}",
                   "config.json");
  EXPECT_EQ(config["a"], 0);
  EXPECT_EQ(config["b"].size(), 2U);
  EXPECT_EQ(config["c"], "NaN Infinity \" NaN");
  for (const char* text :
       {"", "[]", "{\"a\": Inf}", "{\"a\": 1,}", "\xEF\xBB\xBF{}", "{\"a\": \xFF}"}) {
    EXPECT_THROW(parse_config(text, "config.json"), Failure) << text;
  }
  EXPECT_THROW(parse_config(std::string_view("{}\0", 3), "config.json"), Failure);
}

// What json.loads of Python 3.11 accepts and refuses.
TEST(ConfigText, ReadsWhatPythonReads) {
  const std::string digits(400, '9');
  for (const std::string& number :
       {std::string("1e999"), std::string("-1E+999"), digits, "-" + digits, digits + ".5e1",
        std::string("[1e999,-Infinity]"), std::string("1e-999")}) {
    const std::string text = "{\"a\": " + number + ", \"b\": 1}";
    EXPECT_EQ(parse_config(text, "config.json")["b"], 1) << number;
    EXPECT_EQ(set(text), text.substr(0, text.size() - 1) + ", \"quantization_config\": {\"a\":1}}");
  }
  for (const char* half : {R"(\ud800)", R"(\uDFFF)", R"(\ud800\ud800)", R"(x\udc00y)"}) {
    const std::string text = std::string("{\"") + half + "\": \"" + half + "\"}";
    EXPECT_EQ(parse_config(text, "config.json").size(), 1U) << text;
    EXPECT_EQ(set(text).substr(0, text.size() - 1), text.substr(0, text.size() - 1));
  }
  EXPECT_EQ(parse_config(R"({"a": "\ud83d\ude00 \\ud800"})", "config.json")["a"],
            "\xF0\x9F\x98\x80 \\ud800");
  for (const char* text :
       {"{\"a\": -NaN}", "{\"a\": 1Infinity}", "{\"a\": +1e999}", "{\"a\": .1e999}", "{\"a\": 1e}",
        "{\"a\": 01e999}", "{\"a\": InfinityNaN}", R"({"a": "\u12"})"}) {
    EXPECT_THROW(parse_config(text, "config.json"), Failure) << text;
  }
}

// The value that a member is added behind may be one that is read as another.
TEST(ConfigText, InsertsBehindWhatOnlyPythonReads) {
  for (const char* value : {"NaN", "-Infinity", "1e999", "[NaN]"}) {
    const std::string text = std::string("{\"x\": ") + value;
    EXPECT_EQ(set(text + "}"), text + ",\"quantization_config\": {\"a\":1}}");
  }
}

TEST(ConfigText, ReplacesInsideAnObject) {
  const auto nested = [](const std::string& text) {
    return with_member(text, {"text_config", "quantization_config"}, "{\n  \"a\": 1\n}",
                       "config.json");
  };
  EXPECT_EQ(
      nested("{\n  \"text_config\": {\n    \"quantization_config\": {\"b\": 2},\n    \"c\": "
             "1e999\n  }\n}"),
      "{\n  \"text_config\": {\n    \"quantization_config\": {\n      \"a\": 1\n    },\n    \"c\": "
      "1e999\n  }\n}");
  EXPECT_EQ(nested(R"({"quantization_config":1,"text_config":{"quantization_config":2}})"),
            R"({"quantization_config":1,"text_config":{"quantization_config":{"a":1}}})");
}

SourceFormat format_of(const std::string& quantization) {
  return read_quantization_config(
             nlohmann::json::parse(R"({"quantization_config":)" + quantization + "}"))
      .format;
}

TEST(QuantizationConfig, RecognizesWhatPeopleHave) {
  EXPECT_EQ(read_quantization_config(nlohmann::json::parse("{}")).format, SourceFormat::plain);
  EXPECT_EQ(format_of("null"), SourceFormat::plain);
  EXPECT_EQ(format_of(R"({"quant_method":"fp8","activation_scheme":"static"})"),
            SourceFormat::fp8_per_tensor);
  EXPECT_EQ(format_of(R"({"quant_method":"compressed-tensors","config_groups":{}})"),
            SourceFormat::compressed_tensors);
  EXPECT_EQ(format_of(R"({"quant_method":"modelopt","quant_algo":"FP8"})"), SourceFormat::modelopt);
  EXPECT_EQ(format_of(R"({"quant_method":"modelopt","config_groups":{},"quant_algo":"NVFP4"})"),
            SourceFormat::nvfp4);
  EXPECT_EQ(format_of(R"({"quant_method":"gptq","bits":4})"), SourceFormat::gptq);
  EXPECT_EQ(format_of(R"({"quant_method":"awq"})"), SourceFormat::awq);
  EXPECT_EQ(format_of(R"({"load_in_4bit":true})"), SourceFormat::bitsandbytes);
  EXPECT_EQ(format_of(R"({"quant_method":"mxfp4"})"), SourceFormat::mxfp4);
  EXPECT_EQ(format_of(R"({"quant_method":"hqq"})"), SourceFormat::other);
}

TEST(QuantizationConfig, IsFoundWithTheLanguageModel) {
  for (const char* name : {"text_config", "llm_config", "language_config"}) {
    const auto config = nlohmann::json::parse(
        std::string("{\"") + name +
        R"(":{"quantization_config":{"quant_method":"fp8","weight_block_size":[128,128]}}})");
    EXPECT_EQ(read_quantization_config(config).format, SourceFormat::block_fp8) << name;
  }
}

TEST(QuantizationConfig, ReadsDeepSeeksBlocks) {
  const auto config = read_quantization_config(nlohmann::json::parse(
      R"({"quantization_config":{"quant_method":"fp8","fmt":"e4m3","scale_fmt":"ue8m0",)"
      R"("weight_block_size":[128,64],"modules_to_not_convert":["lm_head"]}})"));
  EXPECT_EQ(config.format, SourceFormat::block_fp8);
  EXPECT_EQ(config.block_rows, 128);
  EXPECT_EQ(config.block_columns, 64);
  EXPECT_EQ(config.scale_format, "ue8m0");
  EXPECT_EQ(config.left_alone, std::vector<std::string>{"lm_head"});
  for (const char* size : {"[128]", "128", "[0,128]", "[\"128\",128]", "[128,-1]", "[128,1.5]"}) {
    EXPECT_THROW(
        format_of(std::string(R"({"quant_method":"fp8","weight_block_size":)") + size + "}"),
        Failure)
        << size;
  }
}

TEST(QuantizationConfig, ReadsCompressedTensorsOldAndNew) {
  const auto config = read_quantization_config(nlohmann::json::parse(R"({"quantization_config":{
    "quant_method":"compressed-tensors","format":"float-quantized","ignore":["lm_head"],
    "quantization_status":"compressed","config_groups":{"FP8_BLOCK":{"targets":["Linear"],
    "weights":{"num_bits":8,"type":"float","strategy":"block","symmetric":true,"dynamic":false,
    "block_structure":"128x128"},"input_activations":{"num_bits":8,"type":"float",
    "strategy":"group","group_size":128,"symmetric":true,"dynamic":true}}}}})"));
  ASSERT_EQ(config.groups.size(), 1U);
  EXPECT_EQ(config.groups[0].name, "FP8_BLOCK");
  EXPECT_EQ(config.groups[0].weights->block_structure, (std::vector<int64_t>{128, 128}));
  EXPECT_EQ(config.groups[0].input_activations->group_size, 128);
  EXPECT_TRUE(config.groups[0].input_activations->is_dynamic);
  EXPECT_EQ(config.ignore, std::vector<std::string>{"lm_head"});
}

}  // namespace
}  // namespace rowscale::checkpoint
