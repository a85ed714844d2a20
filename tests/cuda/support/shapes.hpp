// The shapes of the full cross: every number of tokens with every hidden.
#pragma once

#include <cstdint>
#include <vector>

namespace rowscale::test {

inline constexpr int64_t kTokens[] = {0,  1,  2,  3,   4,   5,   7,   8,    15,   16,   17,   31,
                                      33, 63, 65, 127, 128, 129, 257, 1025, 1452, 4097, 17083};
inline constexpr int64_t kHidden[] = {1,    7,    8,    46,   128,  129,  640,   1368,
                                      2048, 2688, 4096, 5120, 7168, 8192, 12288, 16384};
inline constexpr int64_t kMostSmallElements = int64_t{1} << 20;

struct Matrix {
  int64_t tokens;
  int64_t hidden;
  [[nodiscard]] int64_t elements() const { return tokens * hidden; }
};

// low < elements <= high; without elements where low is negative.
inline std::vector<Matrix> cross_shapes(int64_t low, int64_t high) {
  std::vector<Matrix> shapes;
  for (int64_t tokens : kTokens) {
    for (int64_t hidden : kHidden) {
      const Matrix shape{tokens, hidden};
      if (shape.elements() > low && shape.elements() <= high) shapes.push_back(shape);
    }
  }
  return shapes;
}

// For cases that vary something else: each remainder of a vector, a warp, a group and a strip.
inline constexpr Matrix kFewShapes[] = {{1, 1},   {1, 128},  {2, 7},    {3, 129},   {5, 640},
                                        {7, 46},  {4, 1368}, {17, 256}, {33, 384},  {8, 2048},
                                        {65, 96}, {3, 5120}, {2, 8200}, {1, 16384}, {129, 72}};

}  // namespace rowscale::test
