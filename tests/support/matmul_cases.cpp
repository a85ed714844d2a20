#include "tests/support/matmul_cases.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <new>
#include <sstream>

#include "tests/support/test_data.hpp"

namespace rowscale::test {
namespace {

constexpr int64_t kGuard = 256;  // bytes on both sides of every tensor
constexpr uint8_t kNan = 0xFF;   // as codes, scales and floats: NaN; as offsets: negative
// Products of the reference that a check spends at most.
constexpr int64_t kBudget = 4'000'000;

class HostMemory final : public MatmulMemory {
 public:
  ~HostMemory() override {
    for (void* block : blocks_) std::free(block);
  }
  HostMemory() = default;
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  [[nodiscard]] Device device() const override { return {}; }
  void* allocate(int64_t bytes) override {
    void* block = std::aligned_alloc(256, static_cast<size_t>((bytes + 511) / 256 * 256));
    if (block == nullptr) throw std::bad_alloc();
    blocks_.push_back(block);
    return block;
  }
  void write(void* to, const void* from, int64_t bytes) override {
    std::memcpy(to, from, static_cast<size_t>(bytes));
  }
  void read(void* to, const void* from, int64_t bytes) override {
    std::memcpy(to, from, static_cast<size_t>(bytes));
  }

 private:
  std::vector<void*> blocks_;
};

bool is_sorted(const MatmulCase& c) {
  return !c.offsets.empty();
}
bool is_masked(const MatmulCase& c) {
  return !c.counts.empty();
}
int64_t experts_of(const MatmulCase& c) {
  if (is_sorted(c)) return static_cast<int64_t>(c.offsets.size()) - 1;
  return is_masked(c) ? static_cast<int64_t>(c.counts.size()) : 1;
}

bool is_block(const MatmulCase& c) {
  return c.options.a.granularity == Granularity::per_group;
}
DType dtype_of(Format format) {
  return format == Format::e4m3 ? DType::e4m3 : DType::e5m2;
}
bool is_power(const Recipe& recipe) {
  return recipe.encoding != ScaleEncoding::f32;
}

// The finite codes, of e5m2 without its largest third of exponents: products then stay far below
// overflow of fp16.
std::vector<uint8_t> finite_codes(Format format) {
  std::vector<uint8_t> codes;
  codes.reserve(256);
  for (int code = 0; code < 256; ++code) {
    const auto byte = static_cast<uint8_t>(code);
    const bool is_large = format == Format::e5m2 && (byte & 0x7FU) >= 0x54;
    if (!is_large && std::isfinite(code_value(format, byte))) codes.push_back(byte);
  }
  return codes;
}

void fill_randomly(std::vector<uint8_t>* codes, Format format, Random* random) {
  const std::vector<uint8_t> finite = finite_codes(format);
  uint64_t bits = 0;
  for (size_t i = 0; i < codes->size(); ++i) {
    if (i % 4 == 0) bits = random->next();
    (*codes)[i] = finite[(bits & 0xFFFFU) % finite.size()];
    bits >>= 16;
  }
}

uint8_t one(Format format) {
  return format == Format::e4m3 ? 0x38 : 0x3C;
}

// About 2^exponent.
double random_scale(bool power, int exponent, Random* random) {
  if (power) return std::ldexp(1.0, exponent + static_cast<int>(random->below(5)) - 2);
  const auto mantissa = static_cast<uint32_t>(random->below(1 << 23));
  return std::ldexp(1.0 + std::ldexp(mantissa, -23),
                    exponent + static_cast<int>(random->below(3)) - 1);
}

void append(std::ostringstream* text, const char* name, int64_t value) {
  if (value != 0) *text << ' ' << name << '=' << value;
}

template <class List>
void append_list(std::ostringstream* text, const char* name, const List& list) {
  if (list.empty()) return;
  *text << ' ' << name << "=[";
  for (size_t i = 0; i < list.size() && i < 12; ++i) *text << (i > 0 ? "," : "") << list[i];
  *text << (list.size() > 12 ? ",...]" : "]");
}

// Few numbers of 0 .. size - 1: both ends, both sides of tiles' borders, and some between.
std::vector<int64_t> some_of(int64_t size, int64_t most, Random* random) {
  std::vector<int64_t> chosen;
  if (size <= most) {
    for (int64_t i = 0; i < size; ++i) chosen.push_back(i);
    return chosen;
  }
  for (int64_t at : {int64_t{0}, int64_t{1}, int64_t{63}, int64_t{64}, int64_t{127}, int64_t{128},
                     size - 1, size - 2, size / 128 * 128, size / 128 * 128 - 1}) {
    if (at >= 0 && at < size) chosen.push_back(at);
  }
  while (static_cast<int64_t>(chosen.size()) < most) chosen.push_back(random->below(size));
  std::sort(chosen.begin(), chosen.end());
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  return chosen;
}

}  // namespace

std::unique_ptr<MatmulMemory> host_memory() {
  return std::make_unique<HostMemory>();
}

std::string to_string(const MatmulCase& c) {
  std::ostringstream text;
  text << "m=" << c.m << " n=" << c.n << " k=" << c.k << ' ' << to_string(c.options.backend)
       << " -> " << to_string(c.out);
  if (c.bias) text << " bias " << to_string(*c.bias);
  append(&text, "gap_a", c.gap_a);
  append(&text, "gap_b", c.gap_b);
  append(&text, "gap_out", c.gap_out);
  append(&text, "shift_a", c.shift_a);
  append(&text, "shift_b", c.shift_b);
  append(&text, "shift_out", c.shift_out);
  append_list(&text, "offsets", c.offsets);
  append_list(&text, "counts", c.counts);
  text << " data " << static_cast<int>(c.data) << " seed " << c.seed
       << "\n  a: " << to_string(c.options.a) << "\n  b: " << to_string(c.options.b);
  return text.str();
}

double matmul_unit(MatmulBackend backend, const MatmulOptions& options, int64_t k) {
  const bool is_block_scaled = options.a.granularity == Granularity::per_group;
  // Roundings to fp32 that a product goes through: of sums of 128, of sums of those, of scales and
  // bias.
  const double roundings =
      static_cast<double>(std::min<int64_t>(k, 128)) + static_cast<double>(k) / 128 + 4;
  switch (backend) {
    case MatmulBackend::cpu:
      return std::ldexp(roundings, -24);
    case MatmulBackend::general:
      return std::ldexp(roundings, -22);  // tensor cores truncate
    case MatmulBackend::dequantize:
      return is_block_scaled ? 0x1p-7 : std::ldexp(roundings, -22);
    default:
      // The FP8 tensor cores of sm_90 align the 32 products of a step to the largest and drop what
      // lies below 2^-13 of it: nothing that a program can change. Two or three large terms among
      // 32 small ones lose most; over all cases here 1.1e-3 was the most.
      return options.accumulation == Accumulation::fast ? 0x1p-8 : 0x1p-9;
  }
}

MatmulCall::MatmulCall(const MatmulCase& c, MatmulMemory* memory) : case_(c), memory_(memory) {
  make_values();
  place();
}

void MatmulCall::make_values() {
  const MatmulCase& c = case_;
  MatmulValues& v = values_;
  Random random(c.seed);
  v.m = c.m;
  v.n = c.n;
  v.k = c.k;
  v.experts = experts_of(c);
  v.batches = is_masked(c) ? v.experts : 1;
  v.format_a = c.options.a.format;
  v.format_b = c.options.b.format;
  v.group = is_block(c) ? 128 : std::max<int64_t>(c.k, 1);
  v.rows_b = is_block(c) ? 128 : 1;
  const bool is_tags = c.data == MatmulData::tags;
  const auto fill = [&](std::vector<uint8_t>* codes, int64_t count, Format format) {
    codes->resize(static_cast<size_t>(count));
    if (is_tags) {
      std::fill(codes->begin(), codes->end(), one(format));
    } else {
      fill_randomly(codes, format, &random);
    }
  };
  fill(&v.a, v.batches * v.m * v.k, v.format_a);
  fill(&v.b, v.experts * v.n * v.k, v.format_b);
  if (c.data == MatmulData::nans && v.k > 0) {
    for (int64_t row = 1; row < v.batches * v.m; row += 5) {
      v.a[static_cast<size_t>(row * v.k + random.below(v.k))] = 0x7F;
    }
    for (int64_t row = 2; row < v.experts * v.n; row += 7) {
      v.b[static_cast<size_t>(row * v.k + random.below(v.k))] = 0xFF;
    }
  }
  // Results are then of order 1: codes are about 2^7 (e4m3) and 2^3 (e5m2 as chosen above).
  const int log_k =
      static_cast<int>(std::bit_width(static_cast<uint64_t>(std::max<int64_t>(v.k, 1))));
  const int exponent_a = v.format_a == Format::e4m3 ? -6 : -3;
  const int exponent_b = (v.format_b == Format::e4m3 ? -6 : -3) - log_k / 2;
  const bool one_a = c.options.a.granularity == Granularity::per_tensor;
  const bool one_b = c.options.b.granularity == Granularity::per_tensor;
  v.scale_a.resize(static_cast<size_t>(v.batches * v.m * v.groups()));
  for (size_t i = 0; i < v.scale_a.size(); ++i) {
    const auto group = static_cast<int64_t>(i) % v.groups();
    const auto row = static_cast<int64_t>(i) / v.groups();
    v.scale_a[i] = is_tags ? std::ldexp(1.0, static_cast<int>((row + 3 * group) % 8) - 4)
                           : random_scale(is_power(c.options.a), exponent_a, &random);
    if (one_a) v.scale_a[i] = v.scale_a[0];
  }
  v.scale_b.resize(static_cast<size_t>(v.experts * v.scale_rows_b() * v.groups()));
  for (size_t i = 0; i < v.scale_b.size(); ++i) {
    const auto group = static_cast<int64_t>(i) % v.groups();
    const auto row = static_cast<int64_t>(i) / v.groups();
    v.scale_b[i] = is_tags ? std::ldexp(1.0, static_cast<int>((5 * row + 2 * group) % 8) - 4)
                           : random_scale(is_power(c.options.b), exponent_b, &random);
    if (one_b) v.scale_b[i] = v.scale_b[0];
  }
  if (c.bias) {
    v.bias.resize(static_cast<size_t>(v.n));
    for (double& value : v.bias) value = rounded_to(*c.bias, random.normal());
  }
}

void MatmulCall::place() {
  const MatmulValues& v = values_;
  place_codes(&tensors_.a, v.a, dtype_of(v.format_a), is_masked(case_), v.batches, v.m, case_.gap_a,
              case_.shift_a);
  place_codes(&tensors_.b, v.b, dtype_of(v.format_b), is_sorted(case_) || is_masked(case_),
              v.experts, v.n, case_.gap_b, case_.shift_b);
  place_scales(&tensors_.scale_a, tensors_.a, case_.options.a, v.scale_a, v.batches, v.m);
  place_scales(&tensors_.scale_b, tensors_.b, case_.options.b, v.scale_b, v.experts,
               v.scale_rows_b());
  place_bias();
  place_experts();
  place_out();
}

void* MatmulCall::place_image(const std::vector<uint8_t>& image, int64_t shift) {
  std::vector<uint8_t> whole(image.size() + static_cast<size_t>(2 * kGuard + shift), kNan);
  std::copy(image.begin(), image.end(), whole.begin() + kGuard + shift);
  auto* memory = static_cast<std::byte*>(memory_->allocate(static_cast<int64_t>(whole.size())));
  memory_->write(memory, whole.data(), static_cast<int64_t>(whole.size()));
  return memory + kGuard + shift;
}

void MatmulCall::place_codes(TensorView* view, const std::vector<uint8_t>& codes, DType dtype,
                             bool batched, int64_t batches, int64_t rows, int64_t gap,
                             int64_t shift) {
  const int64_t k = values_.k;
  const int64_t stride = k + gap;
  std::vector<uint8_t> image(static_cast<size_t>(batches * rows * stride), kNan);
  for (int64_t batch = 0; batch < batches; ++batch) {
    for (int64_t row = 0; row < rows; ++row) {
      // Rows that belong to nobody are not to be read.
      if (view == &tensors_.a && expert_of(batch, row) < 0) continue;
      const int64_t at = batch * rows + row;
      std::copy_n(codes.begin() + at * k, k, image.begin() + at * stride);
    }
  }
  void* data = place_image(image, shift);
  *view = batched ? TensorView::strided(data, dtype, {batches, rows, k}, {rows * stride, stride, 1},
                                        memory_->device())
                  : TensorView::strided(data, dtype, {rows, k}, {stride, 1}, memory_->device());
}

void MatmulCall::place_scales(TensorView* view, const TensorView& codes, const Recipe& recipe,
                              const std::vector<double>& scales, int64_t batches, int64_t rows) {
  ScaleSpec spec;
  const Status status = scale_spec(codes, recipe, &spec);
  if (!status.ok()) ADD_FAILURE() << status.message();
  const int64_t size = element_size(spec.dtype);
  std::vector<uint8_t> image(static_cast<size_t>(spec.storage * size), kNan);
  // Strides of the shape's last two dimensions, and of the batches.
  const int64_t row_stride = spec.rank > 1 ? spec.strides[spec.rank - 2] : 0;
  const int64_t group_stride = spec.strides[spec.rank - 1];
  const int64_t batch_stride = spec.rank > 2 ? spec.strides[0] : 0;
  const int64_t groups = values_.groups();
  for (int64_t i = 0; i < static_cast<int64_t>(scales.size()) && spec.storage > 0; ++i) {
    const int64_t group = i % groups;
    const int64_t row = i / groups % std::max<int64_t>(rows, 1);
    const int64_t batch = i / groups / std::max<int64_t>(rows, 1);
    if (batch >= batches) break;
    const bool is_one = recipe.granularity == Granularity::per_tensor;
    if (is_one && i > 0) break;
    // NaN stays at rows that belong to nobody.
    if (!is_one && view == &tensors_.scale_a && expert_of(batch, row) < 0) continue;
    const double value = scales[static_cast<size_t>(i)];
    const auto exponent = static_cast<uint8_t>(std::ilogb(value) + 127);
    if (recipe.encoding == ScaleEncoding::ue8m0_packed) {
      const int64_t word = batch * batch_stride + row * row_stride + group / 4 * group_stride;
      image[static_cast<size_t>(word * 4 + group % 4)] = exponent;
      continue;
    }
    const int64_t at = is_one ? 0 : batch * batch_stride + row * row_stride + group * group_stride;
    if (recipe.encoding == ScaleEncoding::ue8m0) {
      image[static_cast<size_t>(at)] = exponent;
    } else {
      const auto scale = static_cast<float>(value);
      std::memcpy(image.data() + at * 4, &scale, 4);
    }
  }
  *view = spec.view(place_image(image, 0), memory_->device());
}

void MatmulCall::place_bias() {
  if (!case_.bias) return;
  const DType dtype = *case_.bias;
  const int64_t size = element_size(dtype);
  std::vector<uint8_t> image(static_cast<size_t>(values_.n * size));
  for (int64_t j = 0; j < values_.n; ++j) {
    store_value(dtype, static_cast<float>(values_.bias[static_cast<size_t>(j)]),
                reinterpret_cast<std::byte*>(image.data()) + j * size);
  }
  tensors_.bias =
      TensorView::contiguous(place_image(image, 0), dtype, {values_.n}, memory_->device());
}

void MatmulCall::place_experts() {
  const std::vector<int32_t>& numbers = is_sorted(case_) ? case_.offsets : case_.counts;
  if (numbers.empty()) return;
  std::vector<uint8_t> image(numbers.size() * 4);
  std::memcpy(image.data(), numbers.data(), image.size());
  void* data = place_image(image, 0);
  if (is_masked(case_)) {
    tensors_.a = tensors_.a.with_row_counts(static_cast<const int32_t*>(data));
  } else {
    tensors_.expert_offsets = TensorView::contiguous(
        data, DType::i32, {static_cast<int64_t>(numbers.size())}, memory_->device());
  }
}

void MatmulCall::place_out() {
  const MatmulValues& v = values_;
  const int64_t size = element_size(case_.out);
  const int64_t stride = v.n + case_.gap_out;
  const int64_t bytes = v.batches * v.m * stride * size;
  const int64_t begin = kGuard + case_.shift_out * size;
  poison_.resize(static_cast<size_t>(begin + bytes + kGuard));
  for (size_t i = 0; i < poison_.size(); ++i) {
    poison_[i] = static_cast<std::byte>((i * 37U + 11U) & 0xFFU);
  }
  out_memory_ = static_cast<std::byte*>(memory_->allocate(static_cast<int64_t>(poison_.size())));
  void* data = out_memory_ + begin;
  tensors_.out =
      is_masked(case_)
          ? TensorView::strided(data, case_.out, {v.batches, v.m, v.n}, {v.m * stride, stride, 1},
                                memory_->device())
          : TensorView::strided(data, case_.out, {v.m, v.n}, {stride, 1}, memory_->device());
}

int64_t MatmulCall::expert_of(int64_t batch, int64_t row) const {
  if (is_masked(case_)) return row < case_.counts[static_cast<size_t>(batch)] ? batch : -1;
  if (!is_sorted(case_)) return 0;
  // As matmul.hpp says: clamped to 0 .. m and to no less than the one before.
  int64_t begin = std::clamp<int64_t>(case_.offsets[0], 0, values_.m);
  for (size_t e = 0; e + 1 < case_.offsets.size(); ++e) {
    const int64_t end = std::max(begin, std::clamp<int64_t>(case_.offsets[e + 1], 0, values_.m));
    if (row >= begin && row < end) return static_cast<int64_t>(e);
    begin = end;
  }
  return -1;
}

Status MatmulCall::plan() {
  return plan(case_.options.backend);
}

Status MatmulCall::plan(MatmulBackend backend) {
  case_.options.backend = backend;
  if (Status status = MatmulPlan::make(tensors_, case_.options, &plan_); !status.ok()) {
    return status;
  }
  const auto bytes = static_cast<int64_t>(plan_.workspace_bytes());
  if (bytes > workspace_bytes_) {
    workspace_ = memory_->allocate(bytes);
    workspace_bytes_ = bytes;
  }
  if (bytes > 0) {
    const std::vector<uint8_t> nans(static_cast<size_t>(bytes), kNan);
    memory_->write(workspace_, nans.data(), bytes);
  }
  return {};
}

Status MatmulCall::run(const Exec& exec) {
  const auto bytes = static_cast<int64_t>(poison_.size());
  memory_->write(out_memory_, poison_.data(), bytes);
  Exec with_workspace = exec;
  with_workspace.workspace = {workspace_, plan_.workspace_bytes()};
  if (Status status = plan_.run(tensors_, with_workspace); !status.ok()) return status;
  out_.resize(poison_.size());
  memory_->read(out_.data(), out_memory_, bytes);
  return {};
}

int64_t MatmulCall::out_offset(int64_t batch, int64_t row, int64_t column) const {
  const int64_t size = element_size(case_.out);
  const int64_t stride = values_.n + case_.gap_out;
  return kGuard + (case_.shift_out + (batch * values_.m + row) * stride + column) * size;
}

double MatmulCall::out_at(const Element& e) const {
  return load_value(case_.out, out_.data() + out_offset(e.batch, e.row, e.column));
}

std::vector<std::byte> MatmulCall::out_row(int64_t batch, int64_t row) const {
  const auto begin = out_.begin() + out_offset(batch, row, 0);
  return {begin, begin + values_.n * element_size(case_.out)};
}

const std::vector<MatmulCall::Element>& MatmulCall::sample() const {
  if (!sample_) sample_ = make_sample();
  return *sample_;
}

std::vector<MatmulCall::Element> MatmulCall::make_sample() const {
  const MatmulValues& v = values_;
  Random random(case_.seed + 1);
  const int64_t most = std::max<int64_t>(kBudget / std::max<int64_t>(v.k, 1), 64);
  const int64_t all_rows = v.batches * v.m;
  const bool is_whole = all_rows * v.n <= most;
  const auto side = static_cast<int64_t>(std::sqrt(static_cast<double>(most)));
  const int64_t most_rows = is_whole ? all_rows : std::min(all_rows, std::max(side, most / v.n));
  const int64_t most_columns =
      is_whole ? v.n : std::max<int64_t>(most / std::max<int64_t>(most_rows, 1), 16);
  const std::vector<int64_t> rows = some_of(all_rows, most_rows, &random);
  const std::vector<int64_t> columns = some_of(v.n, most_columns, &random);
  std::vector<Element> elements;
  elements.reserve(rows.size() * columns.size());
  for (int64_t row : rows) {
    const int64_t batch = row / v.m;
    const int64_t expert = expert_of(batch, row % v.m);
    if (expert < 0) continue;
    for (int64_t column : columns) {
      elements.push_back({expert, batch, row % v.m, column,
                          matmul_reference(v, expert, batch, row % v.m, column)});
    }
  }
  return elements;
}

testing::AssertionResult MatmulCall::check(double unit) const {
  if (unit == 0.0) unit = matmul_unit(plan_.backend(), case_.options, values_.k);
  for (const Element& e : sample()) {
    const MatmulReference& want = e.want;
    const double got = out_at(e);
    const double error = unit * want.magnitude;
    // A cast is monotone: where the sum before it is within the bound, the result lies between the
    // casts of the bound's ends.
    const bool right = std::isnan(want.value)
                           ? std::isnan(got)
                           : got >= rounded_to(case_.out, want.value - error) &&
                                 got <= rounded_to(case_.out, want.value + error);
    if (right) continue;
    return testing::AssertionFailure()
           << "out[" << e.batch << "][" << e.row << "][" << e.column << "], expert " << e.expert
           << ": got " << got << ", expected " << want.value << " +- " << error << ", a factor of "
           << got / want.value << "\n"
           << to_string(case_) << "\n"
           << to_string(plan_);
  }
  std::vector<bool> is_element(out_.size(), false);
  const int64_t size = element_size(case_.out);
  for (int64_t row = 0; row < values_.batches * values_.m; ++row) {
    if (expert_of(row / values_.m, row % values_.m) < 0) continue;
    const auto begin = is_element.begin() + out_offset(row / values_.m, row % values_.m, 0);
    std::fill(begin, begin + values_.n * size, true);
  }
  for (size_t i = 0; i < out_.size(); ++i) {
    if (is_element[i] || out_[i] == poison_[i]) continue;
    return testing::AssertionFailure() << "byte " << static_cast<int64_t>(i) - out_offset(0, 0, 0)
                                       << " from out was written, which is no element of it\n"
                                       << to_string(case_) << "\n"
                                       << to_string(plan_);
  }
  return testing::AssertionSuccess();
}

double MatmulCall::largest_error() const {
  double largest = 0.0;
  for (const Element& e : sample()) {
    const MatmulReference& want = e.want;
    if (!std::isfinite(want.value) || want.magnitude == 0.0) continue;
    // What the output's own rounding may have added.
    const double got = out_at(e);
    const double step = case_.out == DType::f32   ? 0x1p-24
                        : case_.out == DType::f16 ? 0x1p-11
                                                  : 0x1p-8;
    const double beyond = std::abs(got - want.value) - step * std::abs(want.value);
    largest = std::max(largest, beyond / want.magnitude);
  }
  return std::ldexp(largest, 24);
}

testing::AssertionResult matmul_is_right(const MatmulCase& c, MatmulMemory* memory,
                                         const Exec& exec, double unit) {
  MatmulCall call(c, memory);
  if (const Status status = call.plan(); !status.ok()) {
    return testing::AssertionFailure() << status.message() << "\n" << to_string(c);
  }
  if (const Status status = call.run(exec); !status.ok()) {
    return testing::AssertionFailure() << status.message() << "\n" << to_string(c);
  }
  return call.check(unit);
}

}  // namespace rowscale::test
