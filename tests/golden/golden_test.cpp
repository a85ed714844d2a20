// Every golden file, by every CPU target, with one thread and with two, byte for byte. The files
// come from an independent model: tests/golden/README.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/safetensors.hpp"
#include "rowscale/rowscale.hpp"

namespace rowscale {
namespace {

using checkpoint::SafetensorsFile;
using checkpoint::TensorEntry;

constexpr std::byte kUntouched{0xA5};

std::vector<std::string> golden_files() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(ROWSCALE_GOLDEN_DATA)) {
    if (entry.path().extension() == ".safetensors") names.push_back(entry.path().stem());
  }
  std::sort(names.begin(), names.end());
  return names;
}

DType dtype_of(const TensorEntry& entry) {
  DType dtype = DType::f32;
  EXPECT_TRUE(checkpoint::to_dtype(entry.type, &dtype) || entry.type == checkpoint::StoredType::u8);
  return dtype;
}

// One call, made from a golden file.
class GoldenCall {
 public:
  explicit GoldenCall(const SafetensorsFile& file) : file_(file) {
    recipe_ = parsed("recipe");
    recipe_in_ = parsed("recipe_in");
    if (recipe_.profile == Profile::vllm && meta("quantized") == "yes") {
      // A fused operator finds these for itself.
      recipe_.floor = {};
      recipe_.quotient = Quotient::standard;
      recipe_.nan = NanRule::standard;
    }
  }

  Status run(const Exec& exec) {
    outputs_.clear();
    const std::string op = meta("op");
    const bool quantized = meta("quantized") == "yes";
    if (op == "quantize") {
      return quantize(input("x"), recipe_, output("codes"), scales("scales", recipe_), exec);
    }
    if (op == "dequantize") {
      return dequantize(input("codes"), scales("scales", recipe_), recipe_, output("y"), exec);
    }
    if (op == "requantize") {
      return requantize(input("codes_in"), scales_view("codes_in", "scales_in", recipe_in_, true),
                        recipe_in_, output("codes"), scales("scales", recipe_), recipe_, exec);
    }
    if (op == "mla_norm_quantize") return run_mla(exec);
    const TensorView row = quantized ? wanted("row") : output("y");
    const TensorView codes = quantized ? output("codes") : TensorView{};
    const TensorView scale = quantized ? scales("scales", recipe_) : TensorView{};
    if (op == "rms_norm") {
      RmsNorm norm;
      norm.weight = input("weight");
      norm.eps = number("eps");
      norm.form = meta("form") == "gemma" ? NormForm::gemma : NormForm::standard;
      if (file_.find("residual") != nullptr) norm.residual = updated("residual", "residual_out");
      return quantized ? rms_norm_quantize(input("x"), norm, recipe_, codes, scale, row, exec)
                       : rms_norm(input("x"), norm, row, exec);
    }
    if (op == "silu_mul") {
      return quantized ? silu_mul_quantize(input("x"), recipe_, codes, scale, row, exec)
                       : silu_mul(input("x"), row, exec);
    }
    if (op == "gelu_tanh_mul") {
      return quantized ? gelu_tanh_mul_quantize(input("x"), recipe_, codes, scale, row, exec)
                       : gelu_tanh_mul(input("x"), row, exec);
    }
    if (op == "relu2") {
      return quantized ? relu2_quantize(input("x"), recipe_, codes, scale, row, exec)
                       : relu2(input("x"), row, exec);
    }
    if (op == "swiglu_clamped") {
      const SwigluClamped params{number("alpha"), number("limit")};
      return quantized
                 ? swiglu_clamped_quantize(input("x"), params, recipe_, codes, scale, row, exec)
                 : swiglu_clamped(input("x"), params, row, exec);
    }
    return {StatusCode::internal, "golden file with op " + op};
  }

  void expect_outputs(const std::string& how) const {
    EXPECT_FALSE(outputs_.empty());
    for (const auto& [name, bytes] : outputs_) {
      const TensorEntry& entry = *file_.find(name);
      const std::byte* expected = file_.data(entry);
      for (size_t i = 0; i < bytes.size(); ++i) {
        if (bytes[i] == expected[i]) continue;
        ADD_FAILURE() << how << ": " << name << " byte " << i << " of " << bytes.size()
                      << ": expected " << std::hex << std::to_integer<int>(expected[i]) << ", got "
                      << std::to_integer<int>(bytes[i]) << "\n"
                      << meta("why") << "\n"
                      << meta("recipe");
        return;
      }
    }
  }

 private:
  std::string meta(const std::string& key) const {
    const auto found = file_.metadata().find(key);
    return found == file_.metadata().end() ? "" : found->second;
  }
  float number(const std::string& key) const { return std::strtof(meta(key).c_str(), nullptr); }

  Recipe parsed(const std::string& key) const {
    Recipe recipe;
    if (meta(key).empty()) return recipe;
    const Status status = parse_recipe(meta(key), &recipe);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(to_string(recipe), meta(key));  // printing gives the model's text again
    return recipe;
  }

  Status run_mla(const Exec& exec) {
    const MlaNorm norm = {input("q_weight"), input("kv_weight"), number("q_eps"), number("kv_eps")};
    const Recipe kv_recipe = parsed("kv_recipe");
    MlaOutputs outputs;
    outputs.q_codes = output("q_codes");
    outputs.q_scales = part_scales("q", recipe_);
    outputs.q_row = wanted("q_row");
    outputs.kv = wanted("kv");
    outputs.kv_codes = wanted("kv_codes");
    if (!meta("kv_recipe").empty()) outputs.kv_scales = part_scales("kv", kv_recipe);
    outputs.rope = wanted("rope");
    return mla_norm_quantize(input("x"), norm, recipe_, kv_recipe, outputs, exec);
  }
  TensorView part_scales(const std::string& part, const Recipe& recipe) {
    return scales_view(part + "_codes", part + "_scales", recipe,
                       recipe.scale_source == ScaleSource::given);
  }

  static TensorView view(const TensorEntry& entry, const void* data) {
    TensorView v;
    v.data = const_cast<void*>(data);
    v.dtype = dtype_of(entry);
    v.rank = static_cast<int>(entry.shape.size());
    int64_t stride = 1;
    for (int i = v.rank - 1; i >= 0; --i) {
      v.shape[i] = entry.shape[i];
      v.strides[i] = stride;
      stride *= entry.shape[i];
    }
    return v;
  }

  TensorView input(const std::string& name) const {
    const TensorEntry& entry = *file_.find(name);
    TensorView v = view(entry, file_.data(entry));
    const bool has_rows = name == "x" || name == "codes" || name == "codes_in";
    if (const TensorEntry* counts = file_.find("counts"); counts != nullptr && has_rows) {
      v.row_counts = reinterpret_cast<const int32_t*>(file_.data(*counts));
    }
    return v;
  }

  TensorView output(const std::string& name) {
    const TensorEntry& entry = *file_.find(name);
    auto& bytes = outputs_[name];
    bytes.assign(static_cast<size_t>(entry.end - entry.begin), kUntouched);
    return view(entry, bytes.data());
  }

  // An output that is not asked for where the file does not hold it.
  TensorView wanted(const std::string& name) {
    return file_.find(name) == nullptr ? TensorView{} : output(name);
  }

  // An input that the operator changes in place.
  TensorView updated(const std::string& before, const std::string& after) {
    const TensorView v = output(after);
    const TensorEntry& entry = *file_.find(before);
    std::memcpy(v.data, file_.data(entry), static_cast<size_t>(entry.end - entry.begin));
    return v;
  }

  TensorView scales(const std::string& name, const Recipe& recipe) {
    const bool is_input = meta("op") == "dequantize" || recipe.scale_source == ScaleSource::given;
    return scales_view("codes", name, recipe, is_input);
  }

  TensorView scales_view(const std::string& codes, const std::string& name, const Recipe& recipe,
                         bool is_input) {
    const TensorEntry& entry = *file_.find(name);
    const void* data = is_input ? file_.data(entry) : output(name).data;
    ScaleSpec spec;
    const Status status = scale_spec(view(*file_.find(codes), nullptr), recipe, &spec);
    EXPECT_TRUE(status.ok()) << status.message();
    // The model's storage is exactly what the layout prescribes.
    EXPECT_EQ(spec.storage * element_size(spec.dtype), entry.end - entry.begin);
    return spec.view(data);
  }

  const SafetensorsFile& file_;
  Recipe recipe_;
  Recipe recipe_in_;
  std::map<std::string, std::vector<std::byte>> outputs_;
};

class Golden : public testing::TestWithParam<std::string> {};

TEST_P(Golden, EveryTargetGivesTheModelsBytes) {
  SafetensorsFile file;
  const std::string path = std::string(ROWSCALE_GOLDEN_DATA) + "/" + GetParam() + ".safetensors";
  Status status = SafetensorsFile::open(path, &file);
  ASSERT_TRUE(status.ok()) << status.message();
  GoldenCall call(file);
  for (Target target : supported_targets()) {
    for (int threads : {1, 2}) {
      Exec exec;
      exec.target = target;
      exec.threads = threads;
      status = call.run(exec);
      ASSERT_TRUE(status.ok()) << status.message();
      call.expect_outputs(std::string(to_string(target)) + ", " + std::to_string(threads) +
                          " threads");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Files, Golden, testing::ValuesIn(golden_files()),
                         [](const auto& test) { return test.param; });

TEST(GoldenFiles, AreThere) {
  EXPECT_GE(golden_files().size(), 300U);
}

}  // namespace
}  // namespace rowscale
