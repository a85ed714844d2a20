// The search for a tile's expert, share by share as the threads of a warp make it, against a plain
// walk over all rows of all experts.
#include "cuda/matmul/expert_tiles.cuh"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace rowscale::test {
namespace {

using cuda::ExpertRows;
using cuda::ExpertShare;
using cuda::most_tiles;
using cuda::RowTile;

constexpr int kHeight = 64;
using Share = ExpertShare<kHeight>;

// The definition: what belongs to an expert, in pieces of the height.
std::vector<RowTile> expected_tiles(const ExpertRows& all) {
  std::vector<RowTile> tiles;
  int64_t highest = 0;
  for (int64_t e = 0; e < all.experts; ++e) {
    int64_t begin = 0;
    int64_t end = 0;
    if (all.counts != nullptr) {
      end = std::clamp<int64_t>(all.counts[e], 0, all.rows);
    } else {
      begin = std::max(highest, std::clamp<int64_t>(all.offsets[e], 0, all.rows));
      end = std::max(begin, std::clamp<int64_t>(all.offsets[e + 1], 0, all.rows));
      highest = end;
    }
    for (int64_t row = begin; row < end; row += kHeight) {
      tiles.push_back({e, row, static_cast<int32_t>(std::min<int64_t>(kHeight, end - row))});
    }
  }
  return tiles;
}

// Every tile of the shares in turn, as the warp's scan hands them on.
std::vector<RowTile> found_tiles(const ExpertRows& all) {
  std::vector<RowTile> tiles;
  int32_t offset = all.counts == nullptr ? all.clamped(all.offsets[0]) : 0;
  for (int64_t first = 0; first < all.experts; first += Share::kExperts) {
    Share share(all, first);
    const int32_t highest = share.highest();
    share.start_at(offset);
    for (int64_t i = 0; i < share.tiles(); ++i) tiles.push_back(share.tile(i));
    EXPECT_EQ(share.tile(-1), RowTile{});
    EXPECT_EQ(share.tile(share.tiles()), RowTile{});
    offset = std::max(offset, highest);
  }
  return tiles;
}

void expect_tiles(const ExpertRows& all, const std::string& what) {
  const std::vector<RowTile> want = expected_tiles(all);
  const std::vector<RowTile> got = found_tiles(all);
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i], want[i]) << what << ", tile " << i << ": expert " << got[i].expert
                               << " from row " << got[i].first_row << ", " << got[i].rows
                               << " rows; expected expert " << want[i].expert << " from row "
                               << want[i].first_row << ", " << want[i].rows << " rows";
  }
  EXPECT_LE(static_cast<int64_t>(got.size()), most_tiles(all, kHeight)) << what;
}

void expect_sorted(const std::vector<int32_t>& offsets, int64_t rows, const std::string& what) {
  expect_tiles({offsets.data(), nullptr, static_cast<int64_t>(offsets.size()) - 1, rows}, what);
}

void expect_masked(const std::vector<int32_t>& counts, int64_t rows, const std::string& what) {
  expect_tiles({nullptr, counts.data(), static_cast<int64_t>(counts.size()), rows}, what);
}

constexpr int64_t kExperts[] = {1,   2,   7,   8,   9,    63,   64,   65,
                                127, 128, 129, 256, 1023, 1024, 1025, 4096};

TEST(ExpertTiles, AnyDivisionOfRows) {
  std::mt19937 random(1);
  for (int64_t experts : kExperts) {
    for (int32_t most : {0, 1, 2, 63, 64, 65, 200}) {
      std::uniform_int_distribution<int32_t> count(0, most);
      std::vector<int32_t> offsets = {0};
      std::vector<int32_t> counts;
      for (int64_t e = 0; e < experts; ++e) {
        counts.push_back(count(random));
        offsets.push_back(offsets.back() + counts.back());
      }
      const std::string what =
          std::to_string(experts) + " experts of up to " + std::to_string(most) + " rows";
      expect_sorted(offsets, offsets.back(), what);
      expect_sorted(offsets, offsets.back() + 77, what + ", rows of nobody behind");
      expect_sorted(offsets, offsets.back() / 2, what + ", too few rows");
      expect_masked(counts, 200, what + ", masked");
      expect_masked(counts, 65, what + ", masked, fewer rows");
    }
  }
}

TEST(ExpertTiles, AllRowsToOneExpert) {
  for (int64_t experts : kExperts) {
    for (int64_t taker : {int64_t{0}, experts / 2, experts - 1}) {
      std::vector<int32_t> offsets(static_cast<size_t>(experts + 1), 0);
      std::fill(offsets.begin() + taker + 1, offsets.end(), 129);
      expect_sorted(offsets, 129, std::to_string(experts) + " experts");
    }
  }
}

TEST(ExpertTiles, OffsetsOfAnyValue) {
  expect_sorted({0, 7, 7, 8}, 8, "empty between");
  expect_sorted({0, 0, 0, 0, 300}, 300, "the last one only");
  expect_sorted({100, 200, 300}, 400, "rows of nobody in front and behind");
  expect_sorted({-5, 3, -1, 70, 2, 500}, 200, "not in order, below zero, beyond");
  expect_sorted({300, 100, 200}, 200, "the first one beyond");
  expect_sorted({INT32_MAX, INT32_MIN, INT32_MAX, 0}, 5, "wild");
  std::vector<int32_t> wild(1000);
  std::mt19937 random(2);
  std::uniform_int_distribution<int32_t> any(-10000, 90000);
  for (int32_t& offset : wild) offset = any(random);
  expect_sorted(wild, 80000, "random");
}

// Too many tiles for a walk.
TEST(ExpertTiles, AsManyRowsAsOffsetsReach) {
  const std::vector<int32_t> offsets = {INT32_MIN, INT32_MAX};
  const ExpertRows all{offsets.data(), nullptr, 1, int64_t{INT32_MAX} + 5};
  Share share(all, 0);
  share.start_at(all.clamped(offsets[0]));
  EXPECT_EQ(share.tiles(), int64_t{1} << 25);
  EXPECT_EQ(share.tile(share.tiles() - 1), (RowTile{0, ((int64_t{1} << 25) - 1) * 64, 63}));
}

TEST(ExpertTiles, CountsOfAnyValue) {
  expect_masked({INT32_MIN, -7, 0, 1, 64, 65, 99, 100, 101, INT32_MAX}, 100, "clamped");
  expect_masked({5, 0, INT32_MAX}, 0, "no rows");
}

TEST(ExpertTiles, MostTilesIsReached) {
  // Each of eight experts with one row more than a tile.
  const std::vector<int32_t> offsets = {0, 65, 130, 195, 260, 325, 390, 455, 520};
  const ExpertRows all{offsets.data(), nullptr, 8, 520};
  EXPECT_EQ(most_tiles(all, kHeight), 16);
  EXPECT_EQ(expected_tiles(all).size(), 16U);
  EXPECT_EQ(most_tiles({offsets.data(), nullptr, 4096, 8}, kHeight), 8);
  EXPECT_EQ(most_tiles({offsets.data(), nullptr, 4096, 0}, kHeight), 0);
  EXPECT_EQ(most_tiles({nullptr, offsets.data(), 4096, 65}, kHeight), 8192);
}

}  // namespace
}  // namespace rowscale::test
