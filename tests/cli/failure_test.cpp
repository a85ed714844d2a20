// Which exit code a Status becomes: the numbers of docs/converting.md.
#include "failure.hpp"

#include <gtest/gtest.h>

#include "rowscale/status.hpp"

namespace rowscale::cli {
namespace {

int exit_code_of(StatusCode code) {
  try {
    require({code, "what failed"});
  } catch (const Failure& failure) {
    EXPECT_STREQ(failure.what(), "what failed");
    return static_cast<int>(failure.code());
  }
  return 0;
}

TEST(Failure, ExitCodes) {
  EXPECT_EQ(exit_code_of(StatusCode::ok), 0);
  EXPECT_EQ(exit_code_of(StatusCode::invalid_argument), 2);
  EXPECT_EQ(exit_code_of(StatusCode::unsupported), 5);
  EXPECT_EQ(exit_code_of(StatusCode::no_device), 5);
  // A launch that fails is no missing GPU: whoever skips on 5 must see it.
  EXPECT_EQ(exit_code_of(StatusCode::device_error), 70);
  EXPECT_EQ(exit_code_of(StatusCode::internal), 70);
}

}  // namespace
}  // namespace rowscale::cli
