"""Mutations of the GPU's own kernels of products. Each stays inside the memory of the tensors and ends by itself:
a fault of the GPU would prove less, and a kernel that hangs would cost the machine."""

from mutation import Mutation

SMALL_M = "src/cuda/matmul/small_m.cuh"
SMALL_M_HOST = "src/cuda/matmul/small_m.cpp"
GENERAL = "src/cuda/matmul/general.cuh"
GENERAL_SUMS = "src/cuda/matmul/general_sums.cuh"
GENERAL_TILE = "src/cuda/matmul/general_tile.cuh"
EPILOGUE = "src/cuda/matmul/scale_epilogue.cuh"

FEW_ROWS, EXPERTS = "MatmulReduced.FewRows", "MatmulReduced.Experts"


def cuda(name, file, old, new, tests):
    return Mutation(name, file, old, new, "matmul_cuda_test", tests)


def small_m(name, old, new, file=SMALL_M, tests=FEW_ROWS):
    return cuda("small_m-" + name, file, old, new, tests)


def general(name, old, new, file=GENERAL, tests="MatmulReduced.General"):
    return cuda("general-" + name, file, old, new, tests)


def epilogue(name, old, new):
    return cuda("epilogue-" + name, EPILOGUE, old, new, "MatmulReduced.ScaleEpilogue")


MUTATIONS = [
    small_m("scales-swapped",
            "const float token_scale = vectors.tokens[token];\n"
            "      const float4 w = *reinterpret_cast<const float4*>(&vectors.weights[row]);",
            "const float token_scale = vectors.weights[token];\n"
            "      const float4 w = *reinterpret_cast<const float4*>(&vectors.tokens[row % kTokens]);"),
    small_m("scale-of-the-token-above",
            "(tile.first_token + i) * call.scale_a.steps.row",
            "(tile.first_token + max(i - 1, 0)) * call.scale_a.steps.row"),
    small_m("last-block-dropped",
            "const int turns = call.rank_blocks + (rank < call.extra_blocks ? 1 : 0);",
            "const int turns = call.rank_blocks + (rank < call.extra_blocks ? 1 : 0) - (rank == split - 1 ? 1 : 0);"),
    small_m("short-last-block-dropped",
            "const int64_t k_blocks = ceil_div(problem_.k, cuda::kSmallMBlockK);",
            "const int64_t k_blocks = problem_.k / cuda::kSmallMBlockK;",
            file=SMALL_M_HOST),
    small_m("parts-of-k-overlap",
            "rank * call.rank_blocks + min(rank, call.extra_blocks)",
            "rank * call.rank_blocks"),
    small_m("row-of-a-shifted",
            "static_cast<int>(tile.first_token), tile.batch, many);",
            "static_cast<int>(tile.first_token) + 1, tile.batch, many);"),
    small_m("row-of-b-shifted",
            "static_cast<int>(tile.first_row), tile.expert, once);",
            "static_cast<int>(tile.first_row) + 1, tile.expert, once);"),
    small_m("bias-left-out",
            "v[i] += load_any(call.bias, n0 + i, call.bias_dtype);",
            ""),
    small_m("scale-of-a-of-the-block-before",
            "(tile.first_token + token) * a.row + block * a.group",
            "(tile.first_token + token) * a.row + max(block - 1, 0) * a.group"),
    small_m("scale-of-b-of-the-block-before",
            "row * b.row + block * b.group",
            "row * b.row + max(block - 1, 0) * b.group"),
    small_m("weights-of-the-expert-before",
            "tile.expert = static_cast<int>(found.expert);",
            "tile.expert = max(static_cast<int>(found.expert) - 1, 0);",
            tests=EXPERTS),
    general("scales-swapped",
            "const float scale_a = load_scale(call.scale_a, tile.batch, tile.first_row + row, 0);",
            "const float scale_a = load_scale(call.scale_a, tile.batch, min(column, call.m - 1), 0);\n"
            "      scale_b.x = load_scale(call.scale_b, tile.expert, min(tile.first_row + row, call.n - 1), 0);\n"
            "      scale_b.y = scale_b.x;"),
    general("scale-of-the-row-above",
            "load_scale(call.scale_a, tile.batch, tile.first_row + row, 0)",
            "load_scale(call.scale_a, tile.batch, tile.first_row + max(row - 1, 0), 0)"),
    general("last-block-dropped",
            "copy_a(stage.a, call.a.row_stride, int64_t{round} * kRoundCodes, call.k);",
            "copy_a(stage.a, call.a.row_stride, int64_t{round} * kRoundCodes,\n"
            "               (call.k - 1) / kChunkCodes * kChunkCodes);"),
    general("short-last-block-dropped",
            "copy_b(stage.b, call.b.row_stride, int64_t{round} * kRoundCodes, call.k);",
            "copy_b(stage.b, call.b.row_stride, int64_t{round} * kRoundCodes,\n"
            "               call.k / kChunkCodes * kChunkCodes);"),
    general("row-of-a-shifted",
            "copy_a(a, call.a.row_stride, tile.rows);",
            "copy_a(a + call.a.row_stride, call.a.row_stride, tile.rows - 1);"),
    general("bias-left-out",
            "v.x = numerics::add(v.x, bias.x);\n      v.y = numerics::add(v.y, bias.y);",
            ""),
    general("scale-of-a-of-the-block-before",
            "load_scale(call.scale_a, tile.batch, tile.first_row + row, chunk)",
            "load_scale(call.scale_a, tile.batch, tile.first_row + row, chunk > 0 ? chunk - 1 : 0)",
            file=GENERAL_SUMS),
    general("scale-of-b-of-the-block-before",
            "load_scale(call.scale_b, tile.expert, tile.first_column / product::kBlock, chunk + s);",
            "load_scale(call.scale_b, tile.expert, tile.first_column / product::kBlock, max(chunk + s, 1L) - 1);",
            file=GENERAL_SUMS),
    general("weights-of-the-expert-before",
            "tile->expert = static_cast<int32_t>(rows.expert);",
            "tile->expert = max(static_cast<int32_t>(rows.expert) - 1, 0);",
            file=GENERAL_TILE, tests=EXPERTS),
    epilogue("scale-of-a-where-b-belongs",
             "call.scale_b.load(0, (column + i) * call.step_b, 0)",
             "call.scale_a.load(0, min(column + i, call.m - 1) * call.step_a, 0)"),
    epilogue("scale-of-b-where-a-belongs",
             "call.scale_a.load(0, row * call.step_a, 0)",
             "call.scale_b.load(0, min(row, call.n - 1) * call.step_b, 0)"),
    epilogue("row-shifted",
             "call.sums + row * call.sum_stride + column",
             "call.sums + max(row - 1, int64_t{0}) * call.sum_stride + column"),
    epilogue("bias-left-out",
             "v[r][i] += bias;",
             "v[r][i] += 0.0F * bias;"),
]
