#!/usr/bin/env python3
"""Times rowscale's quantize on a GPU beside what users run today, and judges the goals of goals.py.

    cmake --preset cuda && cmake --build --preset cuda
    python3 bench/gpu/compare_baselines.py --out DIR

Needs a GPU, PyTorch and Triton; no part of ./check. The baselines are our own rewrites (baselines.cu,
triton_row.py): a ratio to one is no ratio to another project's binary. First the bits are compared,
then everything is timed (cold_graphs.py: graphs, cold memory, both sides in every round); the table of
goals comes last. About two minutes. Writes DIR/gpu-baselines.csv and DIR/gpu-goals.csv. Exit status 1: a goal was missed.
"""

import sys

import goals
import same_bits
import tables
import triton_row
from baselines import scales_of_groups, scales_of_tokens
from cold_graphs import Memory, Side
from goals import COPY, GROUP, LAYOUT_TOKENS, NORMAL, OP, PATTERNS, ROWS, TENSOR, TOKEN, TWO_PASS, side_of
from inputs import empty_codes, normal, patterned
from rowscale_c import Quantize
from same_bits import GROUP_TEXT, TOKEN_TEXT
from session import Session, read_arguments, status_of

TENSOR_TEXT = "granularity=per_tensor"
TEXTS = {GROUP: GROUP_TEXT, TOKEN: TOKEN_TEXT, TENSOR: TENSOR_TEXT}
DATA_HIDDEN = 4096
LAYOUT_TEXTS = {
    "column_major": "layout=column_major",
    "column_major_tma": "layout=column_major_tma",
    "ue8m0_f32": "encoding=ue8m0_f32",
    "ue8m0": "encoding=ue8m0",
    "ue8m0 column_major_tma": "encoding=ue8m0 layout=column_major_tma",
    "ue8m0_packed": "encoding=ue8m0_packed",
}


class Bench:
    """The sections of the measurement; keeps every line for the CSV file."""

    def __init__(self, library, baselines, timer):
        self.library, self.baselines, self.timer = library, baselines, timer
        self.rows = []

    # Sides

    def ours(self, side, text, x, codes, launches, passes=1):
        call = Quantize(self.library, text, list(x), list(codes), self.timer.stream.cuda_stream)
        moved = x[0].numel() * (2 * passes + 1) + call.scale_bytes
        return Side(side, call, len(x), launches, moved)

    def tensor_passes(self, x):
        return 1 if x[0].numel() * 2 <= self.timer.l2_bytes else 2

    def baseline_sides(self, x, codes, launches):
        """op and row for groups, two_pass for tokens."""
        stream, base = self.timer.stream, self.baselines
        groups = [scales_of_groups(x[0]) for _ in x]
        tokens = [scales_of_tokens(x[0]) for _ in x]
        xs, cs = list(x), list(codes)
        moved = x[0].numel() * 3
        by_group, by_token = moved + groups[0].numel() * 4, moved + tokens[0].numel() * 4
        sides = [Side(OP, lambda i: base.op(xs[i], cs[i], groups[i], stream), len(xs), launches, by_group),
                 Side(TWO_PASS, lambda i: base.two_pass(xs[i], cs[i], tokens[i], stream), len(xs), launches,
                      by_token)]
        if triton_row.takes(x.shape[2]):
            sides += [Side(row, lambda i, warps=warps: triton_row.launch(xs[i], cs[i], groups[i], warps), len(xs),
                           launches, by_group) for row, warps in zip(ROWS, (4, 8))]
        return sides

    def copy_sides(self, x, codes, launches):
        stream, base = self.timer.stream, self.baselines
        xs, cs = list(x), list(codes)
        moved = x[0].numel() * 3
        sides = [Side(COPY, lambda i: base.copy21(xs[i], cs[i], stream), len(xs), launches, moved)]
        return sides + [Side(ceiling, lambda i, variant=variant: base.ceiling(variant, xs[i], cs[i], stream),
                             len(xs), launches, moved) for variant, ceiling in enumerate(base.ceilings)]

    # Sections

    def shape(self, tokens, hidden, memory=Memory.COLD):
        sets, launches = self.timer.repetition(3 * tokens * hidden, memory)
        x = normal(sets, tokens, hidden)
        codes = empty_codes(x)
        sides = [self.ours(GROUP, GROUP_TEXT, x, codes, launches), self.ours(TOKEN, TOKEN_TEXT, x, codes, launches)]
        sides += self.baseline_sides(x, codes, launches)
        if memory is Memory.COLD:
            sides.append(self.ours(TENSOR, TENSOR_TEXT, x, codes, launches, self.tensor_passes(x)))
            sides += self.copy_sides(x, codes, launches)
        comparison = self.timer.compare(sides, memory)
        self.keep("shapes", memory, tokens, hidden, comparison, OP)
        return comparison

    def layouts(self, tokens, hidden=DATA_HIDDEN):
        sets, launches = self.timer.repetition(3 * tokens * hidden)
        x = normal(sets, tokens, hidden)
        codes = empty_codes(x)
        sides = [self.ours(GROUP, GROUP_TEXT, x, codes, launches)]
        sides += [self.ours(layout, f"{GROUP_TEXT} {words}", x, codes, launches)
                  for layout, words in LAYOUT_TEXTS.items()]
        wide = normal(sets, tokens, hidden * 3 // 2)
        sides.append(self.ours("strided rows", GROUP_TEXT, [one[:, :hidden] for one in wide], codes, launches))
        for other in (5120, 7168):
            other_sets, other_launches = self.timer.repetition(3 * tokens * other)
            other_x = normal(other_sets, tokens, other)
            sides.append(self.ours(f"hidden {other}", GROUP_TEXT, other_x, empty_codes(other_x), other_launches))
        comparison = self.timer.compare(sides)
        self.keep("layouts", Memory.COLD, tokens, hidden, comparison, GROUP)
        return comparison

    def data(self, tokens, hidden=DATA_HIDDEN):
        """Every pattern through ours; through op and two_pass for the tables, which state no goal for them."""
        sets, launches = self.timer.repetition(3 * tokens * hidden)
        sides, codes = [], None
        for pattern in (NORMAL, *PATTERNS):
            x = patterned(pattern, sets, tokens, hidden)
            codes = empty_codes(x) if codes is None else codes
            for recipe, text in TEXTS.items():
                passes = self.tensor_passes(x) if recipe == TENSOR else 1
                sides.append(self.ours(side_of(recipe, pattern), text, x, codes, launches, passes))
            for side in self.baseline_sides(x, codes, launches):
                side.name = side_of(side.name, pattern)
                sides.append(side)
        comparison = self.timer.compare(sides)
        self.keep("data", Memory.COLD, tokens, hidden, comparison, None)
        return comparison

    def keep(self, section, memory, tokens, hidden, comparison, base):
        """base: the side of column `time_over_base`; None: each recipe's own normal data."""
        for name in comparison.times:
            recipe, _, pattern = name.partition(", ")
            beside = base or side_of(recipe, NORMAL)
            ratio = comparison.ratio_per_byte(name, beside) if section == "layouts" else comparison.ratio(name, beside)
            self.rows.append([section, memory.value, tokens, hidden, recipe, pattern or NORMAL,
                              f"{comparison.us(name):.4f}", comparison.bytes[name],
                              f"{comparison.rate(name) / 1e12:.4f}", beside, f"{ratio:.4f}"])


def main():
    arguments = read_arguments(__doc__, goals.TOKENS, goals.HIDDEN, ("bits", "shapes", "rotated", "layouts", "data"))
    session = Session(arguments)
    library, timer = session.library, session.timer
    bench = Bench(library, timer.baselines, timer)
    shapes, rotated, layouts, data = {}, {}, {}, {}
    if session.wants("bits"):
        same_bits.check_all(library, timer.baselines, timer.stream)
        session.progress("bits: those of op, row, two_pass and PyTorch")
    if session.wants("shapes"):
        shapes = {(t, h): bench.shape(t, h) for h in arguments.hidden for t in arguments.tokens}
        session.progress("shapes")
    about = session.machine()
    if session.wants("rotated"):
        rotated = {(t, h): bench.shape(t, h, Memory.ROTATED)
                   for h in arguments.hidden for t in goals.SMALL if t in arguments.tokens}
        session.progress("rotated")
    if session.wants("layouts"):
        layouts = {tokens: bench.layouts(tokens) for tokens in LAYOUT_TOKENS}
        session.progress("layouts")
    if session.wants("data"):
        data = {tokens: bench.data(tokens) for tokens in LAYOUT_TOKENS}
        session.progress("data")

    ceilings = timer.baselines.ceilings
    verdicts = goals.verdicts(shapes, rotated, layouts, data, ceilings, timer.l2_bytes)
    session.write(about, "gpu-baselines.csv", bench.rows, "gpu-goals.csv", verdicts)
    print("microseconds of a launch; op, row, two_pass and copy21 are our own rewrites")
    tables.print_shapes("cold memory, bf16", shapes, ceilings)
    tables.print_shapes("64 sets in turn: small tensors stay in the L2 cache", rotated, ceilings)
    tables.print_layouts(layouts)
    tables.print_data(data)
    tables.print_verdicts(verdicts)
    return status_of(verdicts)


if __name__ == "__main__":
    sys.exit(main())
