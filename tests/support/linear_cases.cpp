#include "tests/support/linear_cases.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "tests/support/code_table.hpp"
#include "tests/support/exact.hpp"
#include "tests/support/test_data.hpp"

namespace rowscale::test {
namespace {

constexpr int64_t kBlock = 128;
constexpr auto kNoise = std::byte{0xFF};  // NaN in every dtype

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

void* place(MatmulMemory* memory, const std::vector<std::byte>& bytes) {
  void* at = memory->allocate(std::max<int64_t>(static_cast<int64_t>(bytes.size()), 1));
  if (!bytes.empty()) memory->write(at, bytes.data(), static_cast<int64_t>(bytes.size()));
  return at;
}

void* noise(MatmulMemory* memory, size_t bytes) {
  return place(memory, std::vector<std::byte>(bytes, kNoise));
}

float rounded(DType dtype, float value) {
  return static_cast<float>(rounded_to(dtype, static_cast<double>(value)));
}

bool is_block(const LinearCase& c) {
  return c.weights == Granularity::per_block;
}

uint8_t encode(float x, float scale) {
  const float quotient = div_exactly(x, scale);
  const uint32_t code = std::min(e4m3_table().nearest(std::fabs(quotient)), uint32_t{126});
  return static_cast<uint8_t>(code | (std::signbit(quotient) ? 0x80U : 0U));
}

// The input's codes and scales by docs/numerics.md section 3: amax / 448 with the floors of
// per_token and per_group.
void quantize_model(const LinearCase& c, const std::vector<float>& x, float input_scale,
                    MatmulValues* v) {
  const bool given = c.activations == ActivationScales::given;
  v->a.resize(x.size());
  for (int64_t row = 0; row < c.m; ++row) {
    for (int64_t g = 0; g < v->groups(); ++g) {
      const int64_t begin = is_block(c) ? g * kBlock : 0;
      const int64_t end = is_block(c) ? std::min(c.k, begin + kBlock) : c.k;
      float amax = 0.0F;
      for (int64_t i = begin; i < end; ++i) {
        amax = std::max(amax, std::fabs(x[static_cast<size_t>(row * c.k + i)]));
      }
      if (is_block(c)) amax = std::max(amax, 1e-10F);
      float scale = div_exactly(amax, 448.0F);
      if (!is_block(c)) scale = std::max(scale, div_exactly(1.0F, 448.0F * 512.0F));
      if (given) scale = input_scale;
      for (int64_t i = begin; i < end; ++i) {
        const auto at = static_cast<size_t>(row * c.k + i);
        v->a[at] = encode(x[at], scale);
      }
      v->scale_a.push_back(static_cast<double>(scale));
    }
  }
}

}  // namespace

LinearCall::LinearCall(const LinearCase& c, MatmulMemory* memory, const Exec& exec)
    : case_(c), memory_(memory), exec_(exec) {
  make_shards();
  make_input();
  make_outputs();
}

void LinearCall::make_shards() {
  Random random(case_.seed);
  const Device device = memory_->device();
  const int64_t k = case_.k;
  const int64_t stride = k + 5;  // rows that lie apart
  for (int64_t n : case_.shards) {
    std::vector<uint8_t> codes;
    std::vector<std::byte> image(static_cast<size_t>(std::max<int64_t>(n, 1) * stride), kNoise);
    for (int64_t row = 0; row < n; ++row) {
      for (int64_t i = 0; i < k; ++i) {
        auto code = static_cast<uint8_t>(random.below(256));
        if ((code & 0x7FU) == 0x7FU) code = 0x38;
        codes.push_back(code);
        image[static_cast<size_t>(row * stride + i)] = std::byte{code};
      }
    }
    WeightShard shard;
    shard.recipe.granularity = case_.weights;
    int64_t rows = 1;
    int64_t columns = 1;
    if (case_.weights == Granularity::per_channel) rows = n;
    if (is_block(case_)) {
      shard.recipe = per_block(kBlock, kBlock);
      rows = ceil_div(n, kBlock);
      columns = ceil_div(k, kBlock);
    }
    std::vector<float> floats;
    std::vector<double> scales;
    for (int64_t i = 0; i < rows * columns; ++i) {
      const float scale = rounded(case_.stored_scales,
                                  0.001F * (1.0F + static_cast<float>(random.below(1000)) / 64));
      floats.push_back(scale);
      scales.push_back(static_cast<double>(scale));
    }
    shard.codes =
        TensorView::strided(place(memory_, image), DType::e4m3, {n, k}, {stride, 1}, device);
    void* at = place(memory_, data_of(case_.stored_scales, floats));
    shard.scales = TensorView::contiguous(at, case_.stored_scales, {rows, columns}, device);
    if (case_.weights == Granularity::per_tensor) {
      shard.scales = TensorView::contiguous(at, case_.stored_scales, {1}, device);
    }
    shards_.push_back(shard);
    shard_codes_.push_back(std::move(codes));
    shard_scales_.push_back(std::move(scales));
  }
}

void LinearCall::make_input() {
  Random random(case_.seed + 1000);
  for (int64_t i = 0; i < case_.m * case_.k; ++i) {
    // Rows of different magnitudes, the second one of zeros.
    const int64_t row = i / case_.k;
    const float value = row == 1 ? 0.0F : std::ldexp(random.normal(), static_cast<int>(row % 7));
    x_values_.push_back(rounded(case_.x, value));
  }
  x_ = TensorView::contiguous(place(memory_, data_of(case_.x, x_values_)), case_.x,
                              {case_.m, case_.k}, memory_->device());
  EXPECT_TRUE(linear_options({case_.weights, case_.activations}, &options_).ok());
  options_.matmul = case_.matmul;
  if (case_.activations == ActivationScales::given) {
    input_scale_ = 0.037F;
    options_.input_scale = TensorView::contiguous(
        place(memory_, data_of(DType::f32, {input_scale_})), DType::f32, {1}, memory_->device());
  }
}

void LinearCall::make_outputs() {
  Random random(case_.seed + 2000);
  const int64_t n = std::accumulate(case_.shards.begin(), case_.shards.end(), int64_t{0});
  if (case_.has_bias) {
    for (int64_t i = 0; i < n; ++i) {
      bias_values_.push_back(rounded(DType::bf16, random.normal()));
    }
  }
}

Status LinearCall::make(size_t first, size_t last) {
  const Device device = memory_->device();
  first_row_ = 0;
  rows_ = 0;
  for (size_t i = 0; i < last; ++i) (i < first ? first_row_ : rows_) += case_.shards[i];
  const std::vector<WeightShard> shards(shards_.begin() + static_cast<std::ptrdiff_t>(first),
                                        shards_.begin() + static_cast<std::ptrdiff_t>(last));
  weight_ = {};
  weight_.device = device;
  if (Status s = packed_weight_spec(shards, &weight_.spec); !s.ok()) return s;
  weight_.codes = noise(memory_, weight_.spec.codes_bytes);
  weight_.scales = noise(memory_, weight_.spec.scales_bytes);
  if (Status s = pack_weight(shards, weight_, exec_); !s.ok()) return s;
  if (Status s = LinearFp8::make(weight_, options_, &layer_); !s.ok()) return s;

  const int64_t stride = rows_ + case_.gap_out;
  out_bytes_ = case_.m * stride * element_size(case_.out);
  out_ = TensorView::strided(noise(memory_, static_cast<size_t>(out_bytes_)), case_.out,
                             {case_.m, rows_}, {stride, 1}, device);
  if (case_.has_bias) {
    const std::vector<float> values(
        bias_values_.begin() + static_cast<std::ptrdiff_t>(first_row_),
        bias_values_.begin() + static_cast<std::ptrdiff_t>(first_row_ + rows_));
    bias_ = TensorView::contiguous(place(memory_, data_of(DType::bf16, values)), DType::bf16,
                                   {rows_}, device);
  }
  return {};
}

Status LinearCall::workspace(Exec* exec) {
  size_t bytes = 0;
  if (Status s = layer_.prepare(out_, bias_, &bytes); !s.ok()) return s;
  exec->workspace = {noise(memory_, bytes), bytes};
  return {};
}

Status LinearCall::run(const Exec& exec) {
  Exec own = exec;
  if (Status s = workspace(&own); !s.ok()) return s;
  const std::vector<std::byte> poison(static_cast<size_t>(out_bytes_), kNoise);
  if (out_bytes_ > 0) memory_->write(out_.data, poison.data(), out_bytes_);
  return layer_.run(x_, bias_, out_, own);
}

std::vector<std::byte> LinearCall::result() const {
  std::vector<std::byte> all(static_cast<size_t>(out_bytes_));
  if (out_bytes_ > 0) memory_->read(all.data(), out_.data, out_bytes_);
  const int64_t size = element_size(case_.out);
  const int64_t pitch = (rows_ + case_.gap_out) * size;
  std::vector<std::byte> rows;
  for (int64_t i = 0; i < out_bytes_; ++i) {
    const auto byte = all[static_cast<size_t>(i)];
    if (i % pitch < rows_ * size) {
      rows.push_back(byte);
    } else {
      EXPECT_EQ(byte, kNoise) << "byte " << i << ", between rows of out";
    }
  }
  return rows;
}

testing::AssertionResult LinearCall::check() const {
  const std::vector<float> got = values_of(case_.out, result());
  MatmulValues v;
  v.m = case_.m;
  v.k = case_.k;
  v.group = is_block(case_) ? kBlock : std::max<int64_t>(case_.k, 1);
  quantize_model(case_, x_values_, input_scale_, &v);
  MatmulOptions unit_options = case_.matmul;
  unit_options.a = options_.input;
  // The widest of the backends that may have run.
  double unit = 0.0;
  if (memory_->device().type == DeviceType::cpu) {
    unit = matmul_unit(MatmulBackend::cpu, unit_options, case_.k);
  } else {
    for (MatmulBackend backend : {MatmulBackend::cublaslt, MatmulBackend::general}) {
      unit = std::max(unit, matmul_unit(backend, unit_options, case_.k));
    }
  }
  int64_t begin = 0;  // of the shard, among all
  for (size_t shard = 0; shard < case_.shards.size(); begin += case_.shards[shard++]) {
    if (begin < first_row_ || begin >= first_row_ + rows_) continue;
    v.n = case_.shards[shard];
    v.b = shard_codes_[shard];
    v.scale_b = shard_scales_[shard];
    v.rows_b = case_.weights == Granularity::per_channel ? 1 : is_block(case_) ? kBlock : v.n;
    for (int64_t row = 0; row < case_.m; ++row) {
      for (int64_t column = 0; column < v.n; ++column) {
        MatmulReference want = matmul_reference(v, 0, 0, row, column);
        if (case_.has_bias) {
          const auto bias = static_cast<double>(bias_values_[static_cast<size_t>(begin + column)]);
          want.value += bias;
          want.magnitude += std::fabs(bias);
        }
        const double error = unit * want.magnitude;
        const auto value = static_cast<double>(
            got[static_cast<size_t>(row * rows_ + begin - first_row_ + column)]);
        if (value >= rounded_to(case_.out, want.value - error) &&
            value <= rounded_to(case_.out, want.value + error)) {
          continue;
        }
        return testing::AssertionFailure()
               << "shard " << shard << " row " << row << " column " << column << ": got " << value
               << ", expected " << want.value << " +- " << error << "\n"
               << layer_.describe(out_, bias_);
      }
    }
  }
  return testing::AssertionSuccess();
}

testing::AssertionResult linear_is_right(const LinearCase& c, MatmulMemory* memory,
                                         const Exec& exec) {
  LinearCall call(c, memory, exec);
  if (Status s = call.make(); !s.ok()) return testing::AssertionFailure() << s.message();
  if (Status s = call.run(); !s.ok()) return testing::AssertionFailure() << s.message();
  return call.check();
}

std::vector<LinearCase> linear_cases() {
  using enum Granularity;
  struct Kind {
    Granularity weights;
    ActivationScales activations;
  };
  const Kind kinds[] = {{per_channel, ActivationScales::dynamic},
                        {per_channel, ActivationScales::given},
                        {per_tensor, ActivationScales::dynamic},
                        {per_tensor, ActivationScales::given},
                        {per_block, ActivationScales::dynamic}};
  const std::vector<int64_t> shards[] = {{64},           {48, 80, 200}, {256, 128, 128},
                                         {128, 80, 128}, {200},         {1, 17}};
  std::vector<LinearCase> cases;
  uint64_t seed = 1;
  for (const Kind& kind : kinds) {
    for (const std::vector<int64_t>& sizes : shards) {
      for (int64_t k : {16, 130, 384}) {
        LinearCase c;
        c.weights = kind.weights;
        c.activations = kind.activations;
        c.shards = sizes;
        c.k = k;
        constexpr int64_t kRows[] = {0, 1, 3, 8, 17, 70, 128};
        c.m = kRows[seed % 7];
        constexpr DType kOut[] = {DType::f32, DType::bf16, DType::f16};
        c.out = kOut[seed % 3];
        c.x = kOut[(seed + 1) % 3];
        c.stored_scales = seed % 2 == 0 ? DType::f32 : DType::bf16;
        c.has_bias = seed % 5 < 2;
        c.gap_out = seed % 4 == 0 ? 24 : 0;
        c.seed = seed++;
        cases.push_back(c);
      }
    }
  }
  return cases;
}

}  // namespace rowscale::test
