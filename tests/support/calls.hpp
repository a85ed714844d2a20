// Calls of the operators into fresh outputs: poisoned, guarded, as small as they may be.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "rowscale/rowscale.hpp"
#include "tests/support/guarded_buffer.hpp"
#include "tests/support/test_data.hpp"

namespace rowscale::test {

inline TensorView view_of(const void* data, DType dtype, const std::vector<int64_t>& shape) {
  TensorView view = TensorView::contiguous(data, dtype, {});
  view.rank = static_cast<int>(shape.size());
  int64_t stride = 1;
  for (int i = view.rank - 1; i >= 0; --i) {
    view.shape[i] = shape[static_cast<size_t>(i)];
    view.strides[i] = stride;
    stride *= view.shape[i];
  }
  return view;
}

inline std::vector<int64_t> shape_of(const TensorView& view) {
  return {view.shape, view.shape + view.rank};
}
inline std::vector<int64_t> strides_of(const TensorView& view) {
  return {view.strides, view.strides + view.rank};
}
inline std::vector<int64_t> shape_of(const ScaleSpec& spec) {
  return {spec.shape, spec.shape + spec.rank};
}
inline std::vector<int64_t> strides_of(const ScaleSpec& spec) {
  return {spec.strides, spec.strides + spec.rank};
}

// The shape of the rows of `view` with `columns` columns.
inline std::vector<int64_t> row_shape(const TensorView& view, int64_t columns) {
  std::vector<int64_t> shape(view.shape, view.shape + view.rank - view.column_rank);
  shape.push_back(columns);
  return shape;
}

inline DType code_dtype(const Recipe& recipe) {
  return recipe.format == Format::e4m3 ? DType::e4m3 : DType::e5m2;
}

inline ScaleSpec spec_of(const TensorView& codes, const Recipe& recipe) {
  ScaleSpec spec;
  const Status status = scale_spec(codes, recipe, &spec);
  EXPECT_TRUE(status.ok()) << status.message();
  return spec;
}

inline int64_t scale_bytes(const ScaleSpec& spec) {
  return spec.storage * element_size(spec.dtype);
}

// Every byte of the outputs, pads and what was not written included.
struct Outputs {
  std::vector<std::byte> codes;
  std::vector<std::byte> scales;
  std::vector<std::byte> row;
};

inline testing::AssertionResult same_outputs(const Outputs& got, const Outputs& want) {
  for (const auto& [name, a, b] :
       {std::tuple{"codes", &got.codes, &want.codes},
        std::tuple{"scales", &got.scales, &want.scales}, std::tuple{"row", &got.row, &want.row}}) {
    if (const auto same = same_bytes(*a, *b); !same) {
      return testing::AssertionFailure() << name << ": " << same.message();
    }
  }
  return testing::AssertionSuccess();
}

struct CallOptions {
  Exec exec;
  std::vector<std::byte> given;  // the scales, where the recipe does not compute them
  int64_t shift = 0;             // bytes that the outputs are misaligned by
};

inline Exec on(Target target, int threads = 1) {
  Exec exec;
  exec.target = target;
  exec.threads = threads;
  return exec;
}

// call(codes, scales) -> Status, for codes of the rows of `x` with `columns` columns.
template <class Call>
Outputs call_quantizer(const TensorView& x, int64_t columns, const Recipe& recipe,
                       const CallOptions& options, Call&& call) {
  const std::vector<int64_t> shape = row_shape(x, columns);
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  GuardedBuffer codes(count, options.shift);
  const TensorView codes_view = view_of(codes.data(), code_dtype(recipe), shape);
  const ScaleSpec spec = spec_of(codes_view, recipe);
  GuardedBuffer scales(scale_bytes(spec), options.shift);
  if (recipe.scale_source == ScaleSource::given) {
    EXPECT_EQ(options.given.size(), static_cast<size_t>(scale_bytes(spec)));
    std::copy(options.given.begin(), options.given.end(), scales.data());
  }
  const Status status = call(codes_view, spec.view(scales.data()));
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(codes.guards_are_unchanged()) << "codes";
  EXPECT_TRUE(scales.guards_are_unchanged()) << "scales";
  return {codes.content(), scales.content(), {}};
}

inline Outputs run_quantize(const TensorView& x, const Recipe& recipe,
                            const CallOptions& options = {}) {
  return call_quantizer(x, x.columns(), recipe, options,
                        [&](const TensorView& codes, const TensorView& scales) {
                          return quantize(x, recipe, codes, scales, options.exec);
                        });
}

// call(y) -> Status, for a y of the rows of `x` with `columns` columns.
template <class Call>
std::vector<std::byte> call_into_rows(const TensorView& x, int64_t columns, DType dtype,
                                      Call&& call, int64_t shift = 0) {
  const std::vector<int64_t> shape = row_shape(x, columns);
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  GuardedBuffer y(count * element_size(dtype), shift);
  const Status status = call(view_of(y.data(), dtype, shape));
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(y.guards_are_unchanged()) << "y";
  return y.content();
}

inline std::vector<std::byte> run_dequantize(const TensorView& codes, const TensorView& scales,
                                             const Recipe& recipe, DType dtype,
                                             const Exec& exec = {}) {
  return call_into_rows(codes, codes.columns(), dtype, [&](const TensorView& y) {
    return dequantize(codes, scales, recipe, y, exec);
  });
}

// Scales to be given: any float for f32, any power of two or byte otherwise.
inline std::vector<std::byte> make_scales(const ScaleSpec& spec, ScaleEncoding encoding,
                                          uint64_t seed) {
  Random random(seed);
  std::vector<std::byte> bytes(static_cast<size_t>(scale_bytes(spec)));
  constexpr float kOdd[] = {0.0F,     -0.0F,           -1.5F,       INFINITY, -INFINITY,
                            NAN,      0x1p-149F,       0x1.8p-130F, 0x1p-96F, 0x1.fffffep-97F,
                            0x1p126F, 0x1.000002p126F, 3e38F};
  if (encoding == ScaleEncoding::f32 || encoding == ScaleEncoding::ue8m0_f32) {
    for (size_t i = 0; i < bytes.size(); i += 4) {
      float value = std::ldexp(1.0F, static_cast<int>(random.below(40)) - 20);
      if (encoding == ScaleEncoding::f32) {
        value =
            random.below(4) == 0 ? random.pick(kOdd) : value * (1.0F + std::fabs(random.normal()));
      }
      std::memcpy(bytes.data() + i, &value, 4);
    }
  } else {
    for (std::byte& byte : bytes) {
      byte =
          static_cast<std::byte>(random.below(8) == 0 ? random.below(256) : 117 + random.below(20));
    }
  }
  return bytes;
}

}  // namespace rowscale::test
