"""The goals of quantization on one H200, and whether a run of compare_baselines.py reaches them.

Pure arithmetic on comparisons (cold_graphs.Comparison): it needs no GPU. A goal is judged at its
worst shape, so that one line says whether it holds everywhere it is asked for.
"""

import dataclasses

TOKENS = (1, 16, 128, 512, 2048, 4096, 17083, 65536)
HIDDEN = (2048, 4096, 5120, 7168, 8192)
SMALL = tuple(tokens for tokens in TOKENS if tokens <= 128)

GROUP, TOKEN, TENSOR = "per_group(128)", "per_token", "per_tensor"
OP, ROWS, TWO_PASS, COPY = "op", ("row 4 warps", "row 8 warps"), "two_pass", "copy21"
NORMAL = "normal"
PATTERNS = ("0.1 % zeros", "1 % zeros", "10 % zeros", "50 % zeros", "ReLU output", "subnormal", "N * 1e-30",
            "infinities")
LAYOUTS = ("column_major", "column_major_tma", "ue8m0_f32", "ue8m0", "ue8m0 column_major_tma", "ue8m0_packed",
           "strided rows", "hidden 5120", "hidden 7168")
LAYOUT_TOKENS = (4096, 17083)
LARGE_BYTES, MEDIUM_BYTES = 200e6, (48e6, 70e6)


@dataclasses.dataclass
class Verdict:
    goal: str
    where: str  # the worst shape of those that the goal is about
    figure: float
    sign: str  # ">=" or "<="
    bound: float

    @property
    def reached(self):
        return self.figure >= self.bound if self.sign == ">=" else self.figure <= self.bound

    @property
    def word(self):
        return "PASS" if self.reached else "MISS"


def at_least(goal, bound, figures):
    """figures: (figure, where). None where nothing of the kind was measured."""
    return judge(goal, ">=", bound, min(figures, default=None))


def at_most(goal, bound, figures):
    return judge(goal, "<=", bound, max(figures, default=None))


def judge(goal, sign, bound, worst):
    return [] if worst is None else [Verdict(goal, worst[1], worst[0], sign, bound)]


def name(shape):
    tokens, hidden = shape
    return f"{tokens} x {hidden}"


def group_goals(shapes):
    """shapes: {(tokens, hidden): Comparison}, the memory cold."""
    traffic = {shape: one.bytes[GROUP] for shape, one in shapes.items()}
    rates = {shape: one.rate(GROUP) / 1e12 for shape, one in shapes.items()}

    def over_best(one):
        return one.ratio(GROUP, one.fastest((OP, *ROWS)))

    return [
        *at_least("per_group, TB/s from 200 MB", 4.1,
                  [(rates[s], name(s)) for s in shapes if traffic[s] >= LARGE_BYTES]),
        *at_least("per_group, TB/s at 50 MB", 3.6,
                  [(rates[s], name(s)) for s in shapes if MEDIUM_BYTES[0] <= traffic[s] <= MEDIUM_BYTES[1]]),
        *at_most("per_group, time / the better of op and row", 1.02,
                 [(over_best(one), name(s)) for s, one in shapes.items()]),
        *at_least("per_group, op's time / ours at 17083", 1.25, speedups(shapes, (17083,))),
        *small_group_goals(shapes, ""),
    ]


def speedups(shapes, tokens):
    return [(1 / one.ratio(GROUP, OP), name(s)) for s, one in shapes.items() if s[0] in tokens]


def small_group_goals(shapes, note):
    return [*at_least("per_group, op's time / ours at 1 to 16" + note, 1.25, speedups(shapes, (1, 16))),
            *at_least("per_group, op's time / ours at 128" + note, 1.2, speedups(shapes, (128,)))]


def token_goals(shapes):
    return [*at_most("per_token, time / per_group from 4096", 1.05,
                     [(one.ratio(TOKEN, GROUP), name(s)) for s, one in shapes.items() if s[0] >= 4096]),
            *small_token_goals(shapes, "")]


def small_token_goals(shapes, note):
    small = {shape: one for shape, one in shapes.items() if shape[0] < 4096}
    return [*at_most("per_token, us more than per_group below 4096" + note, 0.4,
                     [(one.difference(TOKEN, GROUP), name(s)) for s, one in small.items()]),
            *at_most("per_token, us at 1" + note, 1.6,
                     [(one.us(TOKEN), name(s)) for s, one in small.items() if s[0] == 1])]


def tensor_goals(shapes, ceilings, l2_bytes):
    """The roof: the bytes of per_tensor at the rate of the fastest copy kernel on the same shape."""
    large, cached = [], []
    for shape, one in shapes.items():
        roof = one.fastest(ceilings)
        figure = (one.ratio_per_byte(TENSOR, roof), name(shape))
        fits = 2 * shape[0] * shape[1] <= l2_bytes
        if fits and shape[0] >= 4096:
            cached.append(figure)
        elif not fits and one.bytes[TENSOR] >= LARGE_BYTES:
            large.append(figure)
    return [*at_most("per_tensor, time / roof, input larger than L2 (two readings)", 1.1, large),
            *at_most("per_tensor, time / roof, input in L2 (one reading), from 4096", 1.1, cached)]


def layout_goals(layouts):
    """layouts: {tokens: Comparison} whose sides are GROUP (row-major fp32) and LAYOUTS."""
    return [verdict for layout in LAYOUTS
            for verdict in at_most(f"{layout}, time / row-major fp32, per byte", 1.05,
                                   [(one.ratio_per_byte(layout, GROUP), f"{tokens} tokens")
                                    for tokens, one in layouts.items() if layout in one.times])]


def side_of(recipe, pattern):
    return f"{recipe}, {pattern}"


def data_goals(data):
    """data: {tokens: Comparison} whose sides are side_of(recipe, pattern)."""
    return [verdict for pattern in PATTERNS
            for verdict in at_most(f"{pattern}, time / normal data", 1.03,
                                   [(one.ratio(side_of(recipe, pattern), side_of(recipe, NORMAL)),
                                     f"{recipe}, {tokens} tokens")
                                    for tokens, one in data.items() for recipe in (GROUP, TOKEN, TENSOR)
                                    if side_of(recipe, pattern) in one.times])]


def verdicts(shapes, rotated, layouts, data, ceilings, l2_bytes):
    in_turn = " (64 sets in turn)"
    return [*group_goals(shapes), *small_group_goals(rotated, in_turn), *token_goals(shapes),
            *small_token_goals(rotated, in_turn), *tensor_goals(shapes, ceilings, l2_bytes),
            *layout_goals(layouts), *data_goals(data)]
