// What `bench matmul` makes of words, what it routes to experts, and what it reads from plans.
#include "matmul_cases.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "failure.hpp"
#include "matmul_report.hpp"

namespace rowscale::cli {
namespace {

MatmulCase case_of(MatmulScales scales, int64_t m, int64_t n, int64_t k) {
  MatmulCase c;
  c.layer = {"qkv", n, k};
  c.m = m;
  c.scales = scales;
  return c;
}

TEST(MatmulCases, ShapesFromText) {
  const std::vector<LinearShape> shapes = parse_matmul_shapes({"6144x4096", "17x1"});
  ASSERT_EQ(shapes.size(), 2U);
  EXPECT_EQ(shapes[0].n, 6144);
  EXPECT_EQ(shapes[0].k, 4096);
  EXPECT_EQ(shapes[1].n, 17);
  EXPECT_EQ(shapes[1].k, 1);
  for (const char* text : {"", "x", "4096", "4096x", "x4096", "0x1", "1x-1", "1x2x3", "1 x2",
                           "1x99999999999999999999"}) {
    EXPECT_THROW(parse_matmul_shapes({text}), Failure) << text;
  }
}

TEST(MatmulCases, WordsAreReadBack) {
  for (const MatmulScales scales :
       {MatmulScales::token_channel, MatmulScales::token_tensor, MatmulScales::tensor_channel,
        MatmulScales::tensor, MatmulScales::block}) {
    EXPECT_EQ(parse_matmul_scales(to_string(scales)), scales);
  }
  EXPECT_THROW(parse_matmul_scales("row"), Failure);
  EXPECT_EQ(parse_backend("small_m"), MatmulBackend::small_m);
  EXPECT_THROW(parse_backend("cutlass"), Failure);
  EXPECT_EQ(parse_matmul_part("linear"), MatmulPart::linear);
  EXPECT_THROW(parse_matmul_part("sparse"), Failure);
}

TEST(MatmulCases, BytesOfEverythingOnce) {
  // A 2 x 256, B 384 x 256, D 2 x 384 of two bytes; scales of four bytes: 2 + 384.
  EXPECT_EQ(case_of(MatmulScales::token_channel, 2, 384, 256).bytes(),
            512 + 98304 + 1536 + 4 * (2 + 384));
  EXPECT_EQ(case_of(MatmulScales::tensor, 2, 384, 256).operations(), 2.0 * 2 * 384 * 256);
  MatmulCase experts = case_of(MatmulScales::token_channel, 6, 384, 256);
  experts.layer.experts = 8;
  experts.rows = ExpertRows::sorted;
  EXPECT_EQ(experts.bytes(3, 6), 3 * (98304 + 4 * 384) + 6 * (256 + 2 * 384 + 4));
}

TEST(MatmulCases, EveryTokenGoesToDistinctExperts) {
  const LinearShape layer{"w13", 128, 128, 16, 4};
  const Routing routing = route(layer, 1000);
  EXPECT_EQ(routing.rows, 4000);
  EXPECT_EQ(std::accumulate(routing.counts.begin(), routing.counts.end(), 0), 4000);
  EXPECT_LE(routing.most, 1000);  // no expert twice for a token
  EXPECT_EQ(routing.touched, 16);
  ASSERT_EQ(routing.offsets.size(), 17U);
  for (size_t e = 0; e < 16; ++e) {
    EXPECT_EQ(routing.offsets[e + 1] - routing.offsets[e], routing.counts[e]);
    // 250 of 1000 trials with a chance of a quarter: five deviations of 13.7.
    EXPECT_NEAR(routing.counts[e], 250, 69);
  }
  EXPECT_EQ(route(layer, 1000).counts, routing.counts);
  const Routing one = route(layer, 1);
  EXPECT_EQ(one.touched, 4);
  EXPECT_EQ(one.most, 1);
}

TEST(MatmulCases, PlansOfEveryPairAndForm) {
  for (const MatmulScales scales :
       {MatmulScales::token_channel, MatmulScales::token_tensor, MatmulScales::tensor_channel,
        MatmulScales::tensor, MatmulScales::block}) {
    for (const ExpertRows rows : {ExpertRows::none, ExpertRows::sorted, ExpertRows::masked}) {
      SCOPED_TRACE(std::string(to_string(scales)) + " " + to_string(rows));
      MatmulCase c = case_of(scales, 5, 192, 320);
      c.rows = rows;
      if (rows != ExpertRows::none) c.layer.experts = 3;
      const PlannedCase planned =
          plan_case(c, {MatmulBackend::cpu, MatmulBackend::best}, Tuning::off, {});
      ASSERT_EQ(planned.plans.size(), 1U);  // the best is the one that was forced
      EXPECT_TRUE(planned.plans[0].is_chosen);
      EXPECT_FALSE(planned.plans[0].is_tuned_choice);
      EXPECT_TRUE(planned.refusals.empty());
    }
  }
}

TEST(MatmulCases, AlgorithmAndRefusalAloneOfTheTexts) {
  const MatmulCase c = case_of(MatmulScales::token_channel, 5, 192, 320);
  const PlannedCase planned =
      plan_case(c, {MatmulBackend::cpu, MatmulBackend::cublaslt}, Tuning::off, {});
  ASSERT_EQ(planned.plans.size(), 1U);
  const std::string& algorithm = planned.plans[0].algorithm;
  const std::string whole = to_string(planned.plans[0].plan);
  EXPECT_NE(whole.find(": cpu: " + algorithm + ", workspace "), std::string::npos) << whole;
  ASSERT_EQ(planned.refusals.size(), 1U);
  EXPECT_EQ(planned.refusals[0].backend, MatmulBackend::cublaslt);
  EXPECT_FALSE(planned.refusals[0].why.empty());
  EXPECT_EQ(planned.refusals[0].why.find("cublaslt"), std::string::npos) << planned.refusals[0].why;
}

// Zeros would make a product faster than it is on real data.
TEST(MatmulCases, CodesOfNormalData) {
  const Buffer codes(1 << 16);
  fill_codes(codes);
  int64_t zeros = 0;
  int64_t negative = 0;
  for (int64_t i = 0; i < codes.bytes(); ++i) {
    const auto code = static_cast<uint8_t>(codes.data()[i]);
    ASSERT_NE(code & 0x7F, 0x7F) << "NaN at " << i;
    zeros += (code & 0x7F) == 0 ? 1 : 0;
    negative += code >> 7;
  }
  EXPECT_LT(zeros, codes.bytes() / 100);
  EXPECT_NEAR(static_cast<double>(negative), static_cast<double>(codes.bytes()) / 2,
              static_cast<double>(codes.bytes()) / 50);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  size_t begin = 0;
  for (size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

TEST(MatmulReport, ALineOfTheCsvHasAFieldForEachTitle) {
  MatmulReport report({{"date", "today"}, {"gpu", "one"}}, "a machine", 3);
  MatmulRow row;
  row.problem = case_of(MatmulScales::block, 16, 4096, 4096);
  row.call = "matmul";
  row.backend = MatmulBackend::small_m;
  row.algorithm = "tiles";
  row.seconds = 10e-6;
  row.bytes = 16e6;
  row.ceiling_rate = 4e12;
  report.add_and_print({row}, {{row.problem, {MatmulBackend::cublaslt, "m: too few"}}});
  const std::vector<std::string> lines = lines_of(report.csv());
  ASSERT_EQ(lines.size(), 2U);
  const auto fields = [](const std::string& line) {
    return std::count(line.begin(), line.end(), ',');
  };
  EXPECT_EQ(fields(lines[0]), fields(lines[1]));
  EXPECT_EQ(lines[0].rfind("date,gpu,part,layer,n,k,m,", 0), 0U) << lines[0];
  EXPECT_EQ(lines[1].rfind("today,one,dense,qkv,4096,4096,16,", 0), 0U) << lines[1];
  // us, bytes, ceiling in GB/s, floor in us, time over it
  EXPECT_NE(lines[1].find(",10,16000000,4000,4,2.5,"), std::string::npos) << lines[1];
  EXPECT_NE(report.svg().find("</svg>"), std::string::npos);
}

}  // namespace
}  // namespace rowscale::cli
