// Every operator of rowscale.h gives the bytes of its C++ counterpart.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <vector>

#include "rowscale/rowscale.h"
#include "rowscale/rowscale.hpp"
#include "tests/support/calls.hpp"
#include "tests/support/recipes.hpp"
#include "tests/support/test_data.hpp"

namespace rowscale::test {
namespace {

// The struct of a view.
rs_tensor c_view(const TensorView& view) {
  rs_tensor t = RS_TENSOR_INIT;
  t.data = view.data;
  t.dtype = static_cast<int32_t>(view.dtype);
  t.device_type = static_cast<int32_t>(view.device.type);
  t.device_index = view.device.index;
  t.rank = view.rank;
  t.column_rank = view.column_rank;
  std::copy(view.shape, view.shape + kMaxRank, t.shape);
  std::copy(view.strides, view.strides + kMaxRank, t.strides);
  t.row_counts = view.row_counts;
  return t;
}

rs_recipe c_recipe(const Recipe& recipe) {
  rs_recipe r = RS_RECIPE_INIT;
  EXPECT_EQ(rs_recipe_parse(to_string(recipe).c_str(), &r), RS_OK) << rs_last_error();
  return r;
}

Status to_status(rs_status status) {
  if (status == RS_OK) return {};
  return {static_cast<StatusCode>(status), rs_last_error()};
}

class COperators : public testing::Test {
 protected:
  static constexpr int64_t kRows = 6;
  static constexpr int64_t kHidden = 200;

  TensorView x() const { return view_of(data_.data(), DType::bf16, {2, 3, kHidden}); }
  TensorView masked() const { return x().with_row_counts(counts_); }

  // quantizer(cpp) and quantizer(c) fill fresh outputs; they must be equal.
  void expect_equal(const TensorView& input, int64_t columns, const Recipe& recipe,
                    const std::function<Status(const TensorView&, const TensorView&)>& cpp,
                    const std::function<rs_status(const rs_tensor*, const rs_tensor*)>& c) const {
    const Outputs expected = call_quantizer(input, columns, recipe, {}, cpp);
    const Outputs got = call_quantizer(input, columns, recipe, {},
                                       [&](const TensorView& codes, const TensorView& scales) {
                                         const rs_tensor codes_t = c_view(codes);
                                         const rs_tensor scales_t = c_view(scales);
                                         return to_status(c(&codes_t, &scales_t));
                                       });
    EXPECT_TRUE(same_outputs(got, expected)) << to_string(recipe);
  }

  void expect_equal_rows(int64_t columns, DType dtype,
                         const std::function<Status(const TensorView&)>& cpp,
                         const std::function<rs_status(const rs_tensor*)>& c) const {
    const auto expected = call_into_rows(x(), columns, dtype, cpp);
    const auto got = call_into_rows(x(), columns, dtype, [&](const TensorView& y) {
      const rs_tensor t = c_view(y);
      return to_status(c(&t));
    });
    EXPECT_TRUE(same_bytes(got, expected));
  }

  std::vector<std::byte> data_ = make_data(Data::normal, DType::bf16, kRows* kHidden, 1);
  int32_t counts_[2] = {3, 1};
};

TEST_F(COperators, Quantize) {
  for (const Recipe& recipe : all_recipes(48, 2, 64)) {
    if (recipe.scale_source == ScaleSource::given) continue;
    const rs_recipe r = c_recipe(recipe);
    const rs_tensor t = c_view(masked());
    rs_exec exec = RS_EXEC_INIT;
    exec.threads = 2;
    exec.target = RS_TARGET_SCALAR;
    expect_equal(
        masked(), kHidden, recipe,
        [&](const auto& codes, const auto& scales) {
          return quantize(masked(), recipe, codes, scales);
        },
        [&](const auto* codes, const auto* scales) {
          return rs_quantize(&t, &r, codes, scales, &exec);
        });
    size_t bytes = 77;
    EXPECT_EQ(rs_quantize_workspace_bytes(&t, &r, &bytes), RS_OK);
    EXPECT_EQ(bytes, quantize_workspace_bytes(masked(), recipe));
    EXPECT_EQ(bytes, 0U);
    EXPECT_EQ(rs_quantize_workspace_bytes(&t, &r, nullptr), RS_INVALID_ARGUMENT);
  }
}

TEST_F(COperators, ScaleSpecs) {
  for (const Recipe& recipe : all_recipes(48, 2, 64)) {
    const rs_recipe r = c_recipe(recipe);
    const rs_tensor t = c_view(x());
    rs_scale_spec spec = RS_SCALE_SPEC_INIT;
    ASSERT_EQ(rs_get_scale_spec(&t, &r, &spec), RS_OK) << rs_last_error();
    const ScaleSpec expected = spec_of(x(), recipe);
    EXPECT_EQ(spec.dtype, static_cast<int32_t>(expected.dtype));
    ASSERT_EQ(spec.rank, expected.rank);
    EXPECT_EQ(spec.storage, expected.storage);
    EXPECT_EQ(spec.allocation, expected.allocation);
    rs_tensor view = RS_TENSOR_INIT;
    ASSERT_EQ(rs_scale_spec_view(&spec, data_.data(), &view), RS_OK);
    EXPECT_EQ(view.data, data_.data());
    EXPECT_EQ(view.dtype, spec.dtype);
    EXPECT_EQ(view.rank, spec.rank);
    for (int i = 0; i < spec.rank; ++i) {
      EXPECT_EQ(spec.shape[i], expected.shape[i]);
      EXPECT_EQ(spec.strides[i], expected.strides[i]);
      EXPECT_EQ(view.shape[i], expected.shape[i]);
      EXPECT_EQ(view.strides[i], expected.strides[i]);
    }
  }
}

TEST_F(COperators, DequantizeRequantizeRelayout) {
  const Recipe in = with(per_group(40), ScaleEncoding::ue8m0);
  const Outputs q = run_quantize(x(), in);
  const TensorView codes = view_of(q.codes.data(), DType::e4m3, {2, 3, kHidden});
  const TensorView scales = spec_of(codes, in).view(q.scales.data());
  const rs_tensor codes_t = c_view(codes);
  const rs_tensor scales_t = c_view(scales);
  const rs_recipe in_r = c_recipe(in);
  expect_equal_rows(
      kHidden, DType::f16, [&](const auto& y) { return dequantize(codes, scales, in, y); },
      [&](const auto* y) { return rs_dequantize(&codes_t, &scales_t, &in_r, y, nullptr); });

  const Recipe out = with(per_token(), Format::e5m2);
  const rs_recipe out_r = c_recipe(out);
  expect_equal(
      codes, kHidden, out,
      [&](const auto& c, const auto& s) { return requantize(codes, scales, in, c, s, out); },
      [&](const auto* c, const auto* s) {
        return rs_requantize(&codes_t, &scales_t, &in_r, c, s, &out_r, nullptr);
      });

  // 0 on the CPU; of a GPU only the device is looked at.
  rs_tensor on_gpu = codes_t;
  on_gpu.device_type = RS_CUDA;
  TensorView on_gpu_view = codes;
  on_gpu_view.device.type = DeviceType::cuda;
  const rs_recipe tensor_r = c_recipe(per_tensor());
  size_t bytes = 77;
  EXPECT_EQ(rs_requantize_workspace_bytes(&codes_t, &tensor_r, &bytes), RS_OK);
  EXPECT_EQ(bytes, 0U);
  EXPECT_EQ(rs_requantize_workspace_bytes(&on_gpu, &tensor_r, &bytes), RS_OK);
  EXPECT_EQ(bytes, requantize_workspace_bytes(on_gpu_view, per_tensor()));
  EXPECT_EQ(rs_requantize_workspace_bytes(&codes_t, &tensor_r, nullptr), RS_INVALID_ARGUMENT);
  EXPECT_EQ(rs_requantize_workspace_bytes(nullptr, &tensor_r, &bytes), RS_INVALID_ARGUMENT);
  EXPECT_STREQ(rs_last_error(), "codes_in: expected a struct, got NULL");

  const Recipe packed = with(per_group(40), ScaleEncoding::ue8m0_packed);
  const rs_recipe packed_r = c_recipe(packed);
  const ScaleSpec spec = spec_of(codes, packed);
  GuardedBuffer a(scale_bytes(spec));
  GuardedBuffer b(scale_bytes(spec));
  ASSERT_TRUE(relayout_scales(codes, scales, in, spec.view(a.data()), packed).ok());
  const rs_tensor b_t = c_view(spec.view(b.data()));
  ASSERT_EQ(rs_relayout_scales(&codes_t, &scales_t, &in_r, &b_t, &packed_r, nullptr), RS_OK)
      << rs_last_error();
  EXPECT_TRUE(same_bytes(b.content(), a.content()));
}

TEST_F(COperators, Norms) {
  const auto weight = make_data(Data::normal, DType::f32, kHidden, 2);
  const auto residual = make_data(Data::normal, DType::bf16, kRows * kHidden, 3);
  for (NormForm form : {NormForm::standard, NormForm::gemma}) {
    for (bool has_residual : {false, true}) {
      std::vector<std::byte> cpp_residual = residual;
      std::vector<std::byte> c_residual = residual;
      RmsNorm norm;
      norm.weight = view_of(weight.data(), DType::f32, {kHidden});
      norm.eps = 1e-3F;
      norm.form = form;
      if (has_residual) {
        norm.residual = view_of(cpp_residual.data(), DType::bf16, {2, 3, kHidden});
      }
      const rs_tensor weight_t = c_view(norm.weight);
      rs_tensor residual_t = c_view(view_of(c_residual.data(), DType::bf16, {2, 3, kHidden}));
      rs_rms_norm_args args = RS_RMS_NORM_ARGS_INIT;
      args.weight = &weight_t;
      args.residual = has_residual ? &residual_t : nullptr;
      args.eps = 1e-3F;
      args.form = static_cast<int32_t>(form);
      const rs_tensor x_t = c_view(x());
      expect_equal_rows(
          kHidden, DType::bf16, [&](const auto& y) { return rms_norm(x(), norm, y); },
          [&](const auto* y) { return rs_rms_norm(&x_t, &args, y, nullptr); });
      EXPECT_TRUE(same_bytes(c_residual, cpp_residual));
      const rs_recipe r = c_recipe(per_group(64));
      expect_equal(
          x(), kHidden, per_group(64),
          [&](const auto& c, const auto& s) {
            return rms_norm_quantize(x(), norm, per_group(64), c, s);
          },
          [&](const auto* c, const auto* s) {
            return rs_rms_norm_quantize(&x_t, &args, &r, c, s, nullptr, nullptr);
          });
    }
  }
}

TEST_F(COperators, Activations) {
  using Separate = Status (*)(const TensorView&, const TensorView&, const Exec&);
  using CSeparate = rs_status (*)(const rs_tensor*, const rs_tensor*, const rs_exec*);
  using Fused = Status (*)(const TensorView&, const Recipe&, const TensorView&, const TensorView&,
                           const TensorView&, const Exec&);
  using CFused = rs_status (*)(const rs_tensor*, const rs_recipe*, const rs_tensor*,
                               const rs_tensor*, const rs_tensor*, const rs_exec*);
  struct Pair {
    int64_t columns;
    Separate separate;
    CSeparate c_separate;
    Fused fused;
    CFused c_fused;
  };
  const Recipe recipe = with(per_group(32), ScaleEncoding::ue8m0_packed);
  const rs_recipe r = c_recipe(recipe);
  const rs_tensor x_t = c_view(x());
  for (const Pair& p : {Pair{100, silu_mul, rs_silu_mul, silu_mul_quantize, rs_silu_mul_quantize},
                        Pair{100, gelu_tanh_mul, rs_gelu_tanh_mul, gelu_tanh_mul_quantize,
                             rs_gelu_tanh_mul_quantize},
                        Pair{200, relu2, rs_relu2, relu2_quantize, rs_relu2_quantize}}) {
    expect_equal_rows(
        p.columns, DType::bf16, [&](const auto& y) { return p.separate(x(), y, {}); },
        [&](const auto* y) { return p.c_separate(&x_t, y, nullptr); });
    GuardedBuffer row(kRows * p.columns * 2);
    GuardedBuffer c_row(kRows * p.columns * 2);
    const TensorView row_view = view_of(row.data(), DType::bf16, {2, 3, p.columns});
    const rs_tensor c_row_t = c_view(view_of(c_row.data(), DType::bf16, {2, 3, p.columns}));
    expect_equal(
        x(), p.columns, recipe,
        [&](const auto& c, const auto& s) { return p.fused(x(), recipe, c, s, row_view, {}); },
        [&](const auto* c, const auto* s) { return p.c_fused(&x_t, &r, c, s, &c_row_t, nullptr); });
    EXPECT_TRUE(same_bytes(c_row.content(), row.content()));
  }
  for (const rs_swiglu_args& args :
       {rs_swiglu_args RS_SWIGLU_ARGS_INIT, rs_swiglu_args{sizeof(rs_swiglu_args), 1.0F, 0.5F}}) {
    const SwigluClamped params{args.alpha, args.limit};
    expect_equal_rows(
        100, DType::bf16, [&](const auto& y) { return swiglu_clamped(x(), params, y); },
        [&](const auto* y) { return rs_swiglu_clamped(&x_t, &args, y, nullptr); });
    expect_equal(
        x(), 100, recipe,
        [&](const auto& c, const auto& s) {
          return swiglu_clamped_quantize(x(), params, recipe, c, s);
        },
        [&](const auto* c, const auto* s) {
          return rs_swiglu_clamped_quantize(&x_t, &args, &r, c, s, nullptr, nullptr);
        });
  }
  // NULL stands for the defaults.
  expect_equal_rows(
      100, DType::bf16, [&](const auto& y) { return swiglu_clamped(x(), {}, y); },
      [&](const auto* y) { return rs_swiglu_clamped(&x_t, nullptr, y, nullptr); });
}

TEST_F(COperators, MlaNorm) {
  const auto weight = make_data(Data::normal, DType::f32, 96, 4);
  const MlaNorm norm = {view_of(weight.data(), DType::f32, {96}),
                        view_of(weight.data(), DType::f32, {64}), 1e-3F, 1e-5F};
  const Recipe q = with(per_group(32), ScaleEncoding::ue8m0_packed);
  const Recipe kv = per_token();
  const rs_recipe q_r = c_recipe(q);
  const rs_recipe kv_r = c_recipe(kv);
  const rs_tensor x_t = c_view(x());
  const rs_tensor q_weight_t = c_view(norm.q_weight);
  const rs_tensor kv_weight_t = c_view(norm.kv_weight);
  rs_mla_norm_args args = RS_MLA_NORM_ARGS_INIT;
  args.q_weight = &q_weight_t;
  args.kv_weight = &kv_weight_t;
  args.q_eps = 1e-3F;
  args.kv_eps = 1e-5F;
  const auto rows = [](GuardedBuffer& buffer, int64_t columns) {
    return view_of(buffer.data(), DType::bf16, {2, 3, columns});
  };
  GuardedBuffer q_row(kRows * 96 * 2), kv_row(kRows * 64 * 2), rope(kRows * 40 * 2);
  GuardedBuffer c_q_row(kRows * 96 * 2), c_kv_row(kRows * 64 * 2), c_rope(kRows * 40 * 2);
  const rs_tensor q_row_t = c_view(rows(c_q_row, 96));
  const rs_tensor kv_row_t = c_view(rows(c_kv_row, 64));
  const rs_tensor rope_t = c_view(rows(c_rope, 40));
  rs_mla_outputs parts = RS_MLA_OUTPUTS_INIT;
  parts.q_row = &q_row_t;
  parts.kv = &kv_row_t;
  parts.rope = &rope_t;
  // The codes of q, then those of kv, are what expect_equal compares.
  GuardedBuffer other_codes(kRows * 96), other_scales(kRows * 4);
  const TensorView q_codes = view_of(other_codes.data(), DType::e4m3, {2, 3, 96});
  const TensorView q_scales = spec_of(q_codes, q).view(other_scales.data());
  const TensorView kv_codes = view_of(other_codes.data(), DType::e4m3, {2, 3, 64});
  const TensorView kv_scales = spec_of(kv_codes, kv).view(other_scales.data());
  const rs_tensor q_codes_t = c_view(q_codes), q_scales_t = c_view(q_scales);
  const rs_tensor kv_codes_t = c_view(kv_codes), kv_scales_t = c_view(kv_scales);
  expect_equal(
      x(), 96, q,
      [&](const auto& c, const auto& s) {
        return mla_norm_quantize(
            x(), norm, q, kv,
            {c, s, rows(q_row, 96), rows(kv_row, 64), kv_codes, kv_scales, rows(rope, 40)});
      },
      [&](const auto* c, const auto* s) {
        parts.q_codes = c;
        parts.q_scales = s;
        parts.kv_codes = &kv_codes_t;
        parts.kv_scales = &kv_scales_t;
        return rs_mla_norm_quantize(&x_t, &args, &q_r, &kv_r, &parts, nullptr);
      });
  expect_equal(
      x(), 64, kv,
      [&](const auto& c, const auto& s) {
        return mla_norm_quantize(x(), norm, q, kv, {q_codes, q_scales, {}, {}, c, s, {}});
      },
      [&](const auto* c, const auto* s) {
        parts.q_codes = &q_codes_t;
        parts.q_scales = &q_scales_t;
        parts.kv_codes = c;
        parts.kv_scales = s;
        return rs_mla_norm_quantize(&x_t, &args, &q_r, &kv_r, &parts, nullptr);
      });
  EXPECT_TRUE(same_bytes(c_q_row.content(), q_row.content()));
  EXPECT_TRUE(same_bytes(c_kv_row.content(), kv_row.content()));
  EXPECT_TRUE(same_bytes(c_rope.content(), rope.content()));
  // kv's recipe may be absent with its codes, and only with them.
  parts.kv_codes = &kv_codes_t;
  parts.kv_scales = &kv_scales_t;
  EXPECT_EQ(rs_mla_norm_quantize(&x_t, &args, &q_r, nullptr, &parts, nullptr), RS_INVALID_ARGUMENT);
  EXPECT_STREQ(rs_last_error(), "kv_recipe: expected a struct, got NULL");
  parts.q_codes = &q_codes_t;
  parts.q_scales = &q_scales_t;
  parts.kv_codes = nullptr;
  parts.kv_scales = nullptr;
  EXPECT_EQ(rs_mla_norm_quantize(&x_t, &args, &q_r, nullptr, &parts, nullptr), RS_OK)
      << rs_last_error();
}

}  // namespace
}  // namespace rowscale::test
