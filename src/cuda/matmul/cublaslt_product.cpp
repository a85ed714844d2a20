#include "cuda/matmul/cublaslt_product.hpp"

#include <fmt/format.h>

#include <cstdint>

#include "cuda/context.hpp"

namespace rowscale::cuda {
namespace {

// What NVIDIA recommends for sm_90.
constexpr size_t kMostWorkspace = size_t{32} << 20;
constexpr int kMeasuredCandidates = 8;
constexpr int kAsked = 16;  // of the heuristic where some answers may not do
// The m for which the heuristic is asked where the algorithm may not depend on m.
constexpr int64_t kCanonicalM = 256;

cudaDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::e4m3:
      return CUDA_R_8F_E4M3;
    case DType::e5m2:
      return CUDA_R_8F_E5M2;
    case DType::f16:
      return CUDA_R_16F;
    case DType::bf16:
      return CUDA_R_16BF;
    default:
      return CUDA_R_32F;
  }
}

// With block scales and with 16-bit operands sums are kept in fp32 anyway.
bool is_fast(const LtProblem& problem) {
  return problem.accumulation == Accumulation::fast && problem.scales != LtScales::blocks &&
         element_size(problem.a.dtype) == 1;
}

// Collects the first failure of several calls.
class Steps {
 public:
  explicit Steps(const CublasLt& library) : library_(library) {}
  void add(cublasStatus_t status, const char* what) {
    if (status_ != CUBLAS_STATUS_SUCCESS || status == CUBLAS_STATUS_SUCCESS) return;
    status_ = status;
    what_ = what;
  }
  [[nodiscard]] Status status() const { return status_of(library_, status_, what_); }

 private:
  const CublasLt& library_;
  cublasStatus_t status_ = CUBLAS_STATUS_SUCCESS;
  const char* what_ = "";
};

// The description of a product, on the caller's stack: it holds the scales' addresses.
class Description {
 public:
  Description(const CublasLt& library, const LtProblem& problem, const LtPointers& pointers)
      : library_(library), steps_(library) {
    steps_.add(library.init_product(&opaque_, sizeof opaque_, CUBLAS_COMPUTE_32F, CUDA_R_32F),
               "cublasLtMatmulDescInit");
    set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
    set(CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N);
    if (is_fast(problem)) set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, int8_t{1});
    if (problem.scales != LtScales::none) {
      set_modes(problem.scales);
      set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, pointers.scale_b);
      set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, pointers.scale_a);
    }
    if (problem.bias) {
      set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
      set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<int32_t>(data_type(*problem.bias)));
      set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, pointers.bias);
    }
  }
  [[nodiscard]] Status status() const { return steps_.status(); }
  cublasLtMatmulDesc_t get() { return &opaque_; }

 private:
  void set_modes(LtScales scales) {
    int32_t a = CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
    int32_t b = a;
    if (scales == LtScales::vectors) {
      a = b = CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
    } else if (scales == LtScales::blocks) {
      a = CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
      b = CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F;
    }
    set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, a);
    set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, b);
  }
  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    steps_.add(
        library_.set_product(&opaque_, attribute, static_cast<const void*>(&value), sizeof value),
        "cublasLtMatmulDescSetAttribute");
  }

  const CublasLt& library_;
  Steps steps_;
  cublasLtMatmulDescOpaque_t opaque_ = {};
};

// The library reads layouts alone.
cublasLtMatrixLayout_t mutable_layout(const cublasLtMatrixLayoutOpaque_t& layout) {
  return const_cast<cublasLtMatrixLayout_t>(&layout);
}

// 2-byte attributes are T = uint16_t. -1: not known to the library.
template <class T>
int64_t config(const LtProduct& product, cublasLtMatmulAlgoConfigAttributes_t attribute) {
  T value = 0;
  size_t written = 0;
  const cublasStatus_t status = product.library->get_config(&product.algorithm.algo, attribute,
                                                            &value, sizeof value, &written);
  return status == CUBLAS_STATUS_SUCCESS ? int64_t{value} : -1;
}

Status fill_layouts(LtProduct* product) {
  const LtProblem& p = product->problem;
  Steps steps(*product->library);
  const auto init = [&](cublasLtMatrixLayoutOpaque_t* layout, const LtMatrix& matrix,
                        int64_t columns, int64_t rows) {
    steps.add(product->library->init_layout(layout, sizeof *layout, data_type(matrix.dtype),
                                            static_cast<uint64_t>(columns),
                                            static_cast<uint64_t>(rows), matrix.row_stride),
              "cublasLtMatrixLayoutInit");
  };
  init(&product->a, p.a, p.k, p.m);
  init(&product->b, p.b, p.k, p.n);
  init(&product->out, p.out, p.n, p.m);
  return steps.status();
}

// Stands for scales and a bias: the heuristic reads how an address is aligned.
LtPointers placeholders() {
  alignas(256) static const float aligned = 0.0F;
  LtPointers pointers;
  pointers.scale_a = pointers.scale_b = pointers.bias = &aligned;
  return pointers;
}

Status ask(const LtProduct& product, int most,
           std::vector<cublasLtMatmulHeuristicResult_t>* results) {
  const CublasLt& library = *product.library;
  const LtProblem& p = product.problem;
  Steps steps(library);
  cublasLtMatmulPreferenceOpaque_t preference = {};
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    steps.add(library.set_preference(&preference, attribute, &value, sizeof value),
              "cublasLtMatmulPreferenceSetAttribute");
  };
  const auto bytes = [](const LtMatrix& matrix) { return static_cast<uint32_t>(matrix.alignment); };
  steps.add(library.init_preference(&preference, sizeof preference),
            "cublasLtMatmulPreferenceInit");
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMostWorkspace);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, bytes(p.b));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, bytes(p.a));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, bytes(p.out));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, bytes(p.out));
  if (Status status = steps.status(); !status.ok()) return status;
  Description description(library, p, placeholders());
  if (Status status = description.status(); !status.ok()) return status;
  results->resize(static_cast<size_t>(most));
  int count = 0;
  const cublasStatus_t status = library.find_algorithms(
      product.handle, description.get(), mutable_layout(product.b), mutable_layout(product.a),
      mutable_layout(product.out), mutable_layout(product.out), &preference, most, results->data(),
      &count);
  results->resize(status == CUBLAS_STATUS_SUCCESS ? static_cast<size_t>(count) : 0);
  std::erase_if(*results, [](const auto& r) { return r.state != CUBLAS_STATUS_SUCCESS; });
  return status_of(library, status, "cublasLtMatmulAlgoGetHeuristic");
}

// Whether the product's algorithm takes its problem, and what workspace it then needs.
bool check_algorithm(LtProduct* product) {
  Description description(*product->library, product->problem, placeholders());
  cublasLtMatmulHeuristicResult_t result = {};
  const cublasStatus_t status = product->library->check_algorithm(
      product->handle, description.get(), mutable_layout(product->b), mutable_layout(product->a),
      mutable_layout(product->out), mutable_layout(product->out), &product->algorithm.algo,
      &result);
  product->algorithm.workspaceSize = result.workspaceSize;
  return status == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= kMostWorkspace;
}

// Of those that do not split k, the heuristic's first for a fixed m, if it takes the product's m:
// where it does not, no other may take its place.
Status find_for_all_m(LtProduct* product, std::string* refusal) {
  LtProduct canonical = *product;
  canonical.problem.m = kCanonicalM;
  if (Status status = fill_layouts(&canonical); !status.ok()) return status;
  std::vector<cublasLtMatmulHeuristicResult_t> results;
  if (Status status = ask(canonical, kAsked, &results); !status.ok()) return status;
  *refusal = "batch_invariance: cuBLASLt has no algorithm without a split of k";
  for (const cublasLtMatmulHeuristicResult_t& result : results) {
    product->algorithm = result;
    if (config<int32_t>(*product, CUBLASLT_ALGO_CONFIG_SPLITK_NUM) > 1) continue;
    if (check_algorithm(product)) {
      refusal->clear();
    } else {
      *refusal = fmt::format("batch_invariance: the algorithm for all m does not take m = {}",
                             product->problem.m);
    }
    break;
  }
  return {};
}

}  // namespace

LtAnswer find_products(const LtProblem& problem, int most) {
  LtAnswer answer;
  LtProduct product;
  product.problem = problem;
  product.library = cublaslt(&answer.refusal);
  if (product.library == nullptr) return answer;
  const auto find = [&]() -> Status {
    const ScopedDevice device(problem.device);
    if (!device.status().ok()) return device.status();
    if (Status status = cublaslt_handle(*product.library, problem.device, &product.handle);
        !status.ok()) {
      return status;
    }
    if (Status status = fill_layouts(&product); !status.ok()) return status;
    if (problem.batch_invariance == BatchInvariance::on) {
      if (Status status = find_for_all_m(&product, &answer.refusal); !status.ok()) return status;
      if (answer.refusal.empty()) answer.products.push_back(product);
      return {};
    }
    std::vector<cublasLtMatmulHeuristicResult_t> results;
    if (Status status = ask(product, most, &results); !status.ok()) return status;
    answer.products.reserve(results.size());
    for (const cublasLtMatmulHeuristicResult_t& result : results) {
      answer.products.push_back(product);
      answer.products.back().algorithm = result;
    }
    if (results.empty()) answer.refusal = "cublasLtMatmulAlgoGetHeuristic: no algorithm";
    return {};
  };
  if (Status status = find(); !status.ok()) answer.refusal = status.message();
  return answer;
}

int candidates_of(const MatmulOptions& options) {
  return options.tuning == Tuning::measured ? kMeasuredCandidates : 1;
}

std::string LtProduct::text() const {
  return fmt::format(
      "{}, algorithm {} tile {} stages {} split-k {} reduction {} swizzle {} custom {} inner {} "
      "cluster {}{}",
      to_string(*library), config<int32_t>(*this, CUBLASLT_ALGO_CONFIG_ID),
      config<uint32_t>(*this, CUBLASLT_ALGO_CONFIG_TILE_ID),
      config<uint32_t>(*this, CUBLASLT_ALGO_CONFIG_STAGES_ID),
      config<int32_t>(*this, CUBLASLT_ALGO_CONFIG_SPLITK_NUM),
      config<uint32_t>(*this, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME),
      config<uint32_t>(*this, CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING),
      config<uint32_t>(*this, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION),
      config<uint16_t>(*this, CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID),
      config<uint16_t>(*this, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID),
      is_fast(problem) ? " fast accumulation" : "");
}

Status LtProduct::run(const LtPointers& pointers, void* workspace, cudaStream_t stream) const {
  Description description(*library, problem, pointers);
  if (Status status = description.status(); !status.ok()) return status;
  const float one = 1.0F;
  const float zero = 0.0F;
  const cublasStatus_t status = library->matmul(
      handle, description.get(), &one, pointers.b, mutable_layout(b), pointers.a, mutable_layout(a),
      &zero, pointers.out, mutable_layout(out), pointers.out, mutable_layout(out), &algorithm.algo,
      workspace, algorithm.workspaceSize, stream);
  return status_of(*library, status, "cublasLtMatmul");
}

}  // namespace rowscale::cuda
