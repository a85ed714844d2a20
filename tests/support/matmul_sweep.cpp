#include "tests/support/matmul_sweep.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <tuple>

#include "tests/support/recipes.hpp"
#include "tests/support/test_data.hpp"

namespace rowscale::test {
namespace {

constexpr int64_t kRows[] = {0,  1,  2,  3,  4,  5,   7,   8,   15,  16,   17,
                             31, 33, 63, 64, 65, 127, 128, 129, 257, 1000, 4096};
constexpr int64_t kSizes[] = {1, 16, 17, 64, 128, 129, 192, 576, 2112, 4096, 7168, 14336};
constexpr DType kOutputs[] = {DType::f32, DType::f16, DType::bf16};

const MatmulRecipes kRecipes[] = {
    {per_tensor(), per_tensor()},
    {per_tensor(), per_channel()},
    {per_token(), per_tensor()},
    {per_token(), per_channel()},
    {with(per_token(), ScaleEncoding::ue8m0), per_channel()},
    {per_token(), with(per_channel(), ScaleEncoding::ue8m0_f32)},
    {per_group(128), per_block(128, 128)},
    {with(per_group(128), ScaleEncoding::f32, ScaleLayout::column_major), per_block(128, 128)},
    {with(per_group(128), ScaleEncoding::f32, ScaleLayout::column_major_tma),
     with(per_block(128, 128), ScaleEncoding::f32, ScaleLayout::block_k4)},
    {with(per_group(128), ScaleEncoding::ue8m0_packed),
     with(per_block(128, 128), ScaleEncoding::ue8m0)},
    {with(per_group(128), ScaleEncoding::ue8m0, ScaleLayout::column_major_tma),
     with(per_block(128, 128), ScaleEncoding::ue8m0_f32, ScaleLayout::block_k4)},
};

struct Formats {
  Format a, b;
};
constexpr Formats kFormatPairs[] = {
    {Format::e4m3, Format::e4m3}, {Format::e4m3, Format::e5m2}, {Format::e5m2, Format::e4m3}};

// Choices of a case, as numbers of values.
enum Choice { kM, kN, kK, kRecipe, kFormat, kOut, kBias, kView, kFill, kChoices };
constexpr int kCounts[kChoices] = {static_cast<int>(std::size(kRows)),
                                   static_cast<int>(std::size(kSizes)),
                                   static_cast<int>(std::size(kSizes)),
                                   static_cast<int>(std::size(kRecipes)),
                                   static_cast<int>(std::size(kFormatPairs)),
                                   3,
                                   4,
                                   4,
                                   3};

struct Choices {
  int at[kChoices];
};

MatmulCase case_of(const Choices& chosen, uint64_t seed) {
  const auto at = [&](Choice choice) { return static_cast<size_t>(chosen.at[choice]); };
  MatmulCase c;
  c.m = kRows[at(kM)];
  c.n = kSizes[at(kN)];
  c.k = kSizes[at(kK)];
  c.options.a = with(kRecipes[at(kRecipe)].a, kFormatPairs[at(kFormat)].a);
  c.options.b = with(kRecipes[at(kRecipe)].b, kFormatPairs[at(kFormat)].b);
  c.out = kOutputs[at(kOut)];
  if (at(kBias) > 0) c.bias = kOutputs[at(kBias) - 1];
  // Dense; rows of a multiple of 16 bytes more; one odd byte more; memory that begins at an odd
  // one.
  constexpr int64_t kGaps[] = {0, 16, 1, 0};
  c.gap_a = c.gap_b = c.gap_out = kGaps[at(kView)];
  c.shift_a = c.shift_b = c.shift_out = at(kView) == 3 ? 1 : 0;
  constexpr MatmulData kFills[] = {MatmulData::random, MatmulData::tags, MatmulData::nans};
  c.data = kFills[at(kFill)];
  c.seed = seed;
  return c;
}

using ValuePair = std::tuple<int, int, int, int>;  // choice, value, choice, value

template <class Visit>
void for_each_pair(const Choices& chosen, Visit&& visit) {
  for (int i = 0; i < kChoices; ++i) {
    for (int j = i + 1; j < kChoices; ++j) visit(ValuePair{i, chosen.at[i], j, chosen.at[j]});
  }
}

std::set<ValuePair> all_value_pairs() {
  std::set<ValuePair> pairs;
  for (int i = 0; i < kChoices; ++i) {
    for (int j = i + 1; j < kChoices; ++j) {
      for (int x = 0; x < kCounts[i]; ++x) {
        for (int y = 0; y < kCounts[j]; ++y) pairs.insert({i, x, j, y});
      }
    }
  }
  return pairs;
}

MatmulCase experts_case(int64_t m, int64_t n, int64_t k, std::vector<int32_t> offsets) {
  MatmulCase c;
  c.m = m;
  c.n = n;
  c.k = k;
  c.offsets = std::move(offsets);
  return c;
}

}  // namespace

std::vector<MatmulCase> pairwise_matmul_cases() {
  std::set<ValuePair> missing = all_value_pairs();
  Random random(2026);
  std::vector<MatmulCase> cases;
  while (!missing.empty()) {
    // The best of some that have a missing pair.
    const auto& [i, x, j, y] = *missing.begin();
    Choices best{};
    int most = -1;
    for (int attempt = 0; attempt < 20; ++attempt) {
      Choices chosen{};
      for (int choice = 0; choice < kChoices; ++choice) {
        chosen.at[choice] = static_cast<int>(random.below(kCounts[choice]));
      }
      chosen.at[i] = x;
      chosen.at[j] = y;
      int found = 0;
      for_each_pair(chosen, [&](const ValuePair& pair) { found += missing.count(pair) > 0; });
      if (found > most) {
        most = found;
        best = chosen;
      }
    }
    for_each_pair(best, [&](const ValuePair& pair) { missing.erase(pair); });
    cases.push_back(case_of(best, cases.size() + 1));
  }
  return cases;
}

bool is_within(const MatmulCase& c, const MatmulLimits& limits) {
  return c.m * c.n * c.k <= limits.products && c.n * c.k <= limits.elements &&
         c.m * c.k <= limits.elements;
}

std::vector<MatmulRecipes> all_matmul_recipes() {
  std::vector<MatmulRecipes> pairs;
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

std::vector<MatmulCase> expert_matmul_cases() {
  std::vector<MatmulCase> kinds;
  kinds.push_back(experts_case(17, 40, 96, {0, 17}));
  kinds.push_back(experts_case(64, 72, 160, {0, 0, 1, 1, 33, 64, 64}));      // empty experts
  kinds.push_back(experts_case(300, 136, 256, {0, 127, 255, 255, 300}));     // borders of tiles
  kinds.push_back(experts_case(40, 24, 128, {5, 5, 9, 30}));                 // rows of nobody
  kinds.push_back(experts_case(40, 24, 128, {-3, 10, 4, 20, 1000, 7}));      // clamped
  kinds.push_back(experts_case(40, 24, 128, {0x7FFFFFFF, 0, -0x7FFFFFFF}));  // nobody at all
  kinds.push_back(experts_case(0, 24, 128, {0, 0, 0}));
  kinds.push_back(experts_case(19, 130, 300, {0, 3, 19}));
  const auto masked = [&](int64_t rows, int64_t n, int64_t k, std::vector<int32_t> counts) {
    MatmulCase c;
    c.m = rows;
    c.n = n;
    c.k = k;
    c.counts = std::move(counts);
    kinds.push_back(c);
  };
  masked(8, 40, 96, {0, 1, 8});
  masked(64, 72, 160, {64, 0, 17, 3});
  masked(16, 24, 256, {-5, 100, 16});
  masked(129, 136, 300, {129, 128, 1});
  std::vector<MatmulCase> cases;
  uint64_t seed = 1;
  for (const MatmulCase& kind : kinds) {
    for (const MatmulRecipes& recipes :
         {MatmulRecipes{per_token(), per_channel()}, MatmulRecipes{per_tensor(), per_tensor()},
          MatmulRecipes{per_group(128), per_block(128, 128)},
          MatmulRecipes{with(per_group(128), ScaleEncoding::ue8m0_packed),
                        with(per_block(128, 128), ScaleEncoding::ue8m0)}}) {
      for (MatmulData data : {MatmulData::random, MatmulData::tags, MatmulData::nans}) {
        MatmulCase c = kind;
        c.options.a = recipes.a;
        c.options.b = recipes.b;
        c.data = data;
        c.out = kOutputs[seed % 3];
        c.gap_out = static_cast<int64_t>(seed % 2) * 8;
        c.gap_b = static_cast<int64_t>(seed % 4 / 2) * 16;
        c.seed = seed++;
        cases.push_back(c);
      }
    }
  }
  return cases;
}

std::vector<MatmulCase> bug_matmul_cases() {
  std::vector<MatmulCase> cases;
  const auto add = [&](int64_t m, int64_t n, int64_t k, const MatmulRecipes& recipes) {
    MatmulCase c;
    c.m = m;
    c.n = n;
    c.k = k;
    c.options.a = recipes.a;
    c.options.b = recipes.b;
    c.out = DType::f32;
    c.data = MatmulData::tags;
    cases.push_back(c);
    return &cases.back();
  };
  const MatmulRecipes vectors{per_token(), per_channel()};
  const MatmulRecipes blocks{per_group(128), per_block(128, 128)};
  const MatmulRecipes tma{with(per_group(128), ScaleEncoding::f32, ScaleLayout::column_major_tma),
                          per_block(128, 128)};
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{0, 24, 32},
                                {5, 0, 32},
                                {5, 24, 0},
                                {0, 0, 0},  // B28
                                {3, 129, 576},
                                {3, 192, 129},
                                {3, 64, 192},  // B36
                                {257, 128, 128},
                                {8352, 136, 128},  // B62
                                {1088, 2048, 2048},
                                {129, 264, 256},  // B65
                                {1, 16, 1024},
                                {64, 136, 144},
                                {129, 136, 1152}}) {  // B67
    add(m, n, k, vectors);
    add(m, n, k, blocks)->bias = DType::f32;
  }
  for (int64_t m : {1, 2, 3, 4, 5, 6, 7, 8, 9, 127, 129}) add(m, 130, 1100, tma);  // B34
  for (int64_t gap : {0, 8}) add(5, 24, 32, vectors)->gap_out = gap;               // B68
  for (DType out : kOutputs) {
    for (DType bias : kOutputs) {  // B73
      MatmulCase* c = add(17, 48, 160, vectors);
      c->out = out;
      c->bias = bias;
      c->data = MatmulData::random;
    }
  }
  for (const MatmulRecipes& recipes : {vectors, blocks}) {
    for (const std::vector<int32_t>& offsets :
         std::vector<std::vector<int32_t>>{{0, 0, 4, 4, 9},
                                           {0, 9, 9, 9, 9},
                                           {0, 0, 0, 0, 9},
                                           {0, 0, 0, 0, 0},  // B74
                                           {5, 5, 9, 9, 9},  // B75
                                           {-1, 0, 5, 3, 4, -1},
                                           {0, 2, 0x7FFFFFFF, 0x7FFFFFFF}}) {  // B80
      add(9, 40, 160, recipes)->offsets = offsets;
    }
    add(385, 136, 256, recipes)->offsets = {0, 1, 128, 256, 385};  // B76
    for (int32_t rows : {8, 16, 64}) add(rows, 24, 256, recipes)->counts = {0, 1, rows, 5};
  }
  for (int64_t experts :
       {1, 63, 64, 127, 128, 129, 256, 384, 512, 1023, 1024, 1025, 4096}) {  // B79
    for (int64_t rows : {0, 1, 17}) {
      std::vector<int32_t> last(static_cast<size_t>(experts) + 1, 0);
      last.back() = static_cast<int32_t>(rows);
      add(rows, 3, 20, vectors)->offsets = last;
      for (int64_t e = 0; e <= experts; ++e) {
        last[static_cast<size_t>(e)] = static_cast<int32_t>(e * rows / experts);
      }
      add(rows, 3, 20, vectors)->offsets = last;
    }
  }
  return cases;
}

}  // namespace rowscale::test
