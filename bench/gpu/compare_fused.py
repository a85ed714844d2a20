#!/usr/bin/env python3
"""Times rowscale's fused operators on a GPU beside copies of the same traffic and beside the chain of its own
separate operators, and judges the goals of fused_goals.py.

    cmake --preset cuda && cmake --build --preset cuda
    python3 bench/gpu/compare_fused.py --out DIR

Needs a GPU, PyTorch and Triton; no part of ./check. First the fused bits are compared with the chain's, then
everything is timed (cold_graphs.py: graphs, cold memory, all sides in every round); the table of goals comes
last. Writes DIR/gpu-fused.csv and DIR/gpu-fused-goals.csv. Exit status 1: a goal was missed.

A residual is updated in place, so it grows from launch to launch: the time of no kernel depends on its data.
"""

import gc
import sys

import torch

import fused_goals as goals
import tables
from cold_graphs import Memory, Side
from fused_goals import OPERATORS, chain, fused
from goals import GROUP, NORMAL, PATTERNS, TOKEN, side_of
from inputs import empty_codes, normal, patterned
from rowscale_c import Chain, ProduceAndQuantize, Producer
from same_bits import GROUP_TEXT, TOKEN_TEXT, poisoned, same, special
from session import Session, read_arguments, status_of

TEXTS = {GROUP: GROUP_TEXT, TOKEN: TOKEN_TEXT, goals.GROUP_UE8M0: f"{GROUP_TEXT} encoding=ue8m0_packed",
         goals.TOKEN_UE8M0: f"{TOKEN_TEXT} encoding=ue8m0"}
DATA_HIDDEN = 4096


class Tensors:
    """What an operator works on, in several sets."""

    def __init__(self, operator, sets, tokens, hidden, pattern=NORMAL):
        self.operator = operator
        width = 2 * hidden if operator.is_gated else hidden
        self.x = list(patterned(pattern, sets, tokens, width))
        rows = torch.empty(sets, tokens, hidden, device="cuda", dtype=torch.bfloat16)
        self.rows = list(rows)  # of the chain, and of row_out
        self.codes = list(empty_codes(rows))
        self.residuals = list(normal(sets, tokens, hidden)) if operator.has_residual else None
        self.weight = None if operator.is_gated else normal(1, 1, hidden)[0, 0]

    def producer(self):
        return Producer(self.operator.function, self.weight, self.residuals)

    def row_out(self):
        return self.rows if self.operator.has_row else None


class Bench:
    """The sections of the measurement; keeps every line for the CSV file."""

    def __init__(self, library, baselines, timer):
        self.library, self.baselines, self.timer = library, baselines, timer
        self.rows = []

    # Sides

    def fused_side(self, recipe, tensors, launches):
        operator = tensors.operator
        call = ProduceAndQuantize(self.library, tensors.producer(), TEXTS[recipe], tensors.x, tensors.codes,
                                  tensors.row_out(), self.timer.stream.cuda_stream)
        moved = tensors.codes[0].numel() * operator.bytes + call.scale_bytes
        return Side(fused(operator, recipe), call, len(tensors.x), launches, moved)

    def chain_side(self, recipe, tensors, launches):
        operator = tensors.operator
        call = Chain(self.library, tensors.producer(), TEXTS[recipe], tensors.x, tensors.codes, tensors.rows,
                     self.timer.stream.cuda_stream)
        moved = tensors.codes[0].numel() * operator.chain_bytes + call.scale_bytes
        return Side(chain(operator, recipe), call, len(tensors.x), launches, moved)

    def ceiling_sides(self, tensors, launches):
        operator, stream, base = tensors.operator, self.timer.stream, self.baselines
        residuals = tensors.residuals or [None] * len(tensors.x)
        rows = tensors.row_out() or [None] * len(tensors.x)

        def launcher(variant):
            if operator.is_gated:
                return lambda i: base.gated_ceiling(variant, tensors.x[i], tensors.codes[i], stream)
            if not operator.has_residual and not operator.has_row:
                return lambda i: base.ceiling(variant, tensors.x[i], tensors.codes[i], stream)
            return lambda i: base.norm_ceiling(variant, tensors.x[i], residuals[i], rows[i], tensors.codes[i], stream)

        moved = tensors.codes[0].numel() * operator.bytes
        return [Side(side, launcher(variant), len(tensors.x), launches, moved)
                for variant, side in enumerate(goals.ceilings(operator, len(base.ceilings)))]

    # Sections

    def shape(self, tokens, hidden, memory=Memory.COLD):
        sides = []
        for operator in OPERATORS:
            if hidden not in operator.widths:
                continue
            sets, launches = self.timer.repetition(operator.bytes * tokens * hidden, memory)
            tensors = Tensors(operator, sets, tokens, hidden)
            recipes = goals.RECIPES if memory is Memory.COLD else goals.CHAINED
            sides += [self.fused_side(recipe, tensors, launches) for recipe in recipes]
            if operator.chain_bytes:
                sides += [self.chain_side(recipe, tensors, launches) for recipe in goals.CHAINED]
            if memory is Memory.COLD:
                sides += self.ceiling_sides(tensors, launches)
        comparison = self.timer.compare(sides, memory)
        self.keep("shapes", memory, tokens, hidden, comparison)
        return comparison

    def data(self, tokens, hidden=DATA_HIDDEN):
        sides = []
        for operator in goals.DATA_OPERATORS:
            sets, launches = self.timer.repetition(operator.bytes * tokens * hidden)
            for pattern in (NORMAL, *PATTERNS):
                tensors = Tensors(operator, sets, tokens, hidden, pattern)
                for recipe in goals.CHAINED:
                    side = self.fused_side(recipe, tensors, launches)
                    side.name = side_of(side.name, pattern)
                    sides.append(side)
        comparison = self.timer.compare(sides)
        self.keep("data", Memory.COLD, tokens, hidden, comparison)
        return comparison

    def keep(self, section, memory, tokens, hidden, comparison):
        """The base of a line: the fastest copy of its operator; in `data` the call's own normal data."""
        count = len(self.baselines.ceilings)
        for name in comparison.times:
            call, pattern = name.rsplit(", ", 1) if section == "data" else (name, NORMAL)
            operator = max((one for one in OPERATORS if one.name in name), key=lambda one: len(one.name))
            base = side_of(call, NORMAL) if section == "data" else comparison.fastest(goals.ceilings(operator, count))
            ratio = f"{comparison.ratio(name, base):.4f}" if base else ""
            self.rows.append([section, memory.value, tokens, hidden, call, pattern, f"{comparison.us(name):.4f}",
                              comparison.bytes[name], f"{comparison.rate(name) / 1e12:.4f}", base or "", ratio])


def check_bits(library, stream):
    """Fused and chain from the same bytes, a residual among them: the same codes, scales, rows, residual."""
    for operator in OPERATORS:
        for hidden in (4096, 7168):
            for recipe, text in TEXTS.items():
                got = results(library, stream, operator, hidden, text, ProduceAndQuantize)
                expected = results(library, stream, operator, hidden, text, Chain)
                for what, one, other in zip(("codes", "scales", "residual", "row"), got, expected):
                    if one is not None and other is not None:
                        same(f"{fused(operator, recipe)} beside the chain, hidden {hidden}, {what}", one, other)


def results(library, stream, operator, hidden, text, kind):
    torch.manual_seed(hidden)
    tokens = 515
    x = special(tokens, 2 * hidden if operator.is_gated else hidden)
    row = torch.empty(tokens, hidden, device="cuda", dtype=torch.bfloat16)
    codes = poisoned(row)
    residual = normal(1, tokens, hidden)[0] if operator.has_residual else None
    weight = None if operator.is_gated else normal(1, 1, hidden)[0, 0]
    producer = Producer(operator.function, weight, None if residual is None else [residual])
    rows = None if kind is ProduceAndQuantize and not operator.has_row else [row]
    torch.cuda.synchronize()
    call = kind(library, producer, text, [x], [codes], rows, stream.cuda_stream)
    call(0)
    torch.cuda.synchronize()
    return codes, call.scale_matrix(0).clone(), residual, row if operator.has_row else None


def print_shapes(shapes, count):
    for operator in OPERATORS:
        lines = []
        for (tokens, hidden), one in shapes.items():
            if hidden not in operator.widths:
                continue
            roof = one.fastest(goals.ceilings(operator, count))
            line = [f"{tokens} x {hidden}", tables.us(one, roof)]
            for recipe in goals.RECIPES:
                share = goals.share_of_ceiling(one, operator, recipe, count)
                line += [tables.us(one, fused(operator, recipe)), "-" if share is None else f"{share:.3f}"]
            line += [tables.us(one, chain(operator, recipe)) for recipe in goals.CHAINED]
            lines.append(line)
        header = ["tokens x hidden", "ceiling"]
        for recipe in goals.RECIPES:
            header += [recipe, "share"]
        tables.print_table(operator.name, header + [f"chain {recipe}" for recipe in goals.CHAINED], lines)


def main():
    arguments = read_arguments(__doc__, goals.TOKENS, sorted({*goals.WIDTHS, *goals.GATED_WIDTHS}),
                               ("bits", "shapes", "rotated", "data"))
    session = Session(arguments)
    library, timer = session.library, session.timer
    bench = Bench(library, timer.baselines, timer)
    shapes, rotated, data = {}, {}, {}
    if session.wants("bits"):
        check_bits(library, timer.stream)
        session.progress("bits: those of the chain")
    if session.wants("shapes"):
        for hidden in arguments.hidden:
            for tokens in arguments.tokens:
                shapes[tokens, hidden] = bench.shape(tokens, hidden)
                gc.collect()
        session.progress("shapes")
    about = session.machine()
    if session.wants("rotated"):
        rotated = {(tokens, hidden): bench.shape(tokens, hidden, Memory.ROTATED)
                   for hidden in arguments.hidden for tokens in arguments.tokens if tokens <= 128}
        session.progress("rotated")
    if session.wants("data"):
        data = {tokens: bench.data(tokens) for tokens in goals.LARGE}
        session.progress("data")

    count = len(timer.baselines.ceilings)
    verdicts = goals.verdicts(shapes, rotated, data, count)
    session.write(about, "gpu-fused.csv", bench.rows, "gpu-fused-goals.csv", verdicts)
    print("microseconds of a launch; share: bytes a second over those of the fastest copy of the same traffic")
    print_shapes(shapes, count)
    tables.print_verdicts(verdicts)
    return status_of(verdicts)


if __name__ == "__main__":
    sys.exit(main())
