"""IEEE fp32 arithmetic, 16-bit rounding and the two FP8 codecs, on numpy arrays.

numpy evaluates one ufunc at a time, so nothing here can be fused by accident: every `a * b + c`
below is a rounded product followed by a rounded sum. The one fused operation is `fma`.
"""

import ml_dtypes
import numpy as np

# Overflow, 0/0 and friends are ordinary inputs here; their IEEE results are what we want.
np.seterr(all="ignore")

F32 = np.float32
F16 = np.float16
BF16 = ml_dtypes.bfloat16

CANONICAL_NAN = {4: 0x7FFFFFFF, 2: 0x7FFF}


class Format:
    """One FP8 format: what numpy type converts it, its largest value and its special codes."""

    def __init__(self, name, dtype, largest, largest_code):
        self.name = name
        self.dtype = dtype
        self.max = F32(largest)
        self.max_code = largest_code
        self.min_code = 0x80 | largest_code
        self.nan_code = 0x7F


E4M3 = Format("e4m3", ml_dtypes.float8_e4m3fn, 448, 0x7E)
E5M2 = Format("e5m2", ml_dtypes.float8_e5m2, 57344, 0x7B)
FORMATS = {"e4m3": E4M3, "e5m2": E5M2}


def from_bits(bits):
    """fp32 value(s) with the given bit pattern(s)."""
    return np.asarray(bits, dtype=np.uint32).view(F32)


def to_bits(values):
    return np.asarray(values, dtype=F32).view(np.uint32)


def widen(values):
    """Exact conversion of fp32, fp16 or bf16 to fp32."""
    return np.asarray(values).astype(F32)


def round_to(dtype, values):
    """r(x): one round-to-nearest-even to `dtype`; every NaN becomes the canonical one."""
    values = np.asarray(values, dtype=F32)
    rounded = values.astype(dtype)
    unsigned = np.uint32 if np.dtype(dtype).itemsize == 4 else np.uint16
    bits = rounded.view(unsigned).copy()
    bits[np.isnan(values)] = CANONICAL_NAN[np.dtype(dtype).itemsize]
    return bits.view(dtype)


def fma(a, b, c):
    """a * b + c with one rounding to fp32.

    The product of two fp32 values is exact in fp64. The sum is first rounded to odd in fp64, which
    keeps enough of what was lost for the second rounding, to fp32, to come out as if it were the
    only one (53 >= 24 + 2 bits; subnormal results included).
    """
    a, b, c = np.broadcast_arrays(*(np.asarray(v, dtype=F32).astype(np.float64) for v in (a, b, c)))
    product = a * b
    total = product + c
    # Knuth's two-sum: `lost` is exactly (product + c) - total.
    shadow = total - product
    lost = (product - (total - shadow)) + (c - shadow)
    even = (total.view(np.uint64) & np.uint64(1)) == 0
    inexact = np.isfinite(total) & np.isfinite(lost) & (lost != 0) & even
    toward = np.where(lost > 0, np.inf, -np.inf)
    return np.where(inexact, np.nextafter(total, toward), total).astype(F32)


def exp(x):
    """The library's exponential: a fixed sequence of fp32 operations."""
    x = np.asarray(x, dtype=F32)
    nan = np.isnan(x)
    x = np.where(nan, F32(0), np.minimum(np.maximum(x, F32(-104)), F32(89)))
    magic = F32(1.5 * 2.0**23)
    n = fma(x, F32(float.fromhex("0x1.715476p+0")), magic) - magic
    f = fma(n, F32(float.fromhex("-0x1.62e4p-1")), x)
    f = fma(n, F32(float.fromhex("-0x1.7f7d1cp-20")), f)
    p = F32(float.fromhex("0x1.a0d2cep-13"))
    for c in ("0x1.6e879cp-10", "0x1.11121p-7", "0x1.555382p-5", "0x1.555554p-3", "0.5", "1", "1"):
        constant = float.fromhex(c) if c.startswith("0x") else float(c)
        p = fma(p, f, F32(constant))
    whole = n.astype(np.int32)
    half = whole >> 1
    result = (p * power_of_two(half)) * power_of_two(whole - half)
    return np.where(nan, F32(np.nan), result)


def power_of_two(exponent):
    """2^exponent as fp32, for exponents of normal numbers."""
    return ((np.asarray(exponent, dtype=np.int32) + 127) << 23).view(F32)


def encode(q, fmt, nan="propagate"):
    """FP8 code of each fp32 quotient: saturating, nearest even, NaN by the recipe's rule."""
    q = np.asarray(q, dtype=F32)
    codes = q.astype(fmt.dtype).view(np.uint8).copy()
    # ml_dtypes overflows to NaN or infinity, so saturation is decided here, before its result counts.
    large = np.abs(q) >= fmt.max
    codes[large & ~np.signbit(q)] = fmt.max_code
    codes[large & np.signbit(q)] = fmt.min_code
    nan_code = {"propagate": fmt.nan_code, "clamp_high": fmt.max_code, "clamp_low": fmt.min_code}[nan]
    codes[np.isnan(q)] = nan_code
    return codes


def decode(codes, fmt):
    """fp32 value of each code; exact, infinities of e5m2 included."""
    return np.asarray(codes, dtype=np.uint8).view(fmt.dtype).astype(F32)
