// The general kernel of a build without CUDA.
#include "matmul/backend.hpp"

namespace rowscale::product {

Answer ask_general(const Problem& /*problem*/, const MatmulOptions& /*options*/) {
  return Answer::refused("this build has no CUDA");
}

}  // namespace rowscale::product
