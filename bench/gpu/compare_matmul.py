#!/usr/bin/env python3
"""Products of FP8 beside torch._scaled_mm, both in one CUDA graph each and in the same rounds, the memory cold.

    compare_matmul.py --library build/cuda/src/librowscale.so --baselines build/cuda/bench/gpu/librowscale_baselines.so \\
                      --out DIR

Rowwise scales (per token x per channel) and 1x128 x 128x128 blocks. Both sides read the same codes and scales, of normal
data; before anything is timed their outputs are compared. A call that torch refuses is named, and ours is timed alone.
Writes DIR/gpu-matmul-torch.csv. Needs torch, triton and a GPU.
"""

import argparse
import gc
import os
import sys

import torch

from baselines import Baselines
from cold_graphs import Side, Timer
from matmul_goals import SHAPES
from records import machine, write_csv
from rowscale_c import Library, Matmul, Quantize
from tables import print_table

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RECIPES = {"token-channel": ("granularity=per_token", "granularity=per_channel"),
           "block": ("granularity=per_group(128) layout=column_major", "granularity=per_block(128,128) layout=block_k4")}
ROWS = (1, 8, 16, 32, 64, 128, 512, 4096)
HEADER = ["scales", "accumulation", "n", "k", "m", "side", "plan", "us", "time_over_torch"]
MOST_DIFFERENCE = 2 ** -6  # of the largest element: bf16 outputs of sums in other orders


class Peer:
    """torch._scaled_mm on what two Quantize made."""

    def __init__(self, scales, a, b, out, fast):
        self.calls = []
        for index, one in enumerate(out):
            codes_a, codes_b = a.tensors[1][index], b.tensors[1][index]
            scale_a, scale_b = a.scale_matrix(index), b.scale_matrix(index)
            if scales == "token-channel":
                scale_a, scale_b = scale_a.reshape(-1, 1), scale_b.reshape(1, -1)
            else:
                scale_b = scale_b.t()
            self.calls.append(((codes_a, codes_b.t()), {
                "scale_a": scale_a, "scale_b": scale_b, "out_dtype": one.dtype, "use_fast_accum": fast, "out": one}))

    def __call__(self, index):
        tensors, keywords = self.calls[index]
        torch._scaled_mm(*tensors, **keywords)


class Bench:
    def __init__(self, library, timer):
        self.library, self.timer, self.stream = library, timer, timer.stream.cuda_stream
        self.rows, self.table = [], []

    def quantized(self, text, sets, rows, columns):
        """Quantize of `sets` tensors of normal data, which are dropped after it."""
        x = torch.empty(rows, columns, device="cuda", dtype=torch.bfloat16).normal_(0, 1)
        codes = list(torch.empty(sets, rows, columns, device="cuda", dtype=torch.uint8).view(torch.float8_e4m3fn))
        quantize = Quantize(self.library, text, [x] * sets, codes, self.stream)
        torch.cuda.synchronize()
        for index in range(sets):
            quantize(index)
        torch.cuda.synchronize()
        return quantize

    def case(self, scales, n, k, m, fast):
        moved = n * k + m * k + 2 * m * n
        sets, launches = self.timer.repetition(moved)
        launches = max(launches, 20)
        a, b = (self.quantized(text, sets, rows, k) for text, rows in zip(RECIPES[scales], (m, n)))
        ours, theirs = (list(torch.empty(sets, m, n, device="cuda", dtype=torch.bfloat16)) for _ in range(2))
        matmul = Matmul(self.library, a, b, ours, self.stream, accumulation=int(fast))
        sides = {"rowscale": matmul}
        where = f"{scales}, n x k {n}x{k}, m {m}"
        try:
            peer = Peer(scales, a, b, theirs, fast)
            with torch.cuda.stream(self.timer.stream):
                peer(0)
                matmul(0)
            torch.cuda.synchronize()
        except RuntimeError as error:
            print(f"torch refuses {where}: {str(error).splitlines()[0]}", file=sys.stderr)
        else:
            difference = (ours[0].float() - theirs[0].float()).abs().max() / theirs[0].float().abs().max()
            if not difference <= MOST_DIFFERENCE:
                raise RuntimeError(f"{where}: outputs differ by {difference:.3g} of the largest element")
            sides["torch"] = peer
        one = self.timer.compare([Side(name, call, sets, launches, moved) for name, call in sides.items()])
        ratio = one.ratio("rowscale", "torch") if "torch" in sides else None
        plan = matmul.text().splitlines()[0]
        accumulation = "fast" if fast else "precise"
        for name in sides:
            self.rows.append([scales, accumulation, n, k, m, name, plan if name == "rowscale" else "", f"{one.us(name):.3f}",
                              f"{ratio:.4f}" if ratio and name == "rowscale" else ""])
        self.table.append([f"{n}x{k}, m {m}, {scales}, {accumulation}", f"{one.us('rowscale'):.2f}",
                           f"{one.us('torch'):.2f}" if ratio else "-", f"{ratio:.3f}" if ratio else "-"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", default=os.path.join(ROOT, "build/cuda/src/librowscale.so"))
    parser.add_argument("--baselines", default=os.path.join(ROOT, "build/cuda/bench/gpu/librowscale_baselines.so"))
    parser.add_argument("--out", required=True, help="folder of the CSV file")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--m", type=int, nargs="+", default=ROWS)
    parser.add_argument("--scales", nargs="+", choices=tuple(RECIPES), default=tuple(RECIPES))
    parser.add_argument("--accumulation", nargs="+", choices=("precise", "fast"), default=("precise",))
    arguments = parser.parse_args()

    gc.disable()  # nothing may be freed while a graph is captured
    torch.manual_seed(20240229)
    library = Library(arguments.library)
    bench = Bench(library, Timer(Baselines(arguments.baselines), arguments.rounds))
    for scales in arguments.scales:
        for n, k in SHAPES:
            for m in arguments.m:
                for accumulation in arguments.accumulation:
                    bench.case(scales, n, k, m, accumulation == "fast")
                    gc.collect()
    about = machine(library)
    os.makedirs(arguments.out, exist_ok=True)
    write_csv(os.path.join(arguments.out, "gpu-matmul-torch.csv"), about, HEADER, bench.rows)
    print("; ".join(f"{title} {value}" for title, value in about.items()))
    print_table("microseconds of a product, bf16 out", ["case", "rowscale", "torch._scaled_mm", "ours / torch"], bench.table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
