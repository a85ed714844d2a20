// Which backend serves which product, in which order they are asked.
#pragma once

#include <vector>

#include "matmul/backend.hpp"
#include "matmul/problem.hpp"
#include "rowscale/matmul.hpp"
#include "rowscale/status.hpp"

namespace rowscale::product {

struct Candidate {
  MatmulBackend backend;
  Ask ask;
};

// The backends to ask, best first; the forced one alone where options force one. Fails as
// cuda::find_device does for a device that is not there.
Status backends_for(const Problem& problem, const MatmulOptions& options,
                    std::vector<Candidate>* order);

}  // namespace rowscale::product
