// How a limit of memory is divided, and what is said where it is too small.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "checkpoint/compare.hpp"
#include "checkpoint/convert.hpp"
#include "checkpoint/memory_budget.hpp"
#include "tests/checkpoint/plan_fixture.hpp"

namespace rowscale::checkpoint {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

class Budget : public test::Plans {
 protected:
  void SetUp() override {
    plan_of({test::bf16_tensor("b.weight", {128, 128}, 1)}, Scheme::fp8_dynamic);
  }

  template <class Call>
  static void expect_message(const Call& call, const std::string& message) {
    try {
      call();
      ADD_FAILURE() << "was not refused";
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.kind(), FailureKind::usage);
      EXPECT_EQ(failure.what(), message);
    }
  }
};

TEST_F(Budget, TheLeastIsEnoughAndLessIsNot) {
  const int64_t least = make_budget(*model_, plan_, 1, 512 * kMiB).least_bytes;
  EXPECT_EQ(least % kMiB, 0);
  constexpr int64_t kReadable = 64 << 10;  // elements of a strip, below which reading gets slow
  const MemoryBudget enough = make_budget(*model_, plan_, 8, least);
  EXPECT_LT(enough.workers, 8);  // fewer before strips that are too small
  EXPECT_GE(enough.strip_elements, kReadable);
  EXPECT_LT(make_budget(*model_, plan_, 8, least - kMiB).strip_elements, kReadable);
}

TEST_F(Budget, AConversionNamesItsOption) {
  ConvertRequest request;
  request.out = folder_.path() + "-out";
  request.max_memory = 100;
  expect_message([&] { check_target(*model_, plan_, request); },
                 "--max-memory: expected at least 44 MiB for the 1 tensors of this model, got 100 "
                 "bytes");
  request.max_memory = 43 * kMiB;
  expect_message([&] { check_target(*model_, plan_, request); },
                 "--max-memory: expected at least 44 MiB for the 1 tensors of this model, got 43 "
                 "MiB");
  request.max_memory = 44 * kMiB;
  check_target(*model_, plan_, request);
}

// verify has no option for it.
TEST_F(Budget, AComparisonNamesTheSource) {
  Model result = Model::open(folder_.path());
  expect_message([&] { compare(&result, model_.get(), plan_, 1, 43 * kMiB); },
                 "--against: the 1 tensors of " + folder_.path() +
                     " need 44 MiB to be compared, verify takes 43 MiB at most");
}

}  // namespace
}  // namespace rowscale::checkpoint
