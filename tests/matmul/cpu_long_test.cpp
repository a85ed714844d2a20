// The cases of the pairwise sample that are too large for cpu_test.cpp.
#include <gtest/gtest.h>

#include "tests/support/matmul_cases.hpp"
#include "tests/support/matmul_sweep.hpp"

namespace rowscale::test {
namespace {

TEST(MatmulCpuLong, PairwiseSample) {
  Exec exec;
  exec.threads = 0;
  for (const MatmulCase& c : pairwise_matmul_cases()) {
    const std::unique_ptr<MatmulMemory> memory = host_memory();
    ASSERT_TRUE(matmul_is_right(c, memory.get(), exec));
  }
}

}  // namespace
}  // namespace rowscale::test
