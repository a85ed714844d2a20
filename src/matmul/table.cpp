// The rules, first match first. The crossovers are measurements on an H200: `rowscale bench matmul
// --device cuda --m 1,8,16,...` times every backend of a shape beside the others, which shows where
// one overtakes another on another machine; bench/results/gpu-matmul.csv has those of the H200.
#include "matmul/table.hpp"

#include <cstdint>
#include <limits>

#include "cuda/devices.hpp"

namespace rowscale::product {
namespace {

constexpr int64_t kAnyM = std::numeric_limits<int64_t>::max();
constexpr int kAnyArchitecture = std::numeric_limits<int>::max();
constexpr int kBackends = 6;

constexpr Candidate kAll[] = {
    {MatmulBackend::cpu, ask_cpu},         {MatmulBackend::cublaslt, ask_cublaslt},
    {MatmulBackend::split, ask_split},     {MatmulBackend::small_m, ask_small_m},
    {MatmulBackend::general, ask_general}, {MatmulBackend::dequantize, ask_dequantize},
};

enum class Rows { dense, experts };

struct Rule {
  DeviceType device;
  int first_architecture;  // 90 is sm_90; of a GPU
  int last_architecture;
  BatchInvariance batch_invariance;
  Rows rows;
  Scaling scaling;
  int64_t most_m;
  double least_k_over_n;
  MatmulBackend order[kBackends];  // best: the end
};

using enum MatmulBackend;
constexpr auto kOff = BatchInvariance::off;
constexpr auto kOn = BatchInvariance::on;
constexpr auto kVector = Scaling::vector;
constexpr auto kBlocks = Scaling::block;
constexpr auto kGpu = DeviceType::cuda;
constexpr double kAnyDepth = 0.0;

// Where batches must not matter the order is one for all m, and none is asked whose refusals or
// sums depend on m.
constexpr Rule kRules[] = {
    {kGpu, 0, kAnyArchitecture, kOn, Rows::dense, kVector, kAnyM, kAnyDepth, {small_m, general}},
    {kGpu, 0, kAnyArchitecture, kOn, Rows::dense, kBlocks, kAnyM, kAnyDepth, {small_m, general}},
    {kGpu, 0, kAnyArchitecture, kOn, Rows::experts, kVector, kAnyM, kAnyDepth, {small_m, general}},
    {kGpu, 0, kAnyArchitecture, kOn, Rows::experts, kBlocks, kAnyM, kAnyDepth, {small_m, general}},
    {kGpu, 0, kAnyArchitecture, kOff, Rows::experts, kVector, kAnyM, kAnyDepth, {small_m, general}},
    {kGpu, 0, kAnyArchitecture, kOff, Rows::experts, kBlocks, kAnyM, kAnyDepth, {small_m, general}},
    {kGpu,
     90,
     90,
     kOff,
     Rows::dense,
     kVector,
     64,
     kAnyDepth,
     {small_m, split, cublaslt, general, dequantize}},
    // Outer vectors cost cuBLASLt most where sums are long.
    {kGpu,
     90,
     90,
     kOff,
     Rows::dense,
     kVector,
     128,
     0.6,
     {split, cublaslt, small_m, general, dequantize}},
    {kGpu,
     90,
     90,
     kOff,
     Rows::dense,
     kVector,
     256,
     1.5,
     {split, cublaslt, small_m, general, dequantize}},
    {kGpu,
     90,
     90,
     kOff,
     Rows::dense,
     kBlocks,
     64,
     kAnyDepth,
     {small_m, cublaslt, general, dequantize}},
    {kGpu,
     90,
     90,
     kOff,
     Rows::dense,
     kBlocks,
     kAnyM,
     kAnyDepth,
     {cublaslt, small_m, general, dequantize}},
    {kGpu,
     0,
     kAnyArchitecture,
     kOff,
     Rows::dense,
     kVector,
     64,
     kAnyDepth,
     {split, cublaslt, general, dequantize}},
    {kGpu,
     0,
     kAnyArchitecture,
     kOff,
     Rows::dense,
     kVector,
     kAnyM,
     kAnyDepth,
     {cublaslt, split, dequantize, general}},
    {kGpu,
     0,
     kAnyArchitecture,
     kOff,
     Rows::dense,
     kBlocks,
     kAnyM,
     kAnyDepth,
     {cublaslt, general, dequantize}},
};

bool matches(const Rule& rule, const Problem& problem, const MatmulOptions& options,
             int architecture) {
  const Rows rows = problem.grouping == Grouping::none ? Rows::dense : Rows::experts;
  return rule.device == problem.device.type && rule.first_architecture <= architecture &&
         architecture <= rule.last_architecture &&
         rule.batch_invariance == options.batch_invariance && rule.rows == rows &&
         rule.scaling == problem.scaling && problem.m <= rule.most_m &&
         static_cast<double>(problem.k) >= rule.least_k_over_n * static_cast<double>(problem.n);
}

Candidate candidate(MatmulBackend backend) {
  for (const Candidate& one : kAll) {
    if (one.backend == backend) return one;
  }
  return kAll[0];
}

}  // namespace

Status backends_for(const Problem& problem, const MatmulOptions& options,
                    std::vector<Candidate>* order) {
  cuda::DeviceFacts facts;
  if (problem.device.type == DeviceType::cuda) {
    if (Status status = cuda::find_device(problem.device.index, &facts); !status.ok()) {
      return {status.code(), "a: " + status.message()};
    }
  }
  order->clear();
  if (options.backend != MatmulBackend::best) {
    order->push_back(candidate(options.backend));
    return {};
  }
  if (problem.device.type == DeviceType::cpu) {
    order->push_back(candidate(MatmulBackend::cpu));
    return {};
  }
  for (const Rule& rule : kRules) {
    if (!matches(rule, problem, options, facts.code_version)) continue;
    order->reserve(kBackends);
    for (MatmulBackend backend : rule.order) {
      if (backend != MatmulBackend::best) order->push_back(candidate(backend));
    }
    return {};
  }
  return {};
}

}  // namespace rowscale::product
