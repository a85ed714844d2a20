#!/usr/bin/env python3
"""The goals of matmul on one H200, and whether runs of `rowscale bench matmul` reach them.

    matmul_goals.py --out DIR FILE...     FILE: what --csv wrote; the runs' lines together are judged

Prints a line for each goal and writes DIR/gpu-matmul-goals.csv. A goal is judged at its worst case; one whose
cases were not all measured is left out. Exit: 0 all that were judged are reached; 1 some are not, or none was judged.
Python's standard library only.
"""

import argparse
import csv
import math
import os
import statistics
import sys

from goals import at_least, at_most
from tables import print_verdicts

SHAPES = ((6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336), (4096, 7168), (7168, 2048))
EXPERT_SHAPES = ((4096, 7168), (7168, 2048))
VECTOR, BLOCK = "token-channel", "block"
OVER_OUTER = {1: 0.58, 8: 0.58, 16: 0.62, 32: 0.72, 64: 0.72}
OVER_FLOOR = ((100e6, 1.25), (50e6, 1.45))  # of weights of at least so many bytes
FLOOR_M = 16  # and less
BLOCK_SPEEDUP, BLOCK_SMALL, BLOCK_SERVED = 1.3, (8, 16), 1  # cuBLASLt refuses m = 1
BLOCK_LARGE = 32  # and more
MOST_UNTUNED = 64  # rows
NOT_SLOWER = 1.02  # two runs of the same work differ by this
EXPERTS, TOP_K, EXPERT_TOKENS, OVER_EXPERTS = 256, 8, 64, 1.4
LINEAR_FACTOR, LINEAR_US, LINEAR_M = 1.15, 2.0, 64
CALL_US, LAUNCH_US = 5.0, 2.5


class Line:
    """Of the CSV."""

    def __init__(self, fields):
        self.fields = fields
        self.part, self.call, self.scales = fields["part"], fields["call"], fields["scales"]
        self.accumulation, self.backend, self.out = fields["accumulation"], fields["backend"], fields["out"]
        self.n, self.k, self.m = int(fields["n"]), int(fields["k"]), int(fields["m"])
        self.experts, self.top_k, self.tokens = (int(fields[name]) for name in ("experts", "top_k", "tokens"))
        self.rows, self.touched = fields["rows"], int(fields["touched_experts"])
        self.is_chosen, self.is_tuned_choice = fields["chosen"] == "yes", fields["chosen_by_tuning"] == "yes"
        self.is_tuned = fields["tuning"] == "measured"
        self.us, self.launches = float(fields["us"]), int(fields["work_launches"])

    @property
    def shape(self):
        return self.n, self.k

    @property
    def case(self):
        return self.n, self.k, self.m, self.rows, self.accumulation, self.out

    @property
    def ceiling(self):
        """Bytes a microsecond."""
        return float(self.fields["ceiling_gb_per_s"]) * 1e3

    @property
    def over_floor(self):
        return self.us / float(self.fields["floor_us"])

    @property
    def where(self):
        return f"{self.n}x{self.k}, m {self.m}, {self.backend}"


def part(lines, name, scales=None):
    return [line for line in lines if line.part == name and scales in (None, line.scales)]


def chosen(lines):
    """Of the table; of many rows those that tuning chose, where it was asked."""
    tuned = {line.case for line in lines if line.is_tuned_choice and line.m > MOST_UNTUNED}
    return [line for line in lines if (line.is_tuned_choice if line.case in tuned else line.is_chosen)]


def over(lines, rivals):
    """(time of the chosen / the fastest rival's, where) for each case where a rival serves."""
    fastest = {}
    for line in lines:
        if line.backend in rivals and not line.is_tuned:
            fastest[line.case] = min(line.us, fastest.get(line.case, math.inf))
    return {line.case: (line.us / fastest[line.case], line.where) for line in chosen(lines) if line.case in fastest}


def geometric(figures):
    """One figure of all, and the worst of them as its place."""
    worst = max(figures)
    return [(statistics.geometric_mean(figure for figure, _ in figures), f"geometric mean; worst {worst[0]:.3f}, {worst[1]}")]


def by_m(ratios):
    """{(m, accumulation): [(ratio, where)]} of the goals' shapes, where all six were measured; bf16 out."""
    found = {}
    for (n, k, m, _, accumulation, out), figure in ratios.items():
        if (n, k) in SHAPES and out == "bf16":
            found.setdefault((m, accumulation), {})[n, k] = figure
    return {key: list(shapes.values()) for key, shapes in sorted(found.items()) if len(shapes) == len(SHAPES)}


def outer_goals(lines):
    dense = part(lines, "dense", VECTOR)
    verdicts = []
    for (m, accumulation), figures in by_m(over(dense, ("cublaslt",))).items():
        if m in OVER_OUTER:
            verdicts += at_most(f"{VECTOR}, {accumulation}: time / cuBLASLt's outer vectors, m = {m}", OVER_OUTER[m],
                                geometric(figures))
    least = math.inf
    for smallest, bound in OVER_FLOOR:
        small = [(line.over_floor, line.where) for line in chosen(dense)
                 if line.m <= FLOOR_M and smallest <= line.n * line.k < least]
        verdicts += at_most(f"{VECTOR}: time / byte floor, m <= {FLOOR_M}, weights from {smallest / 1e6:.0f} MB", bound, small)
        least = smallest
    return [*verdicts, *at_most(f"{VECTOR}: time / the faster of split and outer", NOT_SLOWER,
                                list(over(dense, ("cublaslt", "split")).values()))]


def block_goals(lines):
    dense = part(lines, "dense", BLOCK)
    ratios = over(dense, ("cublaslt",))
    verdicts = []
    for (m, accumulation), figures in by_m(ratios).items():
        if m in BLOCK_SMALL:
            mean, where = geometric(figures)[0]
            verdicts += at_least(f"{BLOCK}, {accumulation}: cuBLASLt's time / ours, m = {m}", BLOCK_SPEEDUP, [(1 / mean, where)])
    served = {line.shape for line in chosen(dense) if line.m == BLOCK_SERVED and line.shape in SHAPES}
    if dense:
        verdicts += at_least(f"{BLOCK}: n x k served at m = {BLOCK_SERVED}", len(SHAPES), [(len(served), f"m {BLOCK_SERVED}")])
    return [*verdicts, *at_most(f"{BLOCK}: time / cuBLASLt's, m >= {BLOCK_LARGE}", NOT_SLOWER,
                                [figure for case, figure in ratios.items() if case[2] >= BLOCK_LARGE])]


def expert_goals(lines):
    """The touched experts' weights at the ceiling's rate; their scales and the tokens are left out."""
    verdicts = []
    for scales in (VECTOR, BLOCK):
        figures = [(line.us / (line.touched * line.n * line.k / line.ceiling), f"{line.n}x{line.k}, {line.rows}")
                   for line in chosen(part(lines, "grouped", scales))
                   if (line.experts, line.top_k, line.tokens) == (EXPERTS, TOP_K, EXPERT_TOKENS)
                   and line.shape in EXPERT_SHAPES]
        verdicts += at_most(f"{scales}: time / reading the touched of {EXPERTS} experts, {EXPERT_TOKENS} tokens",
                            OVER_EXPERTS, figures)
    return verdicts


def linear_goals(lines):
    verdicts = []
    for scales in (VECTOR, BLOCK):
        linear = part(lines, "linear", scales)
        alone = {line.case: line.us for line in linear if line.call == "matmul"}
        for call in dict.fromkeys(line.call for line in linear if line.call != "matmul"):
            figures = [((line.us - LINEAR_US) / alone[line.case], line.where) for line in linear
                       if line.call == call and line.m <= LINEAR_M and line.case in alone]
            verdicts += at_most(f"{scales}: ({call} - {LINEAR_US:g} us) / matmul, m <= {LINEAR_M}", LINEAR_FACTOR, figures)
    return verdicts


def call_goals(lines):
    figures = [(line.us - LAUNCH_US * (line.launches - 1), f"{line.scales}, {line.backend}, {line.launches} launches")
               for line in part(lines, "calls") if line.call == "plan.run"]
    return at_most(f"a call's us of the host, less {LAUNCH_US:g} for each launch but one", CALL_US, figures)


def verdicts(lines):
    return [*outer_goals(lines), *block_goals(lines), *expert_goals(lines), *linear_goals(lines), *call_goals(lines)]


ABOUT = ("date", "version", "gpu", "driver", "sm_clock_mhz", "cuda")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--out", required=True, metavar="DIR", help="folder of gpu-matmul-goals.csv")
    arguments = parser.parse_args()
    lines = []
    for path in arguments.files:
        with open(path, newline="", encoding="utf-8") as file:
            lines += [Line(fields) for fields in csv.DictReader(file)]
    judged = verdicts(lines)
    os.makedirs(arguments.out, exist_ok=True)
    about = [lines[0].fields[title] for title in ABOUT] if lines else []
    with open(os.path.join(arguments.out, "gpu-matmul-goals.csv"), "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*ABOUT, "goal", "figure", "sign", "bound", "where", "verdict", "reached"])
        writer.writerows([*about, v.goal, f"{v.figure:.4f}", v.sign, v.bound, v.where, v.word, "yes" if v.reached else "no"]
                         for v in judged)
    print_verdicts(judged)
    return 0 if judged and all(verdict.reached for verdict in judged) else 1


if __name__ == "__main__":
    sys.exit(main())
