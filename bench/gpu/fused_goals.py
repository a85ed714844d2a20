"""The goals of the fused operators on one H200, and whether a run of compare_fused.py reaches them.

Pure arithmetic on comparisons (cold_graphs.Comparison), as goals.py.
"""

import dataclasses

from goals import GROUP, NORMAL, PATTERNS, TOKEN, at_least, at_most, name, side_of

TOKENS = (1, 16, 128, 512, 4096, 17083)
LARGE = (4096, 17083)
GROUP_UE8M0, TOKEN_UE8M0 = "per_group(128) ue8m0_packed", "per_token ue8m0"
RECIPES = (GROUP, TOKEN, GROUP_UE8M0, TOKEN_UE8M0)
CHAINED = (GROUP, TOKEN)  # recipes that are measured beside the chain, and on every pattern of data


@dataclasses.dataclass(frozen=True)
class Operator:
    """Bytes of memory for each element of the codes, of bf16 input and without scales."""
    name: str
    function: str  # of the C interface
    widths: tuple  # of the rows of codes
    read: int
    written: int
    chain_bytes: int  # of the separate operator and quantize together; 0: no goal

    @property
    def is_gated(self):
        return self.function == "silu_mul"

    @property
    def has_residual(self):
        return "residual" in self.name

    @property
    def has_row(self):
        return "row" in self.name

    @property
    def bytes(self):
        return self.read + self.written


WIDTHS, GATED_WIDTHS = (4096, 5120, 7168, 8192), (4096, 7168, 14336)
NORM = Operator("rms_norm", "rms_norm", WIDTHS, 2, 1, 7)
RESIDUAL = Operator("rms_norm + residual", "rms_norm", WIDTHS, 4, 3, 11)
ROW = Operator("rms_norm + row_out", "rms_norm", WIDTHS, 2, 3, 0)
RESIDUAL_ROW = Operator("rms_norm + residual + row_out", "rms_norm", WIDTHS, 4, 5, 11)
SILU = Operator("silu_mul", "silu_mul", GATED_WIDTHS, 4, 1, 9)
OPERATORS = (NORM, RESIDUAL, ROW, RESIDUAL_ROW, SILU)
DATA_OPERATORS = (NORM, RESIDUAL, SILU)

CEILING_SHARE = 0.88
CHAIN_SHARE = 0.9  # of the ratio of the bytes
ONE_TOKEN_US = {4096: 2.4, 7168: 3.2}
DATA_BOUND = 1.03


def fused(operator, recipe):
    return f"{operator.name}, {recipe}"


def chain(operator, recipe):
    return f"chain of {operator.name}, {recipe}"


def ceilings(operator, count):
    return [f"ceiling{variant} of {operator.name}" for variant in range(count)]


def share_of_ceiling(one, operator, recipe, count):
    """Bytes a second over those of the fastest copy; None where one was not measured."""
    roof = one.fastest(ceilings(operator, count))
    side = fused(operator, recipe)
    return None if roof is None or side not in one.times else 1 / one.ratio_per_byte(side, roof)


def ceiling_goals(shapes, count):
    """shapes: {(tokens, hidden): Comparison}, the memory cold; count: of the copy kernels."""
    verdicts = []
    for operator in OPERATORS:
        for recipe in RECIPES:
            shares = [(share_of_ceiling(one, operator, recipe, count), name(shape))
                      for shape, one in shapes.items() if shape[0] in LARGE and shape[1] in operator.widths]
            verdicts += at_least(f"{fused(operator, recipe)}: share of the copy ceiling from 4096", CEILING_SHARE,
                                 [share for share in shares if share[0] is not None])
    return verdicts


def chain_goals(shapes):
    """How much faster than the chain, over how many more bytes the chain moves."""
    verdicts = []
    for operator in OPERATORS:
        if not operator.chain_bytes:
            continue
        for recipe in CHAINED:
            sides = (chain(operator, recipe), fused(operator, recipe))
            figures = [(one.ratio(*sides) * operator.bytes / operator.chain_bytes, name(shape))
                       for shape, one in shapes.items()
                       if shape[0] == 17083 and all(side in one.times for side in sides)]
            verdicts += at_least(f"{fused(operator, recipe)}: chain's time / ours, of "
                                 f"{operator.chain_bytes}/{operator.bytes}, at 17083", CHAIN_SHARE, figures)
    return verdicts


def one_token_goals(shapes, note):
    side = fused(RESIDUAL, GROUP)
    return [verdict for hidden, bound in ONE_TOKEN_US.items()
            for verdict in at_most(f"{side}: us at 1 x {hidden}{note}", bound,
                                   [(one.us(side), name(shape)) for shape, one in shapes.items()
                                    if shape == (1, hidden) and side in one.times])]


def data_goals(data):
    """data: {tokens: Comparison} whose sides are side_of(fused(operator, recipe), pattern)."""
    calls = [fused(operator, recipe) for operator in DATA_OPERATORS for recipe in CHAINED]
    return [verdict for pattern in PATTERNS
            for verdict in at_most(f"{pattern}: time / normal data", DATA_BOUND,
                                   [(one.ratio(side_of(call, pattern), side_of(call, NORMAL)),
                                     f"{call}, {tokens} tokens")
                                    for tokens, one in data.items() for call in calls
                                    if side_of(call, pattern) in one.times])]


def verdicts(shapes, rotated, data, count):
    return [*ceiling_goals(shapes, count), *chain_goals(shapes), *one_token_goals(shapes, ""),
            *one_token_goals(rotated, " (64 sets in turn)"), *data_goals(data)]
