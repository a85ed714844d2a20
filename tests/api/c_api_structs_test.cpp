// The structs of rowscale.h as they come from programs of another version, and fields that hold no
// enumerator.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "rowscale/rowscale.h"
#include "rowscale/rowscale.hpp"

namespace rowscale::test {
namespace {

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

// A struct of another version: too small is refused, a tail of zeros accepted, another tail
// refused.
template <class Struct>
void expect_struct_size_rules(const char* name, const Struct& good,
                              const std::function<rs_status(const Struct*)>& call) {
  alignas(16) unsigned char room[sizeof(Struct) + 32] = {};
  auto* s = reinterpret_cast<Struct*>(room);
  std::memcpy(s, &good, sizeof good);
  EXPECT_EQ(call(s), RS_OK) << name << ": " << rs_last_error();

  s->struct_size = 0;
  EXPECT_EQ(call(s), RS_INVALID_ARGUMENT) << name;
  EXPECT_NE(std::string(rs_last_error()).find("struct_size"), std::string::npos) << rs_last_error();
  EXPECT_NE(std::string(rs_last_error()).find("got 0"), std::string::npos) << rs_last_error();
  s->struct_size = sizeof(Struct) - 1;
  EXPECT_EQ(call(s), RS_INVALID_ARGUMENT) << name;

  s->struct_size = sizeof(Struct) + 32;
  EXPECT_EQ(call(s), RS_OK) << name << ": " << rs_last_error();
  room[sizeof(Struct) + 31] = 1;
  EXPECT_EQ(call(s), RS_UNSUPPORTED) << name;
  EXPECT_NE(std::string(rs_last_error()).find("does not know"), std::string::npos)
      << rs_last_error();
  // Behind what struct_size covers nothing is looked at.
  s->struct_size = sizeof(Struct) + 31;
  EXPECT_EQ(call(s), RS_OK) << name;
}

TEST(CApi, StructSizes) {
  std::vector<float> x(64, 1.0F);
  std::vector<float> y(64);
  std::vector<uint8_t> codes(64);
  std::vector<float> scales(4);
  std::vector<float> weight(16, 1.0F);
  const rs_tensor x_t = c_tensor(x.data(), RS_F32, {4, 16});
  const rs_tensor y_t = c_tensor(y.data(), RS_F32, {4, 16});
  const rs_tensor half_t = c_tensor(y.data(), RS_F32, {4, 8});
  const rs_tensor code_t = c_tensor(codes.data(), RS_E4M3, {4, 16});
  const rs_tensor scale_t = c_tensor(scales.data(), RS_F32, {4, 1});
  const rs_tensor weight_t = c_tensor(weight.data(), RS_F32, {16});
  const rs_recipe recipe = c_recipe(per_token());
  const rs_exec exec = RS_EXEC_INIT;
  rs_rms_norm_args norm = RS_RMS_NORM_ARGS_INIT;
  norm.weight = &weight_t;
  const rs_swiglu_args swiglu = RS_SWIGLU_ARGS_INIT;
  rs_scale_spec spec = RS_SCALE_SPEC_INIT;
  ASSERT_EQ(rs_get_scale_spec(&code_t, &recipe, &spec), RS_OK);

  expect_struct_size_rules<rs_tensor>("x", x_t, [&](const rs_tensor* s) {
    return rs_quantize(s, &recipe, &code_t, &scale_t, &exec);
  });
  expect_struct_size_rules<rs_tensor>("codes", code_t, [&](const rs_tensor* s) {
    return rs_quantize(&x_t, &recipe, s, &scale_t, &exec);
  });
  expect_struct_size_rules<rs_recipe>("recipe", recipe, [&](const rs_recipe* s) {
    return rs_quantize(&x_t, s, &code_t, &scale_t, &exec);
  });
  expect_struct_size_rules<rs_exec>("exec", exec, [&](const rs_exec* s) {
    return rs_quantize(&x_t, &recipe, &code_t, &scale_t, s);
  });
  expect_struct_size_rules<rs_rms_norm_args>(
      "args", norm, [&](const rs_rms_norm_args* s) { return rs_rms_norm(&x_t, s, &y_t, &exec); });
  expect_struct_size_rules<rs_tensor>("args.weight", weight_t, [&](const rs_tensor* s) {
    rs_rms_norm_args args = norm;
    args.weight = s;
    return rs_rms_norm(&x_t, &args, &y_t, &exec);
  });
  expect_struct_size_rules<rs_swiglu_args>("args", swiglu, [&](const rs_swiglu_args* s) {
    return rs_swiglu_clamped(&x_t, s, &half_t, &exec);
  });
  std::vector<float> kv(16);
  const rs_tensor part_weight_t = c_tensor(weight.data(), RS_F32, {8});
  const rs_tensor kv_weight_t = c_tensor(weight.data(), RS_F32, {4});
  const rs_tensor part_t = c_tensor(codes.data(), RS_E4M3, {4, 8});
  const rs_tensor kv_t = c_tensor(kv.data(), RS_F32, {4, 4});
  rs_mla_norm_args mla = RS_MLA_NORM_ARGS_INIT;
  mla.q_weight = &part_weight_t;
  mla.kv_weight = &kv_weight_t;
  rs_mla_outputs outputs = RS_MLA_OUTPUTS_INIT;
  outputs.q_codes = &part_t;
  outputs.q_scales = &scale_t;
  outputs.kv = &kv_t;
  expect_struct_size_rules<rs_mla_norm_args>("args", mla, [&](const rs_mla_norm_args* s) {
    return rs_mla_norm_quantize(&x_t, s, &recipe, nullptr, &outputs, &exec);
  });
  expect_struct_size_rules<rs_mla_outputs>("outputs", outputs, [&](const rs_mla_outputs* s) {
    return rs_mla_norm_quantize(&x_t, &mla, &recipe, nullptr, s, &exec);
  });
  expect_struct_size_rules<rs_scale_spec>("spec", spec, [&](const rs_scale_spec* s) {
    rs_tensor view = RS_TENSOR_INIT;
    return rs_scale_spec_view(s, scales.data(), &view);
  });
  // Written structs obey the same rules and keep their size.
  expect_struct_size_rules<rs_recipe>("recipe", recipe, [&](const rs_recipe* s) {
    const size_t size = s->struct_size;
    const rs_status status = rs_recipe_per_token(const_cast<rs_recipe*>(s));
    EXPECT_EQ(s->struct_size, size);
    return status;
  });
}

TEST(CApi, ValuesThatAreNoEnumerators) {
  std::vector<float> x(64, 1.0F);
  std::vector<uint8_t> codes(64, 0xA5);
  std::vector<float> scales(4);
  rs_tensor x_t = c_tensor(x.data(), RS_F32, {4, 16});
  const rs_tensor code_t = c_tensor(codes.data(), RS_E4M3, {4, 16});
  const rs_tensor scale_t = c_tensor(scales.data(), RS_F32, {4, 1});
  rs_recipe recipe = c_recipe(per_token());
  rs_exec exec = RS_EXEC_INIT;
  const auto expect_refused = [&](const char* word, rs_status status = RS_INVALID_ARGUMENT) {
    EXPECT_EQ(rs_quantize(&x_t, &recipe, &code_t, &scale_t, &exec), status) << word;
    EXPECT_NE(std::string(rs_last_error()).find(word), std::string::npos) << rs_last_error();
  };
  const rs_tensor good_x = x_t;
  for (int32_t wrong : {-1, 7, INT32_MAX}) {
    x_t.dtype = wrong;
    expect_refused("x.dtype");
    x_t = good_x;
    x_t.device_type = wrong;
    expect_refused("x.device_type");
    x_t = good_x;
    exec.target = wrong;
    expect_refused("exec.target");
    exec = RS_EXEC_INIT;
    exec.dependent_launch = wrong;
    expect_refused("exec.dependent_launch");
    exec = RS_EXEC_INIT;
  }
  x_t.rank = 9;
  expect_refused("x.rank");
  x_t.rank = -1;
  expect_refused("x.rank");
  x_t = good_x;
  exec.threads = -2;
  expect_refused("exec.threads");
  exec = RS_EXEC_INIT;
  recipe.layout = 12;
  expect_refused("recipe.layout");
  recipe = c_recipe(per_token());
  EXPECT_EQ(codes, std::vector<uint8_t>(64, 0xA5));
  EXPECT_EQ(rs_quantize(nullptr, &recipe, &code_t, &scale_t, &exec), RS_INVALID_ARGUMENT);
  EXPECT_EQ(rs_quantize(&x_t, nullptr, &code_t, &scale_t, &exec), RS_INVALID_ARGUMENT);
  EXPECT_EQ(rs_quantize(&x_t, &recipe, nullptr, &scale_t, &exec), RS_INVALID_ARGUMENT);
  EXPECT_EQ(rs_quantize(&x_t, &recipe, &code_t, nullptr, &exec), RS_INVALID_ARGUMENT);
  // A column_rank of zero, as in a zeroed struct, counts as one.
  x_t.column_rank = 0;
  EXPECT_EQ(rs_quantize(&x_t, &recipe, &code_t, &scale_t, nullptr), RS_OK) << rs_last_error();
}

}  // namespace
}  // namespace rowscale::test
