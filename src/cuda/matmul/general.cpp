// Every product of CUDA tensors, by rowscale's own kernel.
#include "cuda/matmul/general.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>

#include "cuda/call_parts.hpp"
#include "cuda/context.hpp"
#include "cuda/devices.hpp"
#include "matmul/backend.hpp"

namespace rowscale::product {
namespace {

using cuda::CodeLoads;
using cuda::GeneralCall;
using cuda::GeneralKernel;
using cuda::GeneralKey;
using cuda::GeneralTile;
using cuda::OutStores;

// The instructions of the kernel: mma.sync of 16 x 8 x 16 fp16 and cp.async.
constexpr int kFirstArchitecture = 80;
constexpr int64_t kPieceBytes = 16;

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// Rows that one weight matrix is expected to meet.
int64_t expected_rows(const Problem& problem) {
  if (problem.grouping != Grouping::sorted) return problem.m;
  return ceil_div(problem.m, std::max<int64_t>(problem.experts, 1));
}

// Not measured finely: the bits are the same for each.
GeneralTile tile_of(const Problem& problem, CodeLoads loads, int multiprocessors) {
  constexpr int64_t kMostFew = 32;    // four tiles that share the weights through the cache
  constexpr int64_t kLeastMany = 96;  // most of a tile of 128 rows
  const int64_t rows = expected_rows(problem);
  if (rows <= kMostFew) return GeneralTile::few;
  if (rows < kLeastMany || loads == CodeLoads::any) return GeneralTile::some;
  // Tall tiles where there are enough of them for the whole machine.
  const int64_t tiles = ceil_div(problem.m, 128) * ceil_div(problem.n, 64);
  return tiles >= multiprocessors ? GeneralTile::many : GeneralTile::some;
}

GeneralKey key_of(const Problem& problem, int multiprocessors) {
  GeneralKey key;
  key.loads = std::min(problem.a.alignment, problem.b.alignment) >= kPieceBytes ? CodeLoads::aligned
                                                                                : CodeLoads::any;
  key.tile = tile_of(problem, key.loads, multiprocessors);
  key.scaling = problem.scaling;
  key.a = problem.a.dtype;
  key.b = problem.b.dtype;
  return key;
}

cuda::ByteRows rows_of(const Operand& operand, void* data) {
  const int64_t size = element_size(operand.dtype);
  return {static_cast<std::byte*>(data), operand.row_stride * size, operand.batch_stride * size};
}

cuda::ScaleRows scales_of(const Recipe& recipe, int64_t rows, int64_t k, void* data) {
  const plan::ScaleGrid grid(recipe, rows, k);
  return {plan::ScaleView(recipe, grid, data),
          recipe.granularity == Granularity::per_tensor ? 0 : 1};
}

class GeneralWay final : public Way {
 public:
  GeneralWay(const Problem& problem, const cuda::DeviceFacts& facts)
      : problem_(problem),
        facts_(facts),
        key_(key_of(problem, facts.multiprocessors)),
        kernel_(cuda::general_kernel(key_)) {}

  [[nodiscard]] std::string text() const override {
    return fmt::format("fp16 in tiles of {} x {} x 128, rows of codes {}", kernel_.rows,
                       kernel_.columns,
                       key_.loads == CodeLoads::aligned ? "aligned to 16 bytes" : "at any address");
  }

  [[nodiscard]] Status run(const MatmulTensors& tensors, const Exec& exec) const override {
    const GeneralCall call = call_of(tensors);
    const int64_t blocks = blocks_of(call);
    if (blocks == 0) return {};
    const cuda::ScopedDevice device(problem_.device.index);
    if (!device.status().ok()) return device.status();
    const cudaError_t error = cuda::launch_kernel(
        kernel_.function, cuda::launch_of(exec, facts_, blocks, kernel_.threads), call);
    return cuda::status_of(error, "matmul: the general kernel");
  }

 private:
  [[nodiscard]] GeneralCall call_of(const MatmulTensors& tensors) const {
    GeneralCall call;
    call.m = problem_.m;
    call.n = problem_.n;
    call.k = problem_.k;
    call.grouping = problem_.grouping;
    if (problem_.grouping != Grouping::none) {
      call.experts = {static_cast<const int32_t*>(tensors.expert_offsets.data),
                      tensors.a.row_counts, problem_.experts, problem_.m};
    }
    call.a = rows_of(problem_.a, tensors.a.data);
    call.b = rows_of(problem_.b, tensors.b.data);
    call.out = rows_of(problem_.out, tensors.out.data);
    call.scale_a = scales_of(problem_.recipe_a, problem_.m, problem_.k, tensors.scale_a.data);
    call.scale_b = scales_of(problem_.recipe_b, problem_.n, problem_.k, tensors.scale_b.data);
    if (problem_.has_bias) call.bias = static_cast<const std::byte*>(tensors.bias.data);
    call.bias_dtype = problem_.bias;
    call.out_dtype = problem_.out.dtype;
    call.stores = problem_.out.alignment >= 2 * element_size(problem_.out.dtype)
                      ? OutStores::pairs
                      : OutStores::elements;
    return call;
  }

  // One a tile; of experts' tiles, whose number lies on the device, as many as run at once.
  [[nodiscard]] int64_t blocks_of(const GeneralCall& call) const {
    const int64_t columns = ceil_div(call.n, kernel_.columns);
    if (call.grouping == Grouping::none) return ceil_div(call.m, kernel_.rows) * columns;
    return std::min(most_tiles(call.experts, kernel_.rows) * columns,
                    int64_t{facts_.multiprocessors} * kernel_.resident);
  }

  Problem problem_;
  cuda::DeviceFacts facts_;
  GeneralKey key_;
  GeneralKernel kernel_;
};

}  // namespace

Answer ask_general(const Problem& problem, const MatmulOptions& /*options*/) {
  if (problem.device.type != DeviceType::cuda) {
    return Answer::refused("tensors: on a GPU, got the cpu");
  }
  cuda::DeviceFacts facts;
  if (const Status status = cuda::find_device(problem.device.index, &facts); !status.ok()) {
    return Answer::refused(status.message());
  }
  if (facts.code_version < kFirstArchitecture) {
    return Answer::refused(fmt::format("device: sm_{} or newer, got code for sm_{}",
                                       kFirstArchitecture, facts.code_version));
  }
  return Answer::one(std::make_shared<GeneralWay>(problem, facts));
}

}  // namespace rowscale::product
