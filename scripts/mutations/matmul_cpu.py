"""Mutations of the CPU's products. Each stays inside the memory of the tensors: a crash would prove less."""

from mutation import Mutation

PRODUCT = "src/cpu/matmul.cpp"
LOOPS = "src/cpu/simd/matmul-inl.h"
EXPERTS = "src/cuda/matmul/expert_tiles.cuh"  # whose search has tests on the CPU

# What ./check runs each time: one of each kind that the others are variants of, in the file that compiles fastest.
FAST = ("cpu-scales-swapped", "cpu-last-block-dropped", "cpu-row-of-a-shifted")


def cpu(name, file, old, new, tests="MatmulCpu.*"):
    return Mutation("cpu-" + name, file, old, new, "matmul_test", tests)


MUTATIONS = [
    cpu("scales-swapped", PRODUCT,
        "numerics::mul(numerics::mul(value, rows[i]), columns[j])",
        "numerics::mul(numerics::mul(value, rows[j % tile.rows]), columns[i % tile.columns])"),
    cpu("last-block-dropped", PRODUCT,
        "for (int64_t k = 0; k < problem_.k; k += kTileDepth)",
        "for (int64_t k = 0; k + kTileDepth < problem_.k; k += kTileDepth)"),
    cpu("row-of-a-shifted", PRODUCT,
        "decode(a + i * problem_.a.row_stride,",
        "decode(a + std::min(i + 1, tile.rows - 1) * problem_.a.row_stride,"),
    cpu("short-last-block-dropped", PRODUCT,
        "for (int64_t k = 0; k < problem_.k; k += kTileDepth)",
        "for (int64_t k = 0; k + kTileDepth <= problem_.k; k += kTileDepth)"),
    cpu("scale-of-a-of-the-row-above", PRODUCT,
        "scales_a_.at(batch_of(tile), tile.row + i, block)",
        "scales_a_.at(batch_of(tile), tile.row + std::max<int64_t>(i - 1, 0), block)"),
    cpu("scale-of-a-of-another-batch", PRODUCT,
        "scales_a_.at(batch_of(tile), tile.row + i, block)",
        "scales_a_.at(0, tile.row + i, block)"),
    cpu("scale-of-b-of-the-column-before", PRODUCT,
        "scales_b_.at(tile.expert, tile.column + j, block)",
        "scales_b_.at(tile.expert, tile.column + std::max<int64_t>(j - 1, 0), block)"),
    cpu("scale-of-b-of-another-expert", PRODUCT,
        "scales_b_.at(tile.expert, tile.column + j, block)",
        "scales_b_.at(0, tile.column + j, block)"),
    cpu("scales-of-the-block-before", PRODUCT,
        "load_scales(tile, k / kTileDepth, rows, columns);",
        "load_scales(tile, std::max<int64_t>(k / kTileDepth - 1, 0), rows, columns);"),
    cpu("bias-left-out", PRODUCT,
        "if (problem_.has_bias) value = numerics::add(value, bias[j]);",
        "if (problem_.has_bias && j < 0) value = numerics::add(value, bias[j]);"),
    cpu("bias-of-the-first-column", PRODUCT,
        "at + (tile.column + j) * bias_size",
        "at + tile.column * bias_size"),
    cpu("weights-of-the-expert-before", PRODUCT,
        "tile.expert * problem_.b.batch_stride + tile.column",
        "std::max<int64_t>(tile.expert - 1, 0) * problem_.b.batch_stride + tile.column"),
    cpu("expert-offset-one-too-low", PRODUCT,
        "end_ = std::max(first, offset(expert + 1));",
        "end_ = std::max(first, offset(expert + 1) - 1);"),
    cpu("row-count-one-too-low", PRODUCT,
        "return {0, std::clamp<int64_t>(count, 0, problem_.m)};",
        "return {0, std::clamp<int64_t>(count - int64_t{1}, 0, problem_.m)};"),
    cpu("row-of-out-of-another-batch", PRODUCT,
        "(batch_of(tile) * problem_.out.batch_stride +",
        "(0 * problem_.out.batch_stride +"),
    cpu("loops-last-product-dropped", LOOPS,
        "for (int64_t k = 0; k < depth; ++k) {",
        "for (int64_t k = 0; k + 1 < depth; ++k) {"),
    cpu("loops-column-of-b-shifted", LOOPS,
        "codes + (column + i) * stride + k",
        "codes + (column + std::min(i + 1, there - 1)) * stride + k"),
    cpu("loops-end-of-a-column-cut", LOOPS,
        "std::memcpy(ends[i], from[i], static_cast<size_t>(length));",
        "std::memcpy(ends[i], from[i], static_cast<size_t>(length - 1));"),
    cpu("loops-scale-of-the-first-row", LOOPS,
        "hn::Set(df, scales->rows[row + i])",
        "hn::Set(df, scales->rows[row])"),
    cpu("loops-scales-of-the-vector-before", LOOPS,
        "hn::LoadU(df, scales->columns + column + v * kLanes)",
        "hn::LoadU(df, scales->columns + std::max<int64_t>(column - 2 * kLanes, 0) + v * kLanes)"),
    cpu("experts-offset-one-too-low", EXPERTS,
        "ends_[i] = exists ? all.clamped(from[first + i]) : 0;",
        "ends_[i] = exists ? all.clamped(from[first + i]) - 1 : 0;",
        tests="ExpertTiles*"),
]
