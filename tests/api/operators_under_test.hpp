// Every operator with right arguments, in memory that must not change while calls are refused.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/support/calls.hpp"
#include "tests/support/recipes.hpp"

namespace rowscale::test {

enum class Role {
  input,   // rows of data
  output,  // rows of data
  scales_in,
  scales_out,
  weight,
  width,    // a weight whose length says how wide other arguments must be
  updated,  // an output that is read first: the residual
};

struct Argument {
  const char* name;
  Role role;
  TensorView view;
  std::vector<DType> allowed;  // dtypes that are right whatever the other arguments are
};

inline bool is_output(Role role) {
  return role == Role::output || role == Role::scales_out || role == Role::updated;
}
inline bool is_weight(Role role) {
  return role == Role::weight || role == Role::width;
}
inline bool is_scales(Role role) {
  return role == Role::scales_in || role == Role::scales_out;
}

// An operator, its arguments, and memory that must not change while calls are refused.
struct Operator {
  std::string name;
  std::vector<Argument> arguments;
  std::function<Status(const std::vector<TensorView>&, const Exec&)> call;
};

class OperatorsUnderTest : public testing::Test {
 protected:
  static constexpr int64_t kRows = 4;
  static constexpr int64_t kHidden = 256;

  OperatorsUnderTest() : memory_(80 * kBuffer), before_(memory_.content()) {}

  std::byte* buffer() { return memory_.data() + kBuffer * used_++; }

  TensorView rows(DType dtype, int64_t columns = kHidden) {
    return view_of(buffer(), dtype, {kRows, columns});
  }
  TensorView scales(const Recipe& recipe, int64_t columns = kHidden) {
    return spec_of(view_of(nullptr, DType::e4m3, {kRows, columns}), recipe).view(buffer());
  }
  Argument x(int64_t columns = kHidden, const char* name = "x") {
    return {name, Role::input, rows(DType::bf16, columns), {DType::f32, DType::f16, DType::bf16}};
  }
  Argument codes_in(const char* name) {
    return {name, Role::input, rows(DType::e4m3), {DType::e4m3}};
  }
  Argument codes(const char* name = "codes") {
    return {name, Role::output, rows(DType::e4m3), {DType::e4m3}};
  }
  Argument row(const char* name) { return {name, Role::output, rows(DType::bf16), {DType::bf16}}; }

  std::vector<Operator> operators() {
    const Recipe group = per_group(128);
    const Recipe packed = with(per_group(32), ScaleEncoding::ue8m0_packed);
    const Recipe given = with(per_block(2, 128), ScaleSource::given);
    std::vector<Operator> list;
    list.push_back(
        {"quantize",
         {x(), codes(), {"scales", Role::scales_out, scales(group), {DType::f32}}},
         [=](const auto& t, const Exec& e) { return quantize(t[0], group, t[1], t[2], e); }});
    list.push_back(
        {"quantize packed",
         {x(), codes(), {"scales", Role::scales_out, scales(packed), {DType::i32}}},
         [=](const auto& t, const Exec& e) { return quantize(t[0], packed, t[1], t[2], e); }});
    list.push_back(
        {"quantize given",
         {x(), codes(), {"scales", Role::scales_in, scales(given), {DType::f32}}},
         [=](const auto& t, const Exec& e) { return quantize(t[0], given, t[1], t[2], e); }});
    list.push_back(
        {"dequantize",
         {codes_in("codes"),
          {"scales", Role::scales_in, scales(group), {DType::f32}},
          {"y", Role::output, rows(DType::f32), {DType::f32, DType::f16, DType::bf16}}},
         [=](const auto& t, const Exec& e) { return dequantize(t[0], t[1], group, t[2], e); }});
    list.push_back({"requantize",
                    {codes_in("codes_in"),
                     {"scales_in", Role::scales_in, scales(group), {DType::f32}},
                     codes("codes_out"),
                     {"scales_out", Role::scales_out, scales(packed), {DType::i32}}},
                    [=](const auto& t, const Exec& e) {
                      return requantize(t[0], t[1], group, t[2], t[3], packed, e);
                    }});
    const Recipe tma = with(group, ScaleEncoding::f32, ScaleLayout::column_major_tma);
    const TensorView shape = view_of(nullptr, DType::e4m3, {kRows, kHidden});
    list.push_back({"relayout_scales",
                    {{"scales_in", Role::scales_in, scales(group), {DType::f32}},
                     {"scales_out", Role::scales_out, scales(tma), {DType::f32}}},
                    [=](const auto& t, const Exec& e) {
                      return relayout_scales(shape, t[0], group, t[1], tma, e);
                    }});
    const Argument weight = {"norm.weight",
                             Role::weight,
                             view_of(buffer(), DType::f32, {kHidden}),
                             {DType::f32, DType::f16, DType::bf16}};
    const Argument residual = {"norm.residual", Role::updated, rows(DType::bf16), {DType::bf16}};
    list.push_back(
        {"rms_norm", {x(), weight, residual, row("y")}, [](const auto& t, const Exec& e) {
           return rms_norm(t[0], {t[1], 1e-6F, NormForm::standard, t[2]}, t[3], e);
         }});
    list.push_back({"rms_norm_quantize",
                    {x(),
                     weight,
                     residual,
                     codes(),
                     {"scales", Role::scales_out, scales(group), {DType::f32}},
                     row("row_out")},
                    [=](const auto& t, const Exec& e) {
                      return rms_norm_quantize(t[0], {t[1], 1e-6F, NormForm::gemma, t[2]}, group,
                                               t[3], t[4], t[5], e);
                    }});
    using Separate = Status (*)(const TensorView&, const TensorView&, const Exec&);
    using Fused = Status (*)(const TensorView&, const Recipe&, const TensorView&, const TensorView&,
                             const TensorView&, const Exec&);
    struct Producer {
      std::string name;
      int64_t inputs;
      Separate separate;
      Fused fused;
    };
    for (const Producer& p : {Producer{"silu_mul", 2, silu_mul, silu_mul_quantize},
                              Producer{"gelu_tanh_mul", 2, gelu_tanh_mul, gelu_tanh_mul_quantize},
                              Producer{"relu2", 1, relu2, relu2_quantize}}) {
      list.push_back({p.name, {x(p.inputs * kHidden), row("y")}, [=](const auto& t, const Exec& e) {
                        return p.separate(t[0], t[1], e);
                      }});
      list.push_back({p.name + "_quantize",
                      {x(p.inputs * kHidden),
                       codes(),
                       {"scales", Role::scales_out, scales(group), {DType::f32}},
                       row("row_out")},
                      [=](const auto& t, const Exec& e) {
                        return p.fused(t[0], group, t[1], t[2], t[3], e);
                      }});
    }
    list.push_back({"swiglu_clamped", {x(2 * kHidden), row("y")}, [](const auto& t, const Exec& e) {
                      return swiglu_clamped(t[0], {}, t[1], e);
                    }});
    list.push_back({"swiglu_clamped_quantize",
                    {x(2 * kHidden),
                     codes(),
                     {"scales", Role::scales_out, scales(group), {DType::f32}},
                     row("row_out")},
                    [=](const auto& t, const Exec& e) {
                      return swiglu_clamped_quantize(t[0], {}, group, t[1], t[2], t[3], e);
                    }});
    const auto half = [&](const char* name) {
      return Argument{name,
                      Role::width,
                      view_of(buffer(), DType::f32, {kHidden / 2}),
                      {DType::f32, DType::f16, DType::bf16}};
    };
    const auto part = [&](const char* name, DType dtype, int64_t columns) {
      return Argument{name, Role::output, rows(dtype, columns), {dtype}};
    };
    const Recipe q_recipe = per_group(32);
    const Recipe kv_recipe = with(per_group(16), ScaleEncoding::ue8m0_packed);
    list.push_back(
        {"mla_norm_quantize",
         {x(kHidden + 32),
          half("norm.q_weight"),
          half("norm.kv_weight"),
          part("outputs.q_codes", DType::e4m3, kHidden / 2),
          {"outputs.q_scales", Role::scales_out, scales(q_recipe, kHidden / 2), {DType::f32}},
          part("outputs.q_row", DType::bf16, kHidden / 2),
          part("outputs.kv", DType::bf16, kHidden / 2),
          part("outputs.kv_codes", DType::e4m3, kHidden / 2),
          {"outputs.kv_scales", Role::scales_out, scales(kv_recipe, kHidden / 2), {DType::i32}},
          part("outputs.rope", DType::bf16, 32)},
         [=](const auto& t, const Exec& e) {
           return mla_norm_quantize(t[0], {t[1], t[2]}, q_recipe, kv_recipe,
                                    {t[3], t[4], t[5], t[6], t[7], t[8], t[9]}, e);
         }});
    return list;
  }

  // Calls with `change` applied to argument `at`; the call must be refused in these words.
  void expect_refused(const Operator& op, size_t at, const std::function<void(TensorView*)>& change,
                      const std::vector<std::string>& words,
                      StatusCode code = StatusCode::invalid_argument) {
    std::vector<TensorView> tensors;
    for (const Argument& argument : op.arguments) tensors.push_back(argument.view);
    change(&tensors[at]);
    const Status status = op.call(tensors, {});
    EXPECT_EQ(status.code(), code)
        << op.name << ", " << op.arguments[at].name << " as " << to_string(tensors[at]);
    for (const std::string& word : words) {
      EXPECT_NE(status.message().find(word), std::string::npos)
          << op.name << ", " << op.arguments[at].name << ": '" << word
          << "' is not in: " << status.message();
    }
    EXPECT_TRUE(same_bytes(memory_.content(), before_)) << op.name << ", " << op.arguments[at].name;
    EXPECT_TRUE(memory_.guards_are_unchanged());
  }

  template <class Visit>
  void for_each_argument(Visit&& visit) {
    for (const Operator& op : operators()) {
      for (size_t at = 0; at < op.arguments.size(); ++at) visit(op, at, op.arguments[at]);
      if (HasFailure()) return;
      used_ = 0;
    }
  }

  static constexpr int64_t kBuffer = 4096;  // room for 512 columns of bf16 in 4 rows
  GuardedBuffer memory_;
  std::vector<std::byte> before_;
  int64_t used_ = 0;
};

}  // namespace rowscale::test
