// The backend that has no definition yet.
#include "matmul/backend.hpp"

namespace rowscale::product {

Answer ask_general(const Problem& /*problem*/, const MatmulOptions& /*options*/) {
  return Answer::refused("this build has no such kernel");
}

}  // namespace rowscale::product
