// rowscale.h from C++: recipes, tensors, names and messages; the enumerators have the values of
// their C++ counterparts. c_api_c99.c is the view of a C program.
#include "rowscale/rowscale.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "rowscale/rowscale.hpp"
#include "tests/api/c_api_c99.h"
#include "tests/support/calls.hpp"
#include "tests/support/recipes.hpp"
#include "tests/support/test_data.hpp"

namespace rowscale::test {
namespace {

#define SAME(c_name, cpp_name) static_assert(int{c_name} == static_cast<int>(cpp_name))
SAME(RS_OK, StatusCode::ok);
SAME(RS_INVALID_ARGUMENT, StatusCode::invalid_argument);
SAME(RS_UNSUPPORTED, StatusCode::unsupported);
SAME(RS_NO_DEVICE, StatusCode::no_device);
SAME(RS_DEVICE_ERROR, StatusCode::device_error);
SAME(RS_INTERNAL, StatusCode::internal);
SAME(RS_F32, DType::f32);
SAME(RS_F16, DType::f16);
SAME(RS_BF16, DType::bf16);
SAME(RS_E4M3, DType::e4m3);
SAME(RS_E5M2, DType::e5m2);
SAME(RS_UE8M0, DType::ue8m0);
SAME(RS_I32, DType::i32);
SAME(RS_CPU, DeviceType::cpu);
SAME(RS_CUDA, DeviceType::cuda);
SAME(RS_FORMAT_E4M3, Format::e4m3);
SAME(RS_FORMAT_E5M2, Format::e5m2);
SAME(RS_PER_TENSOR, Granularity::per_tensor);
SAME(RS_PER_TOKEN, Granularity::per_token);
SAME(RS_PER_CHANNEL, Granularity::per_channel);
SAME(RS_PER_COLUMN, Granularity::per_column);
SAME(RS_PER_GROUP, Granularity::per_group);
SAME(RS_PER_BLOCK, Granularity::per_block);
SAME(RS_DYNAMIC, ScaleSource::dynamic);
SAME(RS_GIVEN, ScaleSource::given);
SAME(RS_SCALE_F32, ScaleEncoding::f32);
SAME(RS_SCALE_UE8M0_F32, ScaleEncoding::ue8m0_f32);
SAME(RS_SCALE_UE8M0, ScaleEncoding::ue8m0);
SAME(RS_SCALE_UE8M0_PACKED, ScaleEncoding::ue8m0_packed);
SAME(RS_ROW_MAJOR, ScaleLayout::row_major);
SAME(RS_COLUMN_MAJOR, ScaleLayout::column_major);
SAME(RS_COLUMN_MAJOR_TMA, ScaleLayout::column_major_tma);
SAME(RS_BLOCK_K4, ScaleLayout::block_k4);
SAME(RS_FLOOR_STANDARD, FloorKind::standard);
SAME(RS_FLOOR_NONE, FloorKind::none);
SAME(RS_FLOOR_AMAX, FloorKind::amax);
SAME(RS_FLOOR_SCALE, FloorKind::scale);
SAME(RS_FLOOR_IF_ZERO, FloorKind::if_zero);
SAME(RS_BOUND_NONE, BoundKind::none);
SAME(RS_BOUND_AMAX, BoundKind::amax);
SAME(RS_BOUND_SCALE, BoundKind::scale);
SAME(RS_QUOTIENT_STANDARD, Quotient::standard);
SAME(RS_QUOTIENT_DIVIDE, Quotient::divide);
SAME(RS_QUOTIENT_RECIPROCAL, Quotient::reciprocal);
SAME(RS_NAN_STANDARD, NanRule::standard);
SAME(RS_NAN_PROPAGATE, NanRule::propagate);
SAME(RS_NAN_CLAMP_HIGH, NanRule::clamp_high);
SAME(RS_NAN_CLAMP_LOW, NanRule::clamp_low);
SAME(RS_PROFILE_ROWSCALE, Profile::rowscale);
SAME(RS_PROFILE_VLLM, Profile::vllm);
SAME(RS_TARGET_BEST, Target::best);
SAME(RS_TARGET_SCALAR, Target::scalar);
SAME(RS_TARGET_AVX2, Target::avx2);
SAME(RS_TARGET_AVX512, Target::avx512);
SAME(RS_DEPENDENT_LAUNCH_OFF, DependentLaunch::off);
SAME(RS_DEPENDENT_LAUNCH_ON, DependentLaunch::on);
SAME(RS_NORM_STANDARD, NormForm::standard);
SAME(RS_NORM_GEMMA, NormForm::gemma);
static_assert(RS_MAX_RANK == kMaxRank);
#undef SAME

rs_tensor c_tensor(const void* data, int32_t dtype, const std::vector<int64_t>& shape) {
  rs_tensor t = RS_TENSOR_INIT;
  EXPECT_EQ(rs_tensor_contiguous(&t, data, dtype, static_cast<int32_t>(shape.size()), shape.data()),
            RS_OK);
  return t;
}

rs_recipe c_recipe(const Recipe& recipe) {
  rs_recipe r = RS_RECIPE_INIT;
  EXPECT_EQ(rs_recipe_parse(to_string(recipe).c_str(), &r), RS_OK) << rs_last_error();
  return r;
}

std::string c_text(const rs_recipe& recipe) {
  char text[400];
  EXPECT_EQ(rs_recipe_to_string(&recipe, text, sizeof text, nullptr), RS_OK) << rs_last_error();
  return text;
}

TEST(CApi, C99Program) {
  EXPECT_EQ(rowscale_c99_program(), 0) << rs_last_error();
}

TEST(CApi, Names) {
  EXPECT_STREQ(rs_version(), version());
  EXPECT_STREQ(rs_status_name(RS_OK), to_string(StatusCode::ok));
  EXPECT_STREQ(rs_status_name(RS_UNSUPPORTED), to_string(StatusCode::unsupported));
  EXPECT_EQ(rs_element_size(RS_F32), 4);
  EXPECT_EQ(rs_element_size(RS_BF16), 2);
  EXPECT_EQ(rs_element_size(RS_UE8M0), 1);
  EXPECT_EQ(rs_element_size(RS_I32), 4);
  EXPECT_EQ(rs_element_size(-1), 0);
  EXPECT_EQ(rs_element_size(7), 0);
}

TEST(CApi, Targets) {
  std::vector<int32_t> targets(8, -5);
  int32_t count = 0;
  ASSERT_EQ(rs_supported_targets(targets.data(), 8, &count), RS_OK);
  const std::vector<Target> expected = supported_targets();
  ASSERT_EQ(count, static_cast<int32_t>(expected.size()));
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_EQ(targets[i], static_cast<int32_t>(expected[i]));
  EXPECT_EQ(targets[expected.size()], -5);
  // Less room than targets: the number is still the whole.
  targets.assign(8, -5);
  ASSERT_EQ(rs_supported_targets(targets.data(), 1, &count), RS_OK);
  EXPECT_EQ(count, static_cast<int32_t>(expected.size()));
  EXPECT_EQ(targets[1], -5);
  ASSERT_EQ(rs_supported_targets(nullptr, 0, &count), RS_OK);
  EXPECT_EQ(rs_supported_targets(nullptr, 1, &count), RS_INVALID_ARGUMENT);
  EXPECT_EQ(rs_supported_targets(targets.data(), 1, nullptr), RS_INVALID_ARGUMENT);
}

TEST(CApi, InitMacrosAreTheDefaults) {
  const rs_recipe recipe = RS_RECIPE_INIT;
  EXPECT_EQ(recipe.struct_size, sizeof(rs_recipe));
  EXPECT_EQ(c_text(recipe), to_string(Recipe{}));
  const rs_exec exec = RS_EXEC_INIT;
  EXPECT_EQ(exec.threads, Exec{}.threads);
  EXPECT_EQ(exec.target, static_cast<int32_t>(Exec{}.target));
  const rs_rms_norm_args norm = RS_RMS_NORM_ARGS_INIT;
  EXPECT_EQ(norm.eps, RmsNorm{}.eps);
  EXPECT_EQ(norm.form, static_cast<int32_t>(RmsNorm{}.form));
  const rs_swiglu_args swiglu = RS_SWIGLU_ARGS_INIT;
  EXPECT_EQ(swiglu.alpha, SwigluClamped{}.alpha);
  EXPECT_EQ(swiglu.limit, SwigluClamped{}.limit);
  const rs_mla_norm_args mla = RS_MLA_NORM_ARGS_INIT;
  EXPECT_EQ(mla.q_eps, MlaNorm{}.q_eps);
  EXPECT_EQ(mla.kv_eps, MlaNorm{}.kv_eps);
  const rs_mla_outputs outputs = RS_MLA_OUTPUTS_INIT;
  EXPECT_EQ(outputs.struct_size, sizeof(rs_mla_outputs));
  EXPECT_EQ(outputs.q_codes, nullptr);
  EXPECT_EQ(outputs.rope, nullptr);
  const rs_tensor tensor = RS_TENSOR_INIT;
  EXPECT_EQ(tensor.struct_size, sizeof(rs_tensor));
  EXPECT_EQ(tensor.data, nullptr);
  const rs_scale_spec spec = RS_SCALE_SPEC_INIT;
  EXPECT_EQ(spec.struct_size, sizeof(rs_scale_spec));
}

TEST(CApi, Recipes) {
  rs_recipe r = RS_RECIPE_INIT;
  EXPECT_EQ(rs_recipe_per_tensor(&r), RS_OK);
  EXPECT_EQ(c_text(r), to_string(per_tensor()));
  EXPECT_EQ(rs_recipe_per_token(&r), RS_OK);
  EXPECT_EQ(c_text(r), to_string(per_token()));
  EXPECT_EQ(rs_recipe_per_channel(&r), RS_OK);
  EXPECT_EQ(c_text(r), to_string(per_channel()));
  EXPECT_EQ(rs_recipe_per_column(&r), RS_OK);
  EXPECT_EQ(c_text(r), to_string(per_column()));
  EXPECT_EQ(rs_recipe_per_group(&r, 77), RS_OK);
  EXPECT_EQ(c_text(r), to_string(per_group(77)));
  EXPECT_EQ(rs_recipe_per_block(&r, 3, 5), RS_OK);
  EXPECT_EQ(c_text(r), to_string(per_block(3, 5)));
  EXPECT_EQ(rs_recipe_per_group(&r, 0), RS_INVALID_ARGUMENT);
  EXPECT_NE(std::string(rs_last_error()).find("recipe.group_size"), std::string::npos);
  EXPECT_EQ(rs_recipe_per_block(&r, 3, 0), RS_INVALID_ARGUMENT);
  EXPECT_EQ(c_text(r), to_string(per_block(3, 5)));  // unchanged

  EXPECT_EQ(rs_recipe_check(&r), RS_OK);
  r.quotient = 55;
  EXPECT_EQ(rs_recipe_check(&r), RS_INVALID_ARGUMENT);
  EXPECT_NE(std::string(rs_last_error()).find("recipe.quotient"), std::string::npos);
  EXPECT_EQ(rs_recipe_check(nullptr), RS_INVALID_ARGUMENT);

  Recipe vllm = per_tensor();
  vllm.profile = Profile::vllm;
  r = c_recipe(per_tensor());
  r.floor_kind = RS_FLOOR_STANDARD;
  r.quotient = RS_QUOTIENT_STANDARD;
  r.nan_rule = RS_NAN_STANDARD;
  r.profile = RS_PROFILE_VLLM;
  EXPECT_EQ(rs_recipe_resolve(&r, &r), RS_OK);
  EXPECT_EQ(r.quotient, RS_QUOTIENT_RECIPROCAL);
  EXPECT_EQ(r.nan_rule, RS_NAN_CLAMP_HIGH);
  EXPECT_EQ(r.floor_kind, RS_FLOOR_IF_ZERO);
  EXPECT_EQ(r.floor_value, resolve(vllm).floor.value);

  EXPECT_EQ(rs_recipe_parse("granularity=per_row", &r), RS_INVALID_ARGUMENT);
  EXPECT_EQ(rs_recipe_parse(nullptr, &r), RS_INVALID_ARGUMENT);
  EXPECT_EQ(rs_recipe_parse("", nullptr), RS_INVALID_ARGUMENT);
}

// Every field goes through the struct and back.
TEST(CApi, RecipesKeepEveryField) {
  for (Recipe recipe : all_recipes(40, 2, 30)) {
    recipe.floor = {FloorKind::scale, 0.125F};
    recipe.bound = {BoundKind::amax, 7.5F};
    recipe.quotient = Quotient::reciprocal;
    recipe.nan = NanRule::clamp_low;
    recipe.profile = Profile::vllm;
    recipe.format = Format::e5m2;
    EXPECT_EQ(c_text(c_recipe(recipe)), to_string(recipe));
  }
}

TEST(CApi, TextHasAnyRoom) {
  const rs_recipe recipe = c_recipe(per_group(128));
  const std::string whole = to_string(per_group(128));
  size_t needed = 0;
  ASSERT_EQ(rs_recipe_to_string(&recipe, nullptr, 0, &needed), RS_OK);
  EXPECT_EQ(needed, whole.size() + 1);
  std::vector<char> text(needed + 1, '#');
  ASSERT_EQ(rs_recipe_to_string(&recipe, text.data(), needed, nullptr), RS_OK);
  EXPECT_EQ(std::string(text.data()), whole);
  EXPECT_EQ(text[needed], '#');
  std::fill(text.begin(), text.end(), '#');
  ASSERT_EQ(rs_recipe_to_string(&recipe, text.data(), 10, nullptr), RS_OK);
  EXPECT_EQ(std::string(text.data()), whole.substr(0, 9));
  EXPECT_EQ(text[10], '#');
  EXPECT_EQ(rs_recipe_to_string(&recipe, nullptr, 4, nullptr), RS_INVALID_ARGUMENT);
}

TEST(CApi, Tensors) {
  int32_t counts[2] = {1, 1};
  float data[24] = {};
  rs_tensor t = c_tensor(data, RS_F32, {2, 3, 4});
  EXPECT_EQ(t.strides[0], 12);
  EXPECT_EQ(t.strides[1], 4);
  EXPECT_EQ(t.strides[2], 1);
  EXPECT_EQ(t.column_rank, 1);
  t.row_counts = counts;
  const int32_t rows[] = {1};
  const int32_t columns[] = {0, 2};
  rs_tensor heads = RS_TENSOR_INIT;
  ASSERT_EQ(rs_tensor_as_rows(&t, rows, 1, columns, 2, &heads), RS_OK) << rs_last_error();
  const TensorView expected =
      TensorView::contiguous(data, DType::f32, {2, 3, 4}).as_rows({1}, {0, 2});
  EXPECT_EQ(heads.column_rank, 2);
  EXPECT_EQ(heads.row_counts, counts);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(heads.shape[i], expected.shape[i]);
    EXPECT_EQ(heads.strides[i], expected.strides[i]);
  }
  ASSERT_EQ(rs_tensor_as_rows(&t, rows, 1, columns, 2, &t), RS_OK);  // in place
  EXPECT_EQ(t.shape[0], 3);

  // Misuse.
  const int32_t twice[] = {0, 0};
  const int32_t beyond[] = {0, 3};
  const int32_t below[] = {0, -1};
  for (const int32_t* wrong : {twice, beyond, below}) {
    EXPECT_EQ(rs_tensor_as_rows(&t, rows, 1, wrong, 2, &heads), RS_INVALID_ARGUMENT);
  }
  EXPECT_EQ(rs_tensor_as_rows(&t, rows, 1, columns, 1, &heads), RS_INVALID_ARGUMENT);
  EXPECT_EQ(rs_tensor_as_rows(&t, rows, 3, columns, 0, &heads), RS_INVALID_ARGUMENT);
  EXPECT_EQ(rs_tensor_as_rows(&t, rows, -1, columns, 4, &heads), RS_INVALID_ARGUMENT);
  EXPECT_EQ(rs_tensor_as_rows(&t, nullptr, 1, columns, 2, &heads), RS_INVALID_ARGUMENT);
  EXPECT_EQ(rs_tensor_as_rows(&t, rows, 1, nullptr, 2, &heads), RS_INVALID_ARGUMENT);
  EXPECT_EQ(rs_tensor_as_rows(&t, rows, 1, columns, 2, nullptr), RS_INVALID_ARGUMENT);
  EXPECT_EQ(rs_tensor_as_rows(nullptr, rows, 1, columns, 2, &heads), RS_INVALID_ARGUMENT);
  const int64_t shape[] = {2, 3};
  EXPECT_EQ(rs_tensor_contiguous(&t, data, RS_F32, 9, shape), RS_INVALID_ARGUMENT);
  EXPECT_EQ(rs_tensor_contiguous(&t, data, RS_F32, -1, shape), RS_INVALID_ARGUMENT);
  EXPECT_EQ(rs_tensor_contiguous(&t, data, 7, 2, shape), RS_INVALID_ARGUMENT);
  EXPECT_EQ(rs_tensor_contiguous(&t, data, RS_F32, 2, nullptr), RS_INVALID_ARGUMENT);
  EXPECT_EQ(rs_tensor_contiguous(nullptr, data, RS_F32, 2, shape), RS_INVALID_ARGUMENT);
}

TEST(CApi, AsRowsWithHugeNumbersOfDimensions) {
  float data[24] = {};
  rs_tensor t = c_tensor(data, RS_F32, {2, 3, 4});
  const int32_t dims[] = {0, 1, 2};
  rs_tensor out = RS_TENSOR_INIT;
  EXPECT_EQ(rs_tensor_as_rows(&t, dims, INT32_MAX, dims, INT32_MAX, &out), RS_INVALID_ARGUMENT);
  EXPECT_EQ(rs_tensor_as_rows(&t, dims, INT32_MIN, dims, 3, &out), RS_INVALID_ARGUMENT);
  EXPECT_EQ(rs_tensor_as_rows(&t, dims, 1, dims, INT32_MIN, &out), RS_INVALID_ARGUMENT);
}

// The message of the last failure stays with its thread.
TEST(CApi, LastErrorIsOfTheThread) {
  EXPECT_EQ(rs_recipe_parse("format=x", nullptr), RS_INVALID_ARGUMENT);
  const std::string mine = rs_last_error();
  EXPECT_NE(mine.find("format"), std::string::npos);
  std::string before;
  std::string theirs;
  std::thread other([&] {
    before = rs_last_error();
    rs_recipe_check(nullptr);
    theirs = rs_last_error();
  });
  other.join();
  EXPECT_EQ(before, "");
  EXPECT_NE(theirs, mine);
  EXPECT_EQ(rs_last_error(), mine);
}

}  // namespace
}  // namespace rowscale::test
