#!/usr/bin/env python3
"""Holds cast_model.py to the bytes that llm-compressor made, and both to exact fractions."""

import bisect
import fractions
import os
import sys

import ml_dtypes
import numpy as np

import cast_model
import folder
from make_cast_golden import DATA, DTYPES, INPUTS, STRATEGIES, inputs

# The values of e4m3 that are not negative, by code.
VALUES = [
    (
        fractions.Fraction(code & 7, 512)
        if code < 8
        else fractions.Fraction(8 + (code & 7), 8) * fractions.Fraction(2) ** ((code >> 3) - 7)
    )
    for code in range(0x7F)
]


def encode(quotient):
    """The nearest code, ties to the even one, saturating."""
    size = min(abs(quotient), VALUES[-1])
    above = bisect.bisect_left(VALUES, size)
    below = above if VALUES[above] == size else above - 1
    lower, upper = size - VALUES[below], VALUES[above] - size
    code = below if lower < upper or (lower == upper and below % 2 == 0) else above
    return code | (0x80 if quotient < 0 else 0)


def nearest(value, dtype):
    """The fraction's nearest value of the dtype, ties to even: found among its neighbours."""
    info = ml_dtypes.finfo(dtype)
    if value == 0:
        return fractions.Fraction(0)
    exponent = max(exponent_of(value), int(info.minexp))
    step = fractions.Fraction(2) ** (exponent - int(info.nmant))
    steps = value / step
    whole = steps.numerator // steps.denominator
    rest = steps - whole
    whole += rest > fractions.Fraction(1, 2) or (rest == fractions.Fraction(1, 2) and whole % 2)
    return whole * step


def exponent_of(value):
    """floor(log2(|value|)), exactly."""
    size = abs(value)
    guess = size.numerator.bit_length() - size.denominator.bit_length()
    return guess if fractions.Fraction(2) ** guess <= size else guess - 1


def exact(x, strategy, dtype):
    """(codes, scale) by fractions, one rounding to the dtype each; rows one at a time are enough."""
    scale = cast_model.amax(x, strategy)
    flat = [nearest(fractions.Fraction(float(a)) / 448, dtype) for a in scale.ravel()]
    flat = [s if s else fractions.Fraction(float(ml_dtypes.finfo(dtype).eps)) for s in flat]
    index = cast_model.spread(np.arange(len(flat)).reshape(scale.shape), strategy, x.shape)
    codes = np.zeros(x.shape, np.uint8)
    for at in np.ndindex(x.shape):
        quotient = nearest(fractions.Fraction(float(x[at])) / flat[index[at]], dtype)
        codes[at] = encode(quotient)
    return codes, np.array([float(s) for s in flat]).astype(dtype).reshape(scale.shape)


def bits(array):
    return np.ascontiguousarray(array).view(np.uint8)


def compare(problems, what, got, wanted):
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        problems.append(f"{what}: {got.dtype} {got.shape}, expected {wanted.dtype} {wanted.shape}")
        return
    different = np.argwhere((bits(got) != bits(wanted)).reshape(*got.shape, -1).any(axis=-1))
    if len(different):
        at = tuple(int(i) for i in different[0])
        problems.append(f"{what}: {len(different)} differ; at {at} {got[at]!r}, expected {wanted[at]!r}")


def main():
    problems, compared = [], 0
    for dtype_name, dtype in DTYPES.items():
        golden = folder.Shard(os.path.join(DATA, f"casts_{dtype_name}.safetensors"))
        made = inputs(dtype)
        for name in INPUTS:
            x = golden[f"{name}.input"]
            compare(problems, f"{dtype_name} {name}.input", made[name], x)
            for strategy in STRATEGIES:
                what = f"{dtype_name} {name} {strategy}"
                codes, scale = cast_model.compressed_tensors(x, strategy)
                compare(problems, f"{what} codes", codes, golden[f"{name}.{strategy}.codes"])
                compare(problems, f"{what} scale", scale, golden[f"{name}.{strategy}.scale"])
                exact_codes, exact_scale = exact(x, strategy, dtype)
                compare(problems, f"{what} codes by fractions", exact_codes, bits(codes))
                compare(problems, f"{what} scale by fractions", exact_scale, scale)
                compared += codes.size
    for problem in problems:
        print(problem)
    print(f"{compared} codes compared, {len(problems)} problems")
    return 1 if problems or compared == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
