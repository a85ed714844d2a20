// The CPU's products against fp64: shapes, recipes, outputs, views, experts.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rowscale/matmul.hpp"
#include "tests/support/matmul_cases.hpp"
#include "tests/support/recipes.hpp"
#include "tests/support/test_data.hpp"

namespace rowscale::test {
namespace {

constexpr DType kFloats[] = {DType::f32, DType::f16, DType::bf16};

struct Pair {
  Recipe a, b;
};

// Every pair of granularities with every encoding and layout.
std::vector<Pair> all_pairs() {
  std::vector<Pair> pairs;
  for (ScaleEncoding a : kUnpackedEncodings) {
    for (ScaleEncoding b : kUnpackedEncodings) {
      for (const Recipe& left : {per_tensor(), per_token()}) {
        for (const Recipe& right : {per_tensor(), per_channel()}) {
          pairs.push_back({with(left, a), with(right, b)});
        }
      }
    }
  }
  const std::vector<Recipe> blocks = block_recipes(128, 128);
  for (const Recipe& left : group_recipes(128)) {
    for (const Recipe& right : blocks) pairs.push_back({left, right});
  }
  return pairs;
}

class MatmulCpu : public testing::Test {
 protected:
  std::unique_ptr<MatmulMemory> memory_ = host_memory();
};

TEST_F(MatmulCpu, EveryPairOfRecipes) {
  uint64_t seed = 1;
  for (const Pair& pair : all_pairs()) {
    for (MatmulData data : {MatmulData::random, MatmulData::tags}) {
      MatmulCase c;
      c.m = 5;
      c.n = 131;
      c.k = 300;
      c.options.a = pair.a;
      c.options.b = pair.b;
      c.out = DType::f32;
      c.data = data;
      c.seed = seed++;
      ASSERT_TRUE(matmul_is_right(c, memory_.get()));
    }
  }
}

}  // namespace
}  // namespace rowscale::test
