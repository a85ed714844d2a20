"""Cases of vLLM's fused operators: profile vllm behind a norm or SiLU.

The recipe's text spells out what the operator must find for itself: `golden_test` sets floor, quotient
and nan back to `standard` before the call.
"""

import numpy as np

import vllm
from fp32 import BF16, F16, F32, to_bits
from inputs import Bits, special_rows
from model import recipe

# docs/numerics.md section 4: every operator here has the floor and the NaN rule of its per-token form.
FUSED = {"profile": "vllm", "nan": "clamp_high"}
FLOOR = ("scale", int(to_bits(vllm.SMALLEST_SCALE)))


def static():
    return recipe("per_tensor", source="given", profile="vllm")


def dynamic(*granularity, bound=None, **fields):
    limit = ("none",) if bound is None else (bound[0], int(to_bits(F32(bound[1]))))
    return recipe(*granularity, floor=FLOOR, bound=limit, **FUSED, **fields)


def build(b):
    norms(b)
    silu(b)


def norms(b):
    def weight(seed, hidden, dtype):
        return (F32(1) + Bits(seed).normal((hidden,)) * F32(0.3)).astype(dtype)

    def case(name, why, x, r, bound=None, residual=None, scale=None, eps=1e-6):
        w = weight(2001, x.shape[-1], x.dtype)
        if scale is not None:
            made = vllm.rms_norm_static(x, w, eps, scale, residual)
        else:
            group = r.sizes[0] if r.sizes else None
            made = vllm.rms_norm_dynamic(x, w, eps, group, bound, residual)
        b.fused_by_vllm("rms_norm", name, why, x, r, made, scale, weight=w, residual=residual, eps=eps)

    for i, (name, dtype) in enumerate((("bf16", BF16), ("f16", F16))):
        x, residual = Bits(2010 + i).rows((4, 200), dtype), Bits(2020 + i).rows((4, 200), dtype)
        for has_residual in (False, True):
            z = residual if has_residual else None
            suffix = f"{name}_residual" if has_residual else name
            why = "With a residual: " if has_residual else ""
            case(f"static_{suffix}", why + "a given scale.", x, static(), residual=z, scale=0.02)
            case(f"per_token_{suffix}", why + "a scale a token.", x, dynamic("per_token"), residual=z)
            case(f"per_block_{suffix}", why + "a scale a group.", x, dynamic("per_group", 64), residual=z)
    x, residual = Bits(2030).rows((3, 4100), BF16), Bits(2031).rows((3, 4100), BF16)
    case(
        "per_block_long_residual",
        "A row of several pieces, whose unrounded sum is made anew for the sum of squares and the codes.",
        x,
        dynamic("per_group", 128, layout="column_major"),
        residual=residual,
    )
    case("per_token_ub", "scale_ub bounds the amax.", x[:, :99], dynamic("per_token", bound=("amax", 1.5)), 1.5)
    case(
        "per_block_ub",
        "scale_ub bounds the amax behind a norm.",
        x[:, :192],
        dynamic("per_group", 64, bound=("amax", 1.25), layout="column_major_tma"),
        1.25,
    )
    tiny = np.zeros((2, 128), dtype=BF16)
    tiny[0, 64:], tiny[1, :64] = F32(3e-4), F32(2e-5)
    case(
        "per_block_tiny",
        "Groups of zeros and of an absmax below 2^-9 have the smallest scale, not absmax / 448.",
        tiny,
        dynamic("per_group", 64),
        eps=1.0,
    )
    for name, r in (("per_token", dynamic("per_token")), ("per_block", dynamic("per_group", 64))):
        case(f"{name}_special", "Infinities and NaN: the largest code.", special_rows(64, BF16), r)
        case(
            f"{name}_special_residual",
            "The same in the residual, which is stored rounded, with canonical NaN.",
            special_rows(64, BF16),
            r,
            residual=special_rows(64, BF16)[::-1].copy(),
        )


def silu(b):
    def case(name, why, x, r, bound=None, scale=None):
        if scale is not None:
            made = vllm.silu_and_mul_static(x, scale)
        elif r.sizes:
            made = vllm.silu_and_mul_per_block(x, r.sizes[0], bound)
        else:
            made = vllm.silu_and_mul_per_token(x, bound)
        b.fused_by_vllm("silu_mul", name, why, x, r, made, scale)

    for i, (name, dtype) in enumerate((("bf16", BF16), ("f16", F16), ("f32", F32))):
        x = (Bits(2100 + i).normal((3, 2 * 300)) * F32(3)).astype(dtype)
        case(f"static_{name}", "A given scale.", x, static(), scale=0.013)
        case(f"per_token_{name}", "A scale a token.", x, dynamic("per_token"))
        case(f"per_block_{name}", "A scale a group.", x, dynamic("per_group", 64, layout="column_major"))
    x = (Bits(2110).normal((4, 2 * 128)) * F32(3)).astype(BF16)
    case("per_token_ub", "scale_ub bounds the amax.", x, dynamic("per_token", bound=("amax", 2.5)), 2.5)
    case(
        "per_block_ub",
        "scale_ub bounds the scale behind SiLU.",
        x,
        dynamic("per_group", 64, bound=("scale", 0.01)),
        0.01,
    )
    case(
        "per_block_tiny",
        "Products below 2^-9 have the smallest scale.",
        (x.astype(F32) * F32(0.003)).astype(BF16),
        dynamic("per_group", 64),
    )
    gates = np.concatenate([np.linspace(-110, 110, 111), [87, -87.5, 88.8, -103.9, 0.0, -0.0, 1e-30]])
    gates = np.concatenate([gates, [np.inf, -np.inf, np.nan]]).astype(F32)
    up = np.resize(np.array([1, -0.5, 3, 7.5, -9], dtype=F32), gates.shape)
    x = np.concatenate([gates, up]).reshape(1, -1).astype(BF16)
    case("static_gates", "Gates around the thresholds of exp.", x, static(), scale=0.5)
    case("per_token_gates", "The same.", x, dynamic("per_token"))
    case("per_block_gates", "The same, with groups that end short.", x, dynamic("per_group", 64))
