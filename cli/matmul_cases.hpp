// What `bench matmul` times: products as values, the same on every device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench_data.hpp"
#include "model_shapes.hpp"
#include "rowscale/rowscale.hpp"

namespace rowscale::cli {

// Pairs of scales, of A and of B. Blocks lie as cuBLASLt reads them, so that no backend has to lay
// them out anew: 1x128 column-major, 128x128 block_k4; those of experts lie row-major.
enum class MatmulScales { token_channel, token_tensor, tensor_channel, tensor, block };

const char* to_string(MatmulScales scales);                // "token-channel"
MatmulScales parse_matmul_scales(const std::string& key);  // throws Failure(usage)
std::string matmul_scales_keys();

// Which rows of A belong to which weights.
enum class ExpertRows { none, sorted, masked };
const char* to_string(ExpertRows rows);  // "dense", "sorted", "masked"

struct MatmulCase {
  LinearShape layer;
  int64_t m = 0;       // rows of A; of one expert where they are masked
  int64_t tokens = 0;  // that were sent to experts
  ExpertRows rows = ExpertRows::none;
  MatmulScales scales = MatmulScales::token_channel;
  DType out = DType::bf16;
  Accumulation accumulation = Accumulation::precise;

  [[nodiscard]] MatmulOptions options(MatmulBackend backend, Tuning tuning) const;
  // Views of nothing: null data.
  [[nodiscard]] MatmulTensors shapes(Device device) const;
  [[nodiscard]] ScaleSpec scale_a() const;
  [[nodiscard]] ScaleSpec scale_b() const;
  // Bytes that have to come from memory or go there: A, B, their scales and D, each once. Of
  // experts: `touched` of the weights, and `rows` of A and D.
  [[nodiscard]] double bytes() const;
  [[nodiscard]] double bytes(int64_t touched, int64_t rows) const;
  [[nodiscard]] double operations() const;  // 2 m n k; of sorted rows, too
};

// Experts of tokens * top_k rows, chosen at random, no expert twice for a token. The same on every
// machine.
struct Routing {
  std::vector<int32_t> counts;   // rows of each expert
  std::vector<int32_t> offsets;  // [experts + 1]
  int64_t rows = 0;
  int64_t touched = 0;  // experts that have rows
  int64_t most = 0;     // rows of one expert
};

Routing route(const LinearShape& layer, int64_t tokens);

// "6144x4096,28672x4096"; throws Failure(usage).
std::vector<LinearShape> parse_matmul_shapes(const std::vector<std::string>& texts);

// Throws Failure(usage); "all" and "best" are the caller's.
MatmulBackend parse_backend(const std::string& name);

// Of a plan's text: what its backend runs, without the problem and the workspace.
std::string algorithm_of(const MatmulPlan& plan);
// Of an answer that says unsupported: the backend's reason alone.
std::string refusal_of(MatmulBackend backend, const Status& status);

// What a plan is made of, and how it came to be.
struct PlannedMatmul {
  MatmulPlan plan;
  std::string algorithm;
  Tuning tuning = Tuning::off;
  bool is_chosen = false;        // the table's choice
  bool is_tuned_choice = false;  // that of tuning, where it was asked for
};

struct BackendRefusal {
  MatmulBackend backend = MatmulBackend::best;
  std::string why;
};

struct PlannedCase {
  std::vector<PlannedMatmul> plans;
  std::vector<BackendRefusal> refusals;
};

// A plan for each of the backends that serves the case. `best` marks the plan that is the table's
// choice and, where `tuning` is measured, the one that tuning takes; both are added where no plan
// equals them.
PlannedCase plan_case(const MatmulCase& c, const std::vector<MatmulBackend>& backends,
                      Tuning tuning, Device device);

// Bytes of e4m3 codes: a normal sample quantized per tensor, as long as `codes`.
void fill_codes(const Buffer& codes);
// Floats about 2^-6.
void fill_scales(const Buffer& scales);

}  // namespace rowscale::cli
