// The caller's floating-point state changes no result and survives the call: rounding mode,
// flush-to-zero and denormals-are-zero, on the calling thread and on workers.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/calls.hpp"
#include "tests/support/recipes.hpp"
#include "tests/support/test_data.hpp"

#if defined(__x86_64__)
#include <xmmintrin.h>

namespace rowscale::test {
namespace {

constexpr unsigned kDefault = 0x1F80;
constexpr unsigned kFlushToZero = 0x8000;
constexpr unsigned kDenormalsAreZero = 0x0040;
constexpr unsigned kRoundDown = 0x2000;
constexpr unsigned kRoundUp = 0x4000;
constexpr unsigned kRoundToZero = 0x6000;

// The states to call in, each with flags of its own so that restoring is seen.
constexpr unsigned kStates[] = {
    kDefault | kRoundDown,          kDefault | kRoundUp,
    kDefault | kRoundToZero,        kDefault | kFlushToZero,
    kDefault | kDenormalsAreZero,   kDefault | kFlushToZero | kDenormalsAreZero | kRoundUp,
    kDefault | 0x0001 | kRoundDown,  // a sticky exception flag, too
};

// call() -> bytes, in every state. `expected` is what it gave in the default state.
template <class Call>
void expect_same_in_all_states(const std::string& what, Call&& call) {
  for (int threads : {1, 2}) {
    for (Target target : supported_targets()) {
      _mm_setcsr(kDefault);
      const std::vector<std::byte> expected = call(on(target, threads));
      for (unsigned state : kStates) {
        Exec exec = on(target, threads);
        _mm_setcsr(state);
        const std::vector<std::byte> got = call(exec);
        const unsigned after = _mm_getcsr();
        _mm_setcsr(kDefault);
        EXPECT_TRUE(same_bytes(got, expected))
            << what << ", " << to_string(target) << ", " << threads << " threads, state 0x"
            << std::hex << state;
        EXPECT_EQ(after, state) << what << " left another state behind";
      }
      if (testing::Test::HasFailure()) return;
    }
  }
}

// Values that each wrong state changes: subnormals, ties, inexact quotients; 600 KB, so that two
// threads have work.
struct Input {
  explicit Input(DType type) : dtype(type) {
    for (Data data : kAllData) {
      const auto part = make_data(data, dtype, kRows / 4 * kColumns, 7);
      bytes.insert(bytes.end(), part.begin(), part.end());
    }
    const auto tiny = data_of(dtype, {1e-40F, -1e-40F, 0x1p-126F, 3e-39F, 1e-37F, -1e-38F});
    std::copy(tiny.begin(), tiny.end(), bytes.begin());
  }
  TensorView view() const { return view_of(bytes.data(), dtype, {kRows, kColumns}); }

  static constexpr int64_t kRows = 260;
  static constexpr int64_t kColumns = 600;
  DType dtype;
  std::vector<std::byte> bytes;
};

// Only the library's own call may see the state: the outputs are made beforehand.
std::vector<std::byte> join(const GuardedBuffer& a, const GuardedBuffer& b) {
  std::vector<std::byte> bytes = a.content();
  const std::vector<std::byte> more = b.content();
  bytes.insert(bytes.end(), more.begin(), more.end());
  return bytes;
}

TEST(FpEnv, TheInputsShowWrongStates) {
  // A plain loop in each state differs from the default state: the data can tell them apart.
  const Input input(DType::f32);
  const std::vector<float> x = values_of(DType::f32, input.bytes);
  const auto work = [&x] {
    volatile float third = 1.0F / 3.0F;
    std::vector<std::byte> bytes;
    for (size_t i = 0; i < 2000; ++i) {
      volatile float product = x[i] * third;
      volatile float small = x[i] * 1e-38F;
      const float values[] = {product, small};
      const auto* at = reinterpret_cast<const std::byte*>(values);
      bytes.insert(bytes.end(), at, at + sizeof values);
    }
    return bytes;
  };
  _mm_setcsr(kDefault);
  const auto expected = work();
  for (unsigned state : kStates) {
    _mm_setcsr(state);
    const auto got = work();
    _mm_setcsr(kDefault);
    EXPECT_NE(got, expected) << "state 0x" << std::hex << state;
  }
}

TEST(FpEnv, Quantize) {
  for (DType dtype : {DType::f32, DType::bf16}) {
    const Input input(dtype);
    for (Recipe recipe : {per_tensor(), per_token(), per_channel(), per_group(60),
                          with(per_group(128), ScaleEncoding::ue8m0_packed), per_block(64, 100)}) {
      for (FloorKind floor : {FloorKind::standard, FloorKind::none}) {
        recipe.floor.kind = floor;
        recipe.quotient = dtype == DType::bf16 ? Quotient::reciprocal : Quotient::divide;
        const TensorView codes_shape = view_of(nullptr, code_dtype(recipe), shape_of(input.view()));
        const ScaleSpec spec = spec_of(codes_shape, recipe);
        expect_same_in_all_states(to_string(recipe), [&](const Exec& exec) {
          GuardedBuffer codes(Input::kRows * Input::kColumns);
          GuardedBuffer scales(scale_bytes(spec));
          TensorView codes_view = codes_shape;
          codes_view.data = codes.data();
          const Status status =
              quantize(input.view(), recipe, codes_view, spec.view(scales.data()), exec);
          EXPECT_TRUE(status.ok()) << status.message();
          return join(codes, scales);
        });
      }
    }
  }
}

TEST(FpEnv, DequantizeRequantizeRelayout) {
  const Recipe in = per_group(60);
  std::vector<uint8_t> codes(Input::kRows * Input::kColumns);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint8_t>(i * 7);
  const TensorView view = view_of(codes.data(), DType::e4m3, {Input::kRows, Input::kColumns});
  const ScaleSpec spec = spec_of(view, in);
  auto scales = make_scales(spec, in.encoding, 3);
  for (size_t i = 0; i < scales.size(); i += 8) {
    const float tiny = 0x1.8p-128F * static_cast<float>(i + 1);
    std::memcpy(scales.data() + i, &tiny, 4);
  }
  const TensorView scale_view = spec.view(scales.data());
  for (DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    expect_same_in_all_states("dequantize", [&](const Exec& exec) {
      return run_dequantize(view, scale_view, in, dtype, exec);
    });
  }
  for (const Recipe& out : {per_token(), with(per_group(40), ScaleEncoding::ue8m0), per_tensor()}) {
    expect_same_in_all_states("requantize", [&](const Exec& exec) {
      CallOptions options;
      const Outputs outputs = call_quantizer(
          view, Input::kColumns, out, options, [&](const TensorView& c, const TensorView& s) {
            return requantize(view, scale_view, in, c, s, out, exec);
          });
      std::vector<std::byte> bytes = outputs.codes;
      bytes.insert(bytes.end(), outputs.scales.begin(), outputs.scales.end());
      return bytes;
    });
  }
  const Recipe bytes_in = with(per_group(60), ScaleEncoding::ue8m0);
  const ScaleSpec bytes_spec = spec_of(view, bytes_in);
  std::vector<uint8_t> exponents(static_cast<size_t>(bytes_spec.storage));
  for (size_t i = 0; i < exponents.size(); ++i) exponents[i] = static_cast<uint8_t>(i);
  const Recipe floats_out = with(per_group(60), ScaleEncoding::ue8m0_f32);
  expect_same_in_all_states("relayout_scales", [&](const Exec& exec) {
    const ScaleSpec out_spec = spec_of(view, floats_out);
    GuardedBuffer out(scale_bytes(out_spec));
    const Status status = relayout_scales(view, bytes_spec.view(exponents.data()), bytes_in,
                                          out_spec.view(out.data()), floats_out, exec);
    EXPECT_TRUE(status.ok()) << status.message();
    return out.content();
  });
}

TEST(FpEnv, Producers) {
  for (DType dtype : {DType::f32, DType::f16}) {
    const Input input(dtype);
    const TensorView x = input.view();
    const auto weight = make_data(Data::normal, DType::f32, Input::kColumns, 11);
    RmsNorm norm;
    norm.weight = view_of(weight.data(), DType::f32, {Input::kColumns});
    expect_same_in_all_states("rms_norm", [&](const Exec& exec) {
      return call_into_rows(x, Input::kColumns, dtype,
                            [&](const TensorView& y) { return rms_norm(x, norm, y, exec); });
    });
    expect_same_in_all_states("rms_norm_quantize", [&](const Exec& exec) {
      const Outputs out = call_quantizer(
          x, Input::kColumns, per_token(), {}, [&](const TensorView& c, const TensorView& s) {
            return rms_norm_quantize(x, norm, per_token(), c, s, {}, exec);
          });
      std::vector<std::byte> bytes = out.codes;
      bytes.insert(bytes.end(), out.scales.begin(), out.scales.end());
      return bytes;
    });
    using Activation = Status (*)(const TensorView&, const TensorView&, const Exec&);
    for (Activation activation : {silu_mul, gelu_tanh_mul}) {
      expect_same_in_all_states("activation", [&](const Exec& exec) {
        return call_into_rows(x, Input::kColumns / 2, dtype,
                              [&](const TensorView& y) { return activation(x, y, exec); });
      });
    }
    expect_same_in_all_states("relu2", [&](const Exec& exec) {
      return call_into_rows(x, Input::kColumns, dtype,
                            [&](const TensorView& y) { return relu2(x, y, exec); });
    });
    expect_same_in_all_states("swiglu_clamped", [&](const Exec& exec) {
      return call_into_rows(x, Input::kColumns / 2, dtype,
                            [&](const TensorView& y) { return swiglu_clamped(x, {}, y, exec); });
    });
  }
}

// What is computed before any data are read obeys the state rules too: 1/(448*512) rounded to
// nearest is 0x36924925, and 0x36924924 when rounded down.
TEST(FpEnv, StandardFloor) {
  for (unsigned state : kStates) {
    float x[8] = {};
    uint8_t codes[8];
    float scale = 0.0F;
    _mm_setcsr(state);
    const Recipe resolved = resolve(per_token());
    const Status status = quantize(TensorView::contiguous(x, DType::f32, {1, 8}), per_token(),
                                   TensorView::contiguous(codes, DType::e4m3, {1, 8}),
                                   TensorView::contiguous(&scale, DType::f32, {1, 1}));
    _mm_setcsr(kDefault);
    EXPECT_TRUE(status.ok());
    EXPECT_EQ(std::bit_cast<uint32_t>(scale), 0x36924925U) << "state 0x" << std::hex << state;
    EXPECT_EQ(std::bit_cast<uint32_t>(resolved.floor.value), 0x36924925U)
        << "state 0x" << std::hex << state;
  }
}

}  // namespace
}  // namespace rowscale::test

#endif  // __x86_64__
