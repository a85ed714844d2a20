"""Checks of the model against slower but more obvious arithmetic: exact fractions and tables."""

import os
from fractions import Fraction

import numpy as np

from fp32 import BF16, E4M3, E5M2, F16, F32, decode, encode, exp, fma, from_bits, round_to, to_bits
from inputs import Bits
from producers import sum_of_squares

HERE = os.path.dirname(os.path.abspath(__file__))


def nearest(value, bits, emin, emax_value):
    """Fraction rounded to `bits` of significand, ties to even, quantum never below 2^emin.

    Returns a Fraction, or None for overflow beyond `emax_value` (the largest finite value).
    """
    if value == 0:
        return Fraction(0)
    magnitude = abs(value)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if Fraction(2) ** exponent > magnitude:
        exponent -= 1
    quantum = Fraction(2) ** max(exponent - bits + 1, emin)
    rounded = round(magnitude / quantum) * quantum  # round() of a Fraction is ties-to-even
    if rounded > emax_value:
        return None
    return -rounded if value < 0 else rounded


FLOAT_MAX = Fraction(float.fromhex("0x1.fffffep+127"))


def slow_fma(a, b, c):
    """a*b+c through exact fractions; special values by the IEEE rules."""
    a, b, c = float(a), float(b), float(c)
    if not (np.isfinite(a) and np.isfinite(b) and np.isfinite(c)):
        return F32(np.float64(a) * np.float64(b) + np.float64(c))
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        # The sum of zeros of unlike sign, and exact cancellation, are +0.
        product = np.float64(a) * np.float64(b) if a == 0 or b == 0 else np.float64(1)
        both_negative = product == 0 and np.signbit(product) and c == 0 and np.signbit(c)
        return F32(-0.0) if both_negative else F32(0)
    rounded = nearest(exact, 24, -149, FLOAT_MAX)
    sign = -1.0 if exact < 0 else 1.0
    if rounded is None:
        return F32(sign * np.inf)
    return F32(np.copysign(float(rounded), sign))


def same(a, b):
    return bool(np.all((to_bits(a) == to_bits(b)) | (np.isnan(a) & np.isnan(b))))


def check_fma():
    random = Bits(11)
    a, b, c = (random.f32_patterns((6000,)) for _ in range(3))
    # Half of the sums near cancellation, where the second rounding would show.
    c[::2] = -(a[::2] * b[::2]) * (F32(1) + random.normal((3000,)) * F32(2.0**-22))
    # Midpoints of fp32 and sticky bits far below them.
    a[:500], b[:500] = F32(1 + 2.0**-12), F32(1 + 2.0**-12)
    c[:500] = random.normal((500,)) * F32(2.0**-30)
    # Products that end among the subnormals.
    a[500:1500] = F32(2.0**-75) * random.normal((1000,))
    b[500:1500] = F32(2.0**-74) * random.normal((1000,))
    c[500:1000] = from_bits(random.raw(500) & np.uint32(0x800FFFFF))
    slow = np.array([slow_fma(*abc) for abc in zip(a, b, c)], dtype=F32)
    assert same(fma(a, b, c), slow), "fma"
    zeros = np.array([0.0, -0.0], dtype=F32)
    for triple in np.stack(np.meshgrid(zeros, np.array([1.0, -1.0, 0.0], dtype=F32), zeros), -1).reshape(
        -1, 3
    ):
        assert to_bits(fma(*triple)) == to_bits(slow_fma(*triple)), triple


def check_exp():
    lines = open(os.path.join(HERE, "exp_golden.txt"), encoding="ascii").read().splitlines()
    pairs = [line.split() for line in lines if not line.startswith("#")]
    x = from_bits([int(i, 16) for i, _ in pairs])
    expected = from_bits([int(o, 16) for _, o in pairs])
    assert same(exp(x), expected), "exp"
    return len(pairs)


def nearest_code(value, fmt, table):
    """Code of a Fraction by search: closest table entry, ties to the even code."""
    magnitude = abs(value)
    best = min(table, key=lambda code: (abs(table[code] - magnitude), code & 1))
    return best | (0x80 if value < 0 else 0)


def check_encode():
    """Every midpoint, its neighbours and a sample of all floats against the exact search."""
    random = Bits(12)
    for fmt in (E4M3, E5M2):
        codes = np.arange(fmt.max_code + 1, dtype=np.uint8)
        values = [formula_value(int(code), fmt) for code in codes]
        assert [Fraction(float(v)) for v in decode(codes, fmt)] == values, "decode"
        table = dict(zip(codes.tolist(), values))
        middles = np.array([float(lo + hi) / 2 for lo, hi in zip(values, values[1:])], dtype=F32)
        sample = np.concatenate(
            [
                middles,
                np.nextafter(middles, F32(np.inf)),
                np.nextafter(middles, F32(0)),
                decode(codes, fmt),
                random.f32_patterns((1500,)),
                random.normal((1500,)) * F32(100),
                from_bits(random.raw(300) & np.uint32(0x007FFFFF)),
            ]
        )
        sample = np.concatenate([sample, -sample])
        for x, code in zip(sample, encode(sample, fmt)):
            if np.isnan(x):
                expected = 0x7F
            elif np.isinf(x):
                expected = fmt.min_code if x < 0 else fmt.max_code
            else:
                expected = nearest_code(Fraction(float(x)), fmt, table)
                expected |= 0x80 if np.signbit(x) else 0
            assert code == expected, (fmt.name, x, code, expected)


def formula_value(code, fmt):
    """Value of a positive finite code from its bit fields."""
    mantissa_bits, bias = (3, 7) if fmt is E4M3 else (2, 15)
    exponent, mantissa = code >> mantissa_bits, code & ((1 << mantissa_bits) - 1)
    if exponent == 0:
        return Fraction(mantissa) * Fraction(2) ** (1 - bias - mantissa_bits)
    return (Fraction(mantissa) + 2**mantissa_bits) * Fraction(2) ** (exponent - bias - mantissa_bits)


def check_rounding():
    random = Bits(13)
    x = np.concatenate(
        [
            random.f32_patterns((4000,)),
            random.normal((2000,)),
            from_bits(random.raw(1000) & np.uint32(0x3FFF8000)),
            random.normal((1000,)) * F32(2.0**-20),
            np.array([65504, 65519.996, 65520, 3.39e38, 3.4028235e38], dtype=F32),
        ]
    )
    for dtype, bits, emin, largest in ((F16, 11, -24, 65504), (BF16, 8, -133, float(BF16(3.3895314e38)))):
        for value, rounded in zip(x, round_to(dtype, x).astype(F32)):
            if not np.isfinite(value):
                assert same(value, rounded)
                continue
            exact = nearest(Fraction(float(value)), bits, emin, Fraction(largest))
            expected = F32(np.copysign(np.inf if exact is None else abs(float(exact)), value))
            assert to_bits(rounded) == to_bits(expected), (dtype, value, rounded)


def check_tree():
    """The sum tree, one scalar at a time, for a row with a partial chunk and lanes of one and two chunks."""
    z = Bits(14).normal((2100,))
    lane = [F32(0)] * 256
    for j in range(-(-len(z) // 8)):
        c = F32(0)
        for value in z[8 * j : 8 * j + 8]:
            c = slow_fma(value, value, c)
        lane[j % 256] = lane[j % 256] + c
    for k in (128, 64, 32, 16, 8, 4, 2, 1):
        for i in range(k):
            lane[i] = lane[i] + lane[i + k]
    assert same(sum_of_squares(z), lane[0]), "tree"


def run():
    check_fma()
    check_tree()
    count = check_exp()
    check_encode()
    check_rounding()
    print(f"model: fma, the tree, {count} values of exp, encode and rounding agree with exact arithmetic")


if __name__ == "__main__":
    run()
