// rowscale's kernel for few rows of A as a way to a product.
#include "cuda/matmul/small_m.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>

#include "cuda/call_parts.hpp"
#include "cuda/context.hpp"
#include "cuda/devices.hpp"
#include "cuda/matmul/tensor_map.hpp"
#include "matmul/backend.hpp"

namespace rowscale::product {
namespace {

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

constexpr int64_t kMostColumnTiles = 65535;          // of a grid's second dimension
constexpr int64_t kMostRowTiles = int64_t{1} << 27;  // with eight blocks each, of its first
constexpr int64_t kMostStride = int64_t{1} << 40;    // bytes, of a tensor map
constexpr int64_t kMostPosition = 1 << 30;  // of a row or column, with room for a tile behind it

// The shape of the work: all of it but the tokens of a tile depends on n and k alone.
struct Shape {
  cuda::SmallMKey key;
  int split = 1;
  int stages = 0;
};

// Rows of a that a tile of tokens should have room for. Among experts rows are rarely spread
// evenly: twice their share; where only the room for rows is known, a middle size.
int tokens_of(const Problem& problem) {
  int64_t rows = problem.m;
  if (problem.grouping == Grouping::sorted) {
    rows = 2 * ceil_div(problem.m, std::max<int64_t>(problem.experts, 1));
  }
  if (problem.grouping == Grouping::masked) rows = std::min<int64_t>(problem.m, 32);
  for (int tokens : {8, 16, 32}) {
    if (rows <= tokens) return tokens;
  }
  return 64;
}

// Measured on an H200 (docs/performance.md): tiles of 128 weights save the second read of the
// tokens where there are enough of them for every multiprocessor; else k is split until there is a
// block for every multiprocessor, or its parts are two stages short.
Shape shape_of(const Problem& problem, int multiprocessors) {
  Shape shape;
  shape.key.scaling = problem.scaling;
  shape.key.weights = problem.b.dtype;
  shape.key.a = problem.a.dtype;
  shape.key.tokens = tokens_of(problem);
  const int64_t many = int64_t{3} * multiprocessors / 2;
  const int64_t copies = problem.grouping == Grouping::none ? 1 : problem.experts;
  shape.key.rows = ceil_div(problem.n, 128) * copies >= many ? 128 : 64;
  const int64_t tiles = ceil_div(problem.n, shape.key.rows) * copies;
  const int64_t k_blocks = ceil_div(problem.k, cuda::kSmallMBlockK);
  while (shape.split < 8 && tiles * shape.split * 10 < multiprocessors * int64_t{7} &&
         k_blocks >= int64_t{4} * shape.split) {
    shape.split *= 2;
  }
  // Half of a multiprocessor's shared memory, so that a second block can begin while the first one
  // ends; or most of it where there is no second block and tokens take their share.
  const bool is_alone = tiles * shape.split <= multiprocessors && shape.key.tokens > 16;
  // Tall tiles of few tokens are many: three at once were faster than two with more stages.
  const int at_once = is_alone ? 1 : shape.key.rows == 128 && shape.key.tokens <= 16 ? 3 : 2;
  const int budget = cuda::kSmallMMostShared / at_once;
  const cuda::SmallMKernel& kernel = cuda::small_m_kernel_of(shape.key);
  const int step = kernel.depth_groups;
  shape.stages = step;
  for (int stages = step; stages <= cuda::kSmallMMostStages && stages < k_blocks + step;
       stages += step) {
    if (kernel.shared_bytes(stages) <= budget) shape.stages = stages;
  }
  return shape;
}

// `alignment` is that of every row, so that strides count for themselves where there are no rows to
// show it.
std::string refusal_of_operand(const char* name, const Operand& operand, int64_t rows,
                               int64_t batches) {
  const auto is_odd = [](int64_t stride) {
    return stride % 16 != 0 || stride < 16 || stride >= kMostStride;
  };
  const bool has_odd_rows = rows > 1 && is_odd(operand.row_stride);
  const bool has_odd_batches = batches > 1 && is_odd(operand.batch_stride);
  if (operand.alignment < 16 || has_odd_rows || has_odd_batches) {
    return fmt::format(
        "{}: rows at positive multiples of 16 bytes, got strides [{}, {}] and an alignment "
        "of {}",
        name, operand.batch_stride, operand.row_stride, operand.alignment);
  }
  return {};
}

std::string refusal_of_scale(const char* name, const Recipe& recipe, int64_t alignment) {
  if (recipe.encoding != ScaleEncoding::f32 && recipe.encoding != ScaleEncoding::ue8m0_f32) {
    return fmt::format("{}: f32 or ue8m0_f32 scales", name);
  }
  if (alignment < 4) return fmt::format("{}: aligned to 4 bytes, got {}", name, alignment);
  return {};
}

std::string refusal_of_values(const char* name, DType dtype, int64_t alignment) {
  const int64_t size = element_size(dtype);
  if (alignment >= size) return {};
  return fmt::format("{}: aligned to {} bytes, got {}", name, size, alignment);
}

int64_t batches_of_a(const Problem& problem) {
  return problem.grouping == Grouping::masked ? problem.experts : 1;
}

std::string refusal(const Problem& problem, const MatmulOptions& options) {
  // What is refused for one number of rows is refused for every other one.
  const bool is_for_all_m = options.batch_invariance == BatchInvariance::on;
  const int64_t rows = is_for_all_m ? std::max<int64_t>(problem.m, 2) : problem.m;
  if (problem.k == 0) return "k: at least 1, got 0";
  for (std::string why :
       {refusal_of_operand("a", problem.a, rows, batches_of_a(problem)),
        refusal_of_operand("b", problem.b, problem.n, problem.experts),
        refusal_of_scale("scale_a", problem.recipe_a, problem.scale_a_alignment),
        refusal_of_scale("scale_b", problem.recipe_b, problem.scale_b_alignment),
        refusal_of_values("out", problem.out.dtype, problem.out.alignment),
        problem.has_bias ? refusal_of_values("bias", problem.bias, problem.bias_alignment)
                         : std::string()}) {
    if (!why.empty()) return why;
  }
  for (const auto& [name, value] :
       {std::pair{"m", problem.m}, std::pair{"n", problem.n}, std::pair{"k", problem.k}}) {
    if (value > kMostPosition)
      return fmt::format("{}: at most {}, got {}", name, kMostPosition, value);
  }
  return {};
}

int64_t row_tiles_of(const Problem& problem, int tokens) {
  if (problem.grouping == Grouping::none) return ceil_div(problem.m, tokens);
  cuda::ExpertRows rows;
  static constexpr int32_t kThere = 0;
  (problem.grouping == Grouping::masked ? rows.counts : rows.offsets) = &kThere;
  rows.experts = problem.experts;
  rows.rows = problem.m;
  return cuda::most_tiles(rows, tokens);
}

class SmallMWay final : public Way {
 public:
  SmallMWay(const Problem& problem, const Shape& shape, int64_t row_tiles)
      : problem_(problem), shape_(shape), row_tiles_(row_tiles) {}

  [[nodiscard]] std::string text() const override {
    return fmt::format("tiles of {} x {}, k in {}, {} stages", shape_.key.rows, shape_.key.tokens,
                       shape_.split, shape_.stages);
  }

  [[nodiscard]] Status run(const MatmulTensors& tensors, const Exec& exec) const override {
    const int index = problem_.device.index;
    CUtensorMap weights;
    CUtensorMap tokens;
    if (Status s = cuda::make_tensor_map({tensors.b.data, problem_.k, problem_.n, problem_.experts,
                                          problem_.b.row_stride, problem_.b.batch_stride},
                                         shape_.key.rows, &weights);
        !s.ok()) {
      return s;
    }
    if (Status s =
            cuda::make_tensor_map({tensors.a.data, problem_.k, problem_.m, batches_of_a(problem_),
                                   problem_.a.row_stride, problem_.a.batch_stride},
                                  shape_.key.tokens, &tokens);
        !s.ok()) {
      return s;
    }
    const cuda::SmallMCall call = call_of(tensors);
    cuda::SmallMLaunch launch;
    launch.row_tiles = row_tiles_;
    launch.column_tiles = ceil_div(problem_.n, shape_.key.rows);
    launch.stream = static_cast<cudaStream_t>(exec.stream);
    launch.dependent = exec.dependent_launch;
    const cuda::ScopedDevice device(index);
    if (!device.status().ok()) return device.status();
    return cuda::status_of(
        cuda::small_m_kernel_of(shape_.key).launch(weights, tokens, call, launch),
        "the small_m kernel");
  }

 private:
  [[nodiscard]] cuda::SmallMCall call_of(const MatmulTensors& tensors) const {
    const int64_t k_blocks = ceil_div(problem_.k, cuda::kSmallMBlockK);
    cuda::SmallMCall call;
    call.n = problem_.n;
    call.m = problem_.m;
    call.grouping = problem_.grouping;
    call.experts.experts = problem_.experts;
    call.experts.rows = problem_.m;
    call.experts.counts = tensors.a.row_counts;
    call.experts.offsets = static_cast<const int32_t*>(tensors.expert_offsets.data);
    call.split = shape_.split;
    call.stages = shape_.stages;
    call.rank_blocks = static_cast<int32_t>(k_blocks / shape_.split);
    call.extra_blocks = static_cast<int32_t>(k_blocks % shape_.split);
    call.scale_a = {static_cast<const float*>(tensors.scale_a.data), problem_.scale_a};
    call.scale_b = {static_cast<const float*>(tensors.scale_b.data), problem_.scale_b};
    if (problem_.has_bias) {
      call.bias = tensors.bias.data;
      call.bias_dtype = problem_.bias;
    }
    call.out_dtype = problem_.out.dtype;
    call.out = tensors.out.data;
    call.out_row_stride = problem_.out.row_stride;
    call.out_batch_stride = problem_.out.batch_stride;
    return call;
  }

  Problem problem_;
  Shape shape_;
  int64_t row_tiles_;
};

}  // namespace

Answer ask_small_m(const Problem& problem, const MatmulOptions& options) {
  if (problem.device.type != DeviceType::cuda) return Answer::refused("tensors: on a CUDA device");
  cuda::DeviceFacts facts;
  if (Status s = cuda::find_device(problem.device.index, &facts); !s.ok()) {
    return Answer::refused(s.message());
  }
  if (facts.code_version != 90) {
    return Answer::refused(fmt::format("architecture: sm_90, got sm_{}", facts.code_version));
  }
  if (std::string why = refusal(problem, options); !why.empty())
    return Answer::refused(std::move(why));
  const Shape shape = shape_of(problem, facts.multiprocessors);
  const int64_t row_tiles = row_tiles_of(problem, shape.key.tokens);
  if (row_tiles > kMostRowTiles || ceil_div(problem.n, shape.key.rows) > kMostColumnTiles) {
    return Answer::refused(fmt::format("tiles of {} x {}: at most {} x {}", shape.key.rows,
                                       shape.key.tokens, kMostColumnTiles, kMostRowTiles));
  }
  const cuda::ScopedDevice device(problem.device.index);
  Status status = device.status();
  if (status.ok()) {
    status = cuda::status_of(cuda::small_m_kernel_of(shape.key).prepare(), "the small_m kernel");
  }
  if (!status.ok()) return Answer::refused(status.message());
  return Answer::one(std::make_shared<SmallMWay>(problem, shape, row_tiles));
}

}  // namespace rowscale::product
