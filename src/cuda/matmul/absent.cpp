// The GPU's ways to a product in a build without CUDA.
#include "matmul/backend.hpp"
#include "matmul/tune.hpp"

namespace rowscale::product {
namespace {

Answer absent() {
  return Answer::refused("this build has no CUDA");
}

}  // namespace

Answer ask_cublaslt(const Problem& /*problem*/, const MatmulOptions& /*options*/) {
  return absent();
}

Answer ask_split(const Problem& /*problem*/, const MatmulOptions& /*options*/) {
  return absent();
}

Answer ask_small_m(const Problem& /*problem*/, const MatmulOptions& /*options*/) {
  return absent();
}

Answer ask_general(const Problem& /*problem*/, const MatmulOptions& /*options*/) {
  return absent();
}

Answer ask_dequantize(const Problem& /*problem*/, const MatmulOptions& /*options*/) {
  return absent();
}

std::shared_ptr<const Way> fastest(const Problem& /*problem*/, const MatmulOptions& /*options*/,
                                   const std::vector<std::shared_ptr<const Way>>& ways,
                                   Status* status) {
  *status = {};
  return ways.front();
}

}  // namespace rowscale::product
