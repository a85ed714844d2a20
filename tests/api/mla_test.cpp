// The parts of a row of multi-head latent attention equal what the operators of producers.hpp make
// of its slices, which the golden files hold to an independent model; and what is refused.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/support/calls.hpp"
#include "tests/support/recipes.hpp"
#include "tests/support/test_data.hpp"

namespace rowscale::test {
namespace {

struct Widths {
  int64_t q, kv, rope;
  [[nodiscard]] int64_t all() const { return q + kv + rope; }
};

TensorView columns_of(const TensorView& x, int64_t begin, int64_t count) {
  TensorView part = x;
  part.shape[x.rank - 1] = count;
  part.data = static_cast<std::byte*>(x.data) + begin * element_size(x.dtype);
  return part;
}

// The rows of a contiguous tensor's slice that exist, and poison for the others.
std::vector<std::byte> rows_of(const TensorView& slice) {
  const int64_t width = slice.columns() * element_size(slice.dtype);
  const int64_t pitch = slice.strides[slice.rank - 2] * element_size(slice.dtype);
  const int64_t rows_per_batch = slice.shape[slice.rank - 2];
  std::vector<std::byte> out(static_cast<size_t>(slice.rows() * width), kPoison);
  for (int64_t r = 0; r < slice.rows(); ++r) {
    const bool exists =
        slice.row_counts == nullptr || r % rows_per_batch < slice.row_counts[r / rows_per_batch];
    if (!exists) continue;
    std::memcpy(out.data() + r * width, static_cast<const std::byte*>(slice.data) + r * pitch,
                static_cast<size_t>(width));
  }
  return out;
}

// What is asked of a call beside q's codes.
struct Wanted {
  bool q_row, kv, kv_codes, rope;
};
constexpr Wanted kAllWanted[] = {{true, true, true, true},
                                 {false, true, false, true},
                                 {false, false, true, false},
                                 {true, false, true, true}};

struct MlaBytes {
  Outputs q, kv;
  std::vector<std::byte> rope;
};

class Mla : public testing::TestWithParam<DType> {
 protected:
  // Rows of x, weights of the two parts, each of another dtype.
  void make(const std::vector<int64_t>& rows, const Widths& widths, Data data, uint64_t seed) {
    widths_ = widths;
    std::vector<int64_t> shape = rows;
    shape.push_back(widths.all());
    int64_t count = 1;
    for (int64_t size : shape) count *= size;
    x_ = make_data(data, GetParam(), count, seed);
    view_ = view_of(x_.data(), GetParam(), shape);
    q_weight_ = make_data(Data::normal, DType::f32, widths.q, seed + 1);
    kv_weight_ = make_data(Data::normal, GetParam(), widths.kv, seed + 2);
    norm_.q_weight = view_of(q_weight_.data(), DType::f32, {widths.q});
    norm_.kv_weight = view_of(kv_weight_.data(), GetParam(), {widths.kv});
    norm_.q_eps = 1e-5F;
    norm_.kv_eps = 1e-3F;
  }

  CallOptions options_for(const Recipe& recipe, int64_t width) const {
    CallOptions options;
    const TensorView codes = view_of(nullptr, code_dtype(recipe), row_shape(view_, width));
    options.given = make_scales(spec_of(codes, recipe), recipe.encoding, 17);
    return options;
  }

  MlaBytes of_slices(const TensorView& x, const Recipe& q, const Recipe& kv,
                     const Wanted& wanted) const {
    MlaBytes bytes;
    const auto part = [&](const TensorView& slice, const TensorView& weight, float eps,
                          const Recipe& recipe, bool codes, bool row) {
      RmsNorm norm;
      norm.weight = weight;
      norm.eps = eps;
      Outputs out;
      if (codes) {
        out = call_quantizer(slice, slice.columns(), recipe, options_for(recipe, slice.columns()),
                             [&](const TensorView& c, const TensorView& s) {
                               return rms_norm_quantize(slice, norm, recipe, c, s);
                             });
      }
      if (row) {
        out.row = call_into_rows(slice, slice.columns(), slice.dtype,
                                 [&](const TensorView& y) { return rms_norm(slice, norm, y); });
      }
      return out;
    };
    bytes.q = part(columns_of(x, 0, widths_.q), norm_.q_weight, norm_.q_eps, q, true, wanted.q_row);
    bytes.kv = part(columns_of(x, widths_.q, widths_.kv), norm_.kv_weight, norm_.kv_eps, kv,
                    wanted.kv_codes, wanted.kv);
    if (wanted.rope) {
      bytes.rope = rows_of(columns_of(x, widths_.q + widths_.kv, widths_.rope));
    }
    return bytes;
  }

  MlaBytes of_one_call(const TensorView& x, const Recipe& q, const Recipe& kv, const Wanted& wanted,
                       const Exec& exec) const {
    MlaBytes bytes;
    const DType dtype = x.dtype;
    const auto rows = [&](int64_t width) { return row_shape(x, width); };
    const int64_t size = x.rows() * element_size(dtype);
    GuardedBuffer q_row(size * widths_.q, 1);
    GuardedBuffer kv_row(size * widths_.kv, 3);
    GuardedBuffer rope(size * widths_.rope, 5);
    MlaOutputs outputs;
    if (wanted.q_row) outputs.q_row = view_of(q_row.data(), dtype, rows(widths_.q));
    if (wanted.kv) outputs.kv = view_of(kv_row.data(), dtype, rows(widths_.kv));
    if (wanted.rope) outputs.rope = view_of(rope.data(), dtype, rows(widths_.rope));
    bytes.q = call_quantizer(
        x, widths_.q, q, options_for(q, widths_.q), [&](const TensorView& c, const TensorView& s) {
          outputs.q_codes = c;
          outputs.q_scales = s;
          if (!wanted.kv_codes) return mla_norm_quantize(x, norm_, q, kv, outputs, exec);
          Status status;
          bytes.kv = call_quantizer(x, widths_.kv, kv, options_for(kv, widths_.kv),
                                    [&](const TensorView& kv_c, const TensorView& kv_s) {
                                      outputs.kv_codes = kv_c;
                                      outputs.kv_scales = kv_s;
                                      status = mla_norm_quantize(x, norm_, q, kv, outputs, exec);
                                      return status;
                                    });
          return status;
        });
    for (const GuardedBuffer* buffer : {&q_row, &kv_row, &rope}) {
      EXPECT_TRUE(buffer->guards_are_unchanged());
    }
    if (wanted.q_row) bytes.q.row = q_row.content();
    if (wanted.kv) bytes.kv.row = kv_row.content();
    if (wanted.rope) bytes.rope = rope.content();
    return bytes;
  }

  void expect_equal_slices(const TensorView& x, const Recipe& q, const Recipe& kv,
                           const Wanted& wanted, const Exec& exec) const {
    const MlaBytes got = of_one_call(x, q, kv, wanted, exec);
    const MlaBytes want = of_slices(x, q, kv, wanted);
    const std::string what = to_string(x) + "\n" + to_string(q) + "\n" + to_string(kv);
    EXPECT_TRUE(same_outputs(got.q, want.q)) << "q: " << what;
    EXPECT_TRUE(same_outputs(got.kv, want.kv)) << "kv: " << what;
    EXPECT_TRUE(same_bytes(got.rope, want.rope)) << "rope: " << what;
  }

  Widths widths_{};
  std::vector<std::byte> x_, q_weight_, kv_weight_;
  TensorView view_;
  MlaNorm norm_;
};

// Every recipe for q beside another one for kv, with everything that can be left out.
TEST_P(Mla, EqualsTheOperatorsOfItsSlices) {
  std::vector<Recipe> recipes = group_recipes(24);
  for (const Recipe& recipe :
       {per_token(), per_channel(), per_group(128), with(per_token(), Format::e5m2),
        with(per_tensor(), ScaleSource::given), with(per_group(24), ScaleSource::given)}) {
    recipes.push_back(recipe);
  }
  uint64_t seed = 1;
  for (const Widths& widths : {Widths{1536, 512, 64}, Widths{130, 70, 10}, Widths{1, 1, 1}}) {
    for (const auto& rows : {std::vector<int64_t>{3}, std::vector<int64_t>{2, 2}}) {
      make(rows, widths, widths.q == 130 ? Data::raw : Data::normal, ++seed);
      for (size_t i = 0; i < recipes.size(); ++i) {
        const Recipe& kv = recipes[(i + 5) % recipes.size()];
        expect_equal_slices(view_, recipes[i], kv, kAllWanted[i % 4],
                            on(Target::best, static_cast<int>(1 + i % 2)));
      }
    }
  }
}

// More than a strip, so that the kernels meet a part's end in every place.
TEST_P(Mla, LongRows) {
  make({2}, {9001, 8200, 8193}, Data::normal, 50);
  expect_equal_slices(view_, per_token(), with(per_group(128), ScaleEncoding::ue8m0_packed),
                      kAllWanted[0], {});
}

TEST_P(Mla, MaskedRows) {
  make({3, 4}, {96, 64, 16}, Data::normal, 60);
  const int32_t counts[] = {2, 0, 4};
  const TensorView masked = view_.with_row_counts(counts);
  for (const Wanted& wanted : kAllWanted) {
    expect_equal_slices(masked, with(per_group(32), ScaleEncoding::f32, ScaleLayout::column_major),
                        per_token(), wanted, on(Target::best, 2));
  }
}

// Rows apart in a wider buffer that begins at any byte; what lies between them is not a number.
TEST_P(Mla, RowsOfALargerBuffer) {
  make({2, 3}, {130, 72, 18}, Data::normal, 65);
  const DType dtype = GetParam();
  const int64_t size = element_size(dtype);
  const int64_t pitch = 130 + 72 + 18 + 7;
  for (int64_t shift : {int64_t{0}, size, int64_t{1}}) {
    std::vector<std::byte> buffer(static_cast<size_t>(shift + 6 * pitch * size), std::byte{0xFF});
    for (int64_t r = 0; r < 6; ++r) {
      std::memcpy(buffer.data() + shift + r * pitch * size, x_.data() + r * widths_.all() * size,
                  static_cast<size_t>(widths_.all() * size));
    }
    TensorView x = view_of(buffer.data() + shift, dtype, {2, 3, widths_.all()});
    x.strides[1] = pitch;
    x.strides[0] = 3 * pitch;
    const Recipe kv = with(per_group(16), ScaleEncoding::ue8m0);
    const MlaBytes got = of_one_call(x, per_group(32), kv, kAllWanted[0], on(Target::best, 2));
    const MlaBytes want = of_slices(view_, per_group(32), kv, kAllWanted[0]);
    EXPECT_TRUE(same_outputs(got.q, want.q)) << shift;
    EXPECT_TRUE(same_outputs(got.kv, want.kv)) << shift;
    EXPECT_TRUE(same_bytes(got.rope, want.rope)) << shift;
  }
}

// Without a rope part, without rows.
TEST_P(Mla, NothingToCopy) {
  make({3}, {64, 32, 0}, Data::normal, 70);
  expect_equal_slices(view_, per_token(), per_token(), {true, true, true, false}, {});
  make({0}, {64, 32, 8}, Data::normal, 71);
  expect_equal_slices(view_, per_group(32), per_token(), {true, true, true, false}, {});
}

// A cache's rows: kv beside rope, and codes beside rope with their scales elsewhere.
TEST_P(Mla, PartsSideBySideInOneBuffer) {
  make({4}, {64, 48, 16}, Data::normal, 80);
  const DType dtype = GetParam();
  const int64_t pitch = 48 + 16 + 8;
  GuardedBuffer cache(4 * pitch * element_size(dtype));
  const auto part = [&](int64_t begin, int64_t width) {
    TensorView v = view_of(cache.data() + begin * element_size(dtype), dtype, {4, width});
    v.strides[0] = pitch;
    return v;
  };
  const MlaBytes apart = of_slices(view_, per_token(), per_token(), {false, true, false, true});
  MlaOutputs outputs;
  outputs.kv = part(0, 48);
  outputs.rope = part(48, 16);
  call_quantizer(view_, 64, per_token(), {}, [&](const TensorView& c, const TensorView& s) {
    outputs.q_codes = c;
    outputs.q_scales = s;
    return mla_norm_quantize(view_, norm_, per_token(), {}, outputs);
  });
  EXPECT_TRUE(cache.guards_are_unchanged());
  const int64_t kv_bytes = 48 * element_size(dtype);
  const int64_t rope_bytes = 16 * element_size(dtype);
  for (int64_t r = 0; r < 4; ++r) {
    const std::byte* row = cache.data() + r * pitch * element_size(dtype);
    EXPECT_EQ(std::memcmp(row, apart.kv.row.data() + r * kv_bytes, static_cast<size_t>(kv_bytes)),
              0);
    EXPECT_EQ(std::memcmp(row + kv_bytes, apart.rope.data() + r * rope_bytes,
                          static_cast<size_t>(rope_bytes)),
              0);
    EXPECT_EQ(row[kv_bytes + rope_bytes], kPoison);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Mla, testing::Values(DType::f32, DType::f16, DType::bf16),
                         [](const auto& test) { return to_string(test.param); });

// Arguments that contradict each other; each alone is right, which is tested with the other
// operators (refusals_test.cpp).
class MlaRefusals : public testing::Test {
 protected:
  MlaRefusals() {
    norm_.q_weight = view_of(weight_.data(), DType::f32, {32});
    norm_.kv_weight = view_of(weight_.data(), DType::f32, {16});
    outputs_.q_codes = view_of(codes_.data(), DType::e4m3, {2, 32});
    outputs_.q_scales = view_of(scales_.data(), DType::f32, {2, 1});
    outputs_.kv = view_of(kv_.data(), DType::f32, {2, 16});
  }

  void expect_refused(const std::string& message,
                      StatusCode code = StatusCode::invalid_argument) const {
    const Status status = mla_norm_quantize(x_, norm_, q_, kv_recipe_, outputs_);
    EXPECT_EQ(status.code(), code);
    EXPECT_EQ(status.message(), message);
  }

  std::vector<float> data_ = std::vector<float>(2 * 56, 1.0F);
  std::vector<float> weight_ = std::vector<float>(64, 1.0F);
  std::vector<uint8_t> codes_ = std::vector<uint8_t>(64);
  std::vector<float> scales_ = std::vector<float>(4);
  std::vector<float> kv_ = std::vector<float>(32);
  std::vector<uint8_t> kv_codes_ = std::vector<uint8_t>(32);
  std::vector<float> kv_scales_ = std::vector<float>(2);
  std::vector<float> rope_ = std::vector<float>(16);
  TensorView x_ = view_of(data_.data(), DType::f32, {2, 56});
  MlaNorm norm_;
  MlaOutputs outputs_;
  Recipe q_ = per_token();
  Recipe kv_recipe_ = per_token();
};

TEST_F(MlaRefusals, Widths) {
  ASSERT_TRUE(mla_norm_quantize(x_, norm_, q_, kv_recipe_, outputs_).ok());
  norm_.kv_weight = view_of(weight_.data(), DType::f32, {25});
  expect_refused(
      "x: expected at least 57 columns, as many as norm.q_weight and norm.kv_weight have, got 56");
  norm_.kv_weight = view_of(weight_.data(), DType::f32, {0});
  expect_refused("norm.kv_weight: expected at least one column, got shape [0]");
  norm_.kv_weight = view_of(weight_.data(), DType::f32, {17});
  expect_refused("outputs.kv: expected rows [2] of 17 columns, as x, got rows [2] of 16 columns");
  norm_.kv_weight = view_of(weight_.data(), DType::f32, {16, 1});
  expect_refused("norm.kv_weight: expected one dimension, got f32 [16, 1] strides [1, 1] on cpu");
  norm_.kv_weight = view_of(weight_.data(), DType::f32, {24});
  outputs_.kv = view_of(kv_.data(), DType::f32, {2, 24});
  outputs_.rope = view_of(rope_.data(), DType::f32, {2, 1});
  expect_refused(
      "outputs.rope: expected none, as x has no columns behind q and kv, got f32 [2, 1] strides "
      "[1, 1] on cpu");
}

TEST_F(MlaRefusals, ColumnsOfSeveralDimensions) {
  x_ = view_of(data_.data(), DType::f32, {2, 7, 8}).as_rows({0}, {1, 2});
  expect_refused("x: expected a column_rank of 1, got 2");
}

TEST_F(MlaRefusals, WhatKvNeeds) {
  outputs_.kv_scales = view_of(kv_scales_.data(), DType::f32, {2, 1});
  expect_refused(
      "outputs.kv_scales: expected none without kv_codes, got f32 [2, 1] strides [1, 1] on cpu");
  outputs_.kv_scales = {};
  outputs_.kv = {};
  expect_refused("outputs.kv: expected kv or kv_codes, got neither");
  outputs_.kv_codes = view_of(kv_codes_.data(), DType::e4m3, {2, 16});
  expect_refused(
      "outputs.kv_scales: expected f32 [2, 1] strides [1, 1], got f32 [] strides [] on cpu; "
      "scale_spec() of the codes makes the view");
}

TEST_F(MlaRefusals, Recipes) {
  q_ = per_block(1, 32);
  expect_refused(
      "q_recipe.granularity: expected per_token, per_channel, per_group or given scales in a fused "
      "operator, got dynamic per_block: run the separate operator, then quantize");
  q_ = per_group(0);
  expect_refused("q_recipe.group_size: expected at least 1, got 0");
  q_ = per_token();
  q_.profile = Profile::vllm;
  expect_refused("q_recipe.profile: expected rowscale where vLLM has no such operator, got vllm",
                 StatusCode::unsupported);
  // A recipe that nothing is asked of is not looked at.
  q_ = per_token();
  kv_recipe_ = per_group(-1);
  EXPECT_TRUE(mla_norm_quantize(x_, norm_, q_, kv_recipe_, outputs_).ok());
  outputs_.kv_codes = view_of(kv_codes_.data(), DType::e4m3, {2, 16});
  expect_refused("kv_recipe.group_size: expected at least 1, got -1");
}

// Given scales are read: one set may serve both parts.
TEST_F(MlaRefusals, GivenScalesMayBeShared) {
  const float one = 1.0F;
  q_ = with(per_tensor(), ScaleSource::given);
  kv_recipe_ = q_;
  outputs_.q_scales = view_of(&one, DType::f32, {1});
  outputs_.kv_codes = view_of(kv_codes_.data(), DType::e4m3, {2, 16});
  outputs_.kv_scales = outputs_.q_scales;
  EXPECT_TRUE(mla_norm_quantize(x_, norm_, q_, kv_recipe_, outputs_).ok());
  // Where q's are computed they would change kv's.
  float both[2] = {1.0F, 1.0F};
  q_ = per_token();
  outputs_.q_scales = view_of(both, DType::f32, {2, 1});
  outputs_.kv_scales = view_of(both, DType::f32, {1});
  expect_refused(
      "outputs.q_scales: expected memory of its own, got memory that overlaps outputs.kv_scales");
}

}  // namespace
}  // namespace rowscale::test
