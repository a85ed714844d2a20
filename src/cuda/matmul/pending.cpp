// Backends that have no definition yet; each goes where its file comes.
#include "matmul/backend.hpp"

namespace rowscale::product {

Answer ask_small_m(const Problem& /*problem*/, const MatmulOptions& /*options*/) {
  return Answer::refused("this build has no such kernel");
}

Answer ask_general(const Problem& /*problem*/, const MatmulOptions& /*options*/) {
  return Answer::refused("this build has no such kernel");
}

}  // namespace rowscale::product
