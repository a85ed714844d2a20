#include "matmul_cases.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <numeric>
#include <utility>

#include "failure.hpp"
#include "random.hpp"

namespace rowscale::cli {
namespace {

struct ScalesName {
  MatmulScales scales;
  const char* name;
};

constexpr ScalesName kScales[] = {{MatmulScales::token_channel, "token-channel"},
                                  {MatmulScales::token_tensor, "token-tensor"},
                                  {MatmulScales::tensor_channel, "tensor-channel"},
                                  {MatmulScales::tensor, "tensor"},
                                  {MatmulScales::block, "block"}};

constexpr MatmulBackend kBackends[] = {MatmulBackend::cpu,     MatmulBackend::cublaslt,
                                       MatmulBackend::split,   MatmulBackend::small_m,
                                       MatmulBackend::general, MatmulBackend::dequantize};

constexpr int64_t kMostSize = int64_t{1} << 30;

Recipe recipe_of_a(const MatmulCase& c) {
  switch (c.scales) {
    case MatmulScales::token_channel:
    case MatmulScales::token_tensor:
      return per_token();
    case MatmulScales::tensor_channel:
    case MatmulScales::tensor:
      return per_tensor();
    case MatmulScales::block:
      break;
  }
  Recipe recipe = per_group(128);
  if (c.rows == ExpertRows::none) recipe.layout = ScaleLayout::column_major;
  return recipe;
}

Recipe recipe_of_b(const MatmulCase& c) {
  switch (c.scales) {
    case MatmulScales::token_channel:
    case MatmulScales::tensor_channel:
      return per_channel();
    case MatmulScales::token_tensor:
    case MatmulScales::tensor:
      return per_tensor();
    case MatmulScales::block:
      break;
  }
  Recipe recipe = per_block(128, 128);
  if (c.rows == ExpertRows::none) recipe.layout = ScaleLayout::block_k4;
  return recipe;
}

int64_t scales_of_row(const MatmulCase& c) {
  if (c.scales == MatmulScales::block) return (c.layer.k + 127) / 128;
  return recipe_of_a(c).granularity == Granularity::per_token ? 1 : 0;
}

TensorView view(DType dtype, std::initializer_list<int64_t> shape, Device device) {
  return TensorView::contiguous(static_cast<void*>(nullptr), dtype, shape, device);
}

TensorView view_of_a(const MatmulCase& c, Device device) {
  if (c.rows != ExpertRows::masked) return view(DType::e4m3, {c.m, c.layer.k}, device);
  return view(DType::e4m3, {c.layer.experts, c.m, c.layer.k}, device);
}

TensorView view_of_b(const MatmulCase& c, Device device) {
  if (c.rows == ExpertRows::none) return view(DType::e4m3, {c.layer.n, c.layer.k}, device);
  return view(DType::e4m3, {c.layer.experts, c.layer.n, c.layer.k}, device);
}

ScaleSpec spec_of(const TensorView& codes, const Recipe& recipe) {
  ScaleSpec spec;
  require(scale_spec(codes, recipe, &spec));
  return spec;
}

int64_t parse_size(const std::string& text, std::string_view digits) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || value < 1 ||
      value > kMostSize) {
    throw Failure(ExitCode::usage, "--shapes: expected n x k such as 6144x4096, got " + text);
  }
  return value;
}

}  // namespace

const char* to_string(MatmulScales scales) {
  for (const ScalesName& one : kScales) {
    if (one.scales == scales) return one.name;
  }
  return "unknown";
}

MatmulScales parse_matmul_scales(const std::string& key) {
  for (const ScalesName& one : kScales) {
    if (key == one.name) return one.scales;
  }
  throw Failure(ExitCode::usage,
                "--scales: expected some of " + matmul_scales_keys() + ", got " + key);
}

std::string matmul_scales_keys() {
  std::string keys;
  for (const ScalesName& one : kScales) keys += std::string(keys.empty() ? "" : ", ") + one.name;
  return keys;
}

const char* to_string(ExpertRows rows) {
  switch (rows) {
    case ExpertRows::none:
      return "dense";
    case ExpertRows::sorted:
      return "sorted";
    case ExpertRows::masked:
      return "masked";
  }
  return "unknown";
}

MatmulOptions MatmulCase::options(MatmulBackend backend, Tuning tuning) const {
  MatmulOptions options;
  options.a = recipe_of_a(*this);
  options.b = recipe_of_b(*this);
  options.backend = backend;
  options.accumulation = accumulation;
  options.tuning = tuning;
  return options;
}

ScaleSpec MatmulCase::scale_a() const {
  return spec_of(view_of_a(*this, {}), recipe_of_a(*this));
}

ScaleSpec MatmulCase::scale_b() const {
  return spec_of(view_of_b(*this, {}), recipe_of_b(*this));
}

MatmulTensors MatmulCase::shapes(Device device) const {
  MatmulTensors t;
  t.a = view_of_a(*this, device);
  t.b = view_of_b(*this, device);
  t.scale_a = scale_a().view(static_cast<void*>(nullptr), device);
  t.scale_b = scale_b().view(static_cast<void*>(nullptr), device);
  t.out = rows == ExpertRows::masked ? view(out, {layer.experts, m, layer.n}, device)
                                     : view(out, {m, layer.n}, device);
  return t;
}

double MatmulCase::bytes() const {
  return bytes(1, m);
}

double MatmulCase::bytes(int64_t touched, int64_t taken_rows) const {
  const auto weights = static_cast<double>(layer.n * layer.k);
  const auto copies = static_cast<double>(std::max<int64_t>(layer.experts, 1));
  const auto scales_b = static_cast<double>(scale_b().storage) * sizeof(float) / copies;
  const int64_t groups = scales_of_row(*this);
  const auto row = static_cast<double>(layer.k + layer.n * element_size(out)) +
                   static_cast<double>(groups) * sizeof(float);
  return static_cast<double>(touched) * (weights + scales_b) +
         static_cast<double>(taken_rows) * row;
}

double MatmulCase::operations() const {
  return 2.0 * static_cast<double>(m) * static_cast<double>(layer.n) * static_cast<double>(layer.k);
}

Routing route(const LinearShape& layer, int64_t tokens) {
  Random random(1);
  Routing routing;
  routing.counts.assign(static_cast<size_t>(layer.experts), 0);
  std::vector<size_t> order(routing.counts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  for (int64_t token = 0; token < tokens; ++token) {
    for (size_t i = 0; i < static_cast<size_t>(layer.top_k); ++i) {  // the start of a shuffle
      std::swap(order[i], order[i + random.next() % (order.size() - i)]);
      ++routing.counts[order[i]];
    }
  }
  routing.offsets.push_back(0);
  for (const int32_t count : routing.counts) {
    routing.offsets.push_back(routing.offsets.back() + count);
    if (count > 0) ++routing.touched;
    routing.most = std::max<int64_t>(routing.most, count);
  }
  routing.rows = routing.offsets.back();
  return routing;
}

std::vector<LinearShape> parse_matmul_shapes(const std::vector<std::string>& texts) {
  std::vector<LinearShape> shapes;
  shapes.reserve(texts.size());
  for (const std::string& text : texts) {
    const size_t cross = text.find('x');
    const std::string_view all = text;
    LinearShape shape;
    shape.n = parse_size(text, all.substr(0, std::min(cross, all.size())));
    shape.k = parse_size(text, cross < all.size() ? all.substr(cross + 1) : std::string_view());
    shapes.push_back(shape);
  }
  return shapes;
}

MatmulBackend parse_backend(const std::string& name) {
  std::string names;
  for (const MatmulBackend backend : kBackends) {
    if (name == rowscale::to_string(backend)) return backend;
    names += std::string(", ") + rowscale::to_string(backend);
  }
  throw Failure(ExitCode::usage, "--backend: expected all, best" + names + ", got " + name);
}

std::string algorithm_of(const MatmulPlan& plan) {
  const std::string all = to_string(plan);
  std::string line = all.substr(0, all.find('\n'));
  const std::string before = fmt::format(": {}: ", rowscale::to_string(plan.backend()));
  const size_t begin = line.find(before);
  if (begin == std::string::npos) return line;
  const size_t first = begin + before.size();
  return line.substr(first, line.rfind(", workspace ") - first);
}

std::string refusal_of(MatmulBackend backend, const Status& status) {
  const std::string name = std::string(": ") + rowscale::to_string(backend) + ": ";
  const size_t at = status.message().find(name);
  return at == std::string::npos ? status.message() : status.message().substr(at + name.size());
}

PlannedCase plan_case(const MatmulCase& c, const std::vector<MatmulBackend>& backends,
                      Tuning tuning, Device device) {
  MatmulTensors shapes = c.shapes(device);
  static constexpr int32_t kThere = 0;  // whether there are counts is all that is looked at
  if (c.rows == ExpertRows::masked) shapes.a = shapes.a.with_row_counts(&kThere);
  if (c.rows == ExpertRows::sorted) {
    shapes.expert_offsets = view(DType::i32, {c.layer.experts + 1}, device);
  }
  PlannedCase out;
  const auto add = [&](MatmulBackend backend, Tuning how) {
    PlannedMatmul one;
    one.tuning = how;
    const Status status = MatmulPlan::make(shapes, c.options(backend, how), &one.plan);
    if (status.code() == StatusCode::unsupported) {
      out.refusals.push_back({backend, refusal_of(backend, status)});
      return;
    }
    require(status);
    one.algorithm = algorithm_of(one.plan);
    one.is_chosen = backend == MatmulBackend::best && how == Tuning::off;
    one.is_tuned_choice = how == Tuning::measured;
    const auto same = [&](const PlannedMatmul& other) {
      return other.plan.backend() == one.plan.backend() && other.algorithm == one.algorithm;
    };
    const auto known = std::find_if(out.plans.begin(), out.plans.end(), same);
    if (known == out.plans.end()) {
      out.plans.push_back(std::move(one));
    } else {
      known->is_chosen = known->is_chosen || one.is_chosen;
      known->is_tuned_choice = known->is_tuned_choice || one.is_tuned_choice;
    }
  };
  for (const MatmulBackend backend : backends) {
    add(backend, Tuning::off);
    if (backend == MatmulBackend::best && tuning == Tuning::measured) add(backend, tuning);
  }
  return out;
}

void fill_codes(const Buffer& codes) {
  const Buffer floats(codes.bytes() * element_size(DType::bf16));
  fill(floats, DType::bf16, Pattern::normal);
  const auto flat = [&](const Buffer& buffer, DType dtype) {
    return TensorView::contiguous(buffer.data(), dtype, {1, codes.bytes()});
  };
  float scale = 0;
  require(quantize(flat(floats, DType::bf16), per_tensor(), flat(codes, DType::e4m3),
                   TensorView::contiguous(&scale, DType::f32, {1})));
}

void fill_scales(const Buffer& scales) {
  Random random(2);
  constexpr auto kSize = static_cast<int64_t>(sizeof(float));
  for (int64_t at = 0; at + kSize <= scales.bytes(); at += kSize) {
    const auto scale = static_cast<float>((0.5 + random.uniform()) * 0x1p-6);
    std::memcpy(scales.data() + at, &scale, sizeof scale);
  }
}

}  // namespace rowscale::cli
