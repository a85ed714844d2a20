"""Input data that depend on nothing but a seed: no library generator whose stream may change."""

import numpy as np

from fp32 import BF16, F16, F32, from_bits


class Bits:
    """Random bits (PCG64's raw stream, which numpy keeps stable) shaped into inputs."""

    def __init__(self, seed):
        self.generator = np.random.PCG64(seed)

    def raw(self, count):
        return (self.generator.random_raw(count) >> np.uint64(32)).astype(np.uint32)

    def normal(self, shape):
        """Near normal, mean 0 and variance 1: an exact integer sum of twelve uniforms."""
        count = int(np.prod(shape))
        total = (self.raw(12 * count).reshape(12, count) >> np.uint32(8)).astype(np.int64).sum(axis=0)
        return ((total - 6 * 2**24) / 2.0**24).astype(F32).reshape(shape)

    def f32_patterns(self, shape):
        """All fp32 bit patterns alike: NaN of any payload, infinities, subnormals, huge values."""
        return from_bits(self.raw(int(np.prod(shape)))).reshape(shape).copy()

    def patterns(self, shape, dtype):
        """All bit patterns of the dtype alike, with every kind of special value made sure."""
        count = int(np.prod(shape))
        unsigned = np.uint32 if np.dtype(dtype).itemsize == 4 else np.uint16
        bits = self.raw(count).astype(unsigned)
        special = SPECIAL_BITS[np.dtype(dtype).name]
        for i, value in enumerate(special[: count // 2]):
            bits[(i * count) // len(special)] = value
        return bits.view(dtype).reshape(shape)

    def rows(self, shape, dtype):
        """Normal data whose rows differ in size by factors of 16, so that no two scales agree."""
        x = self.normal(shape)
        row = np.arange(int(np.prod(shape[:-1], dtype=np.int64))).reshape(shape[:-1] + (1,))
        return (x * (F32(16) ** (row % 4 - 2).astype(F32))).astype(dtype)


# Zeros, smallest and largest subnormal, smallest normal, largest, infinities, and NaNs of both signs,
# quiet and signalling, with several payloads.
SPECIAL_BITS = {
    "float32": [
        0x00000000,
        0x80000000,
        0x00000001,
        0x80000001,
        0x007FFFFF,
        0x00800000,
        0x7F7FFFFF,
        0xFF7FFFFF,
        0x7F800000,
        0xFF800000,
        0x7FC00000,
        0xFFC00000,
        0x7F800001,
        0xFFBADBAD,
    ],
    "float16": [
        0x0000,
        0x8000,
        0x0001,
        0x8001,
        0x03FF,
        0x0400,
        0x7BFF,
        0xFBFF,
        0x7C00,
        0xFC00,
        0x7E00,
        0xFE00,
        0x7C01,
        0xFDAD,
    ],
    "bfloat16": [
        0x0000,
        0x8000,
        0x0001,
        0x8001,
        0x007F,
        0x0080,
        0x7F7F,
        0xFF7F,
        0x7F80,
        0xFF80,
        0x7FC0,
        0xFFC0,
        0x7F81,
        0xFFBD,
    ],
}

DTYPES = {"f32": F32, "f16": F16, "bf16": BF16}


def special_rows(columns, dtype, finite_only=False):
    """One row for each kind of trouble; columns >= 4."""
    base = np.linspace(-1, 1, columns).astype(F32)
    nan = {4: 0xFFC00001, 2: 0xFFC1 if np.dtype(dtype) == np.dtype(BF16) else 0xFE01}[
        np.dtype(dtype).itemsize
    ]
    unsigned = np.uint32 if np.dtype(dtype).itemsize == 4 else np.uint16
    tiny = {"float32": 1e-42, "float16": 6e-7, "bfloat16": 1e-39}[np.dtype(dtype).name]
    huge = {"float32": 3e38, "float16": 65000.0, "bfloat16": 3e38}[np.dtype(dtype).name]
    rows = [base * 0, base * 0 - F32(0), base * F32(tiny), base * F32(huge), base.copy()]
    rows[1] = np.where(np.arange(columns) % 2 == 0, F32(-0.0), F32(0.0))
    x = np.stack(rows).astype(dtype)
    if finite_only:
        return x
    more = np.stack([base] * 5).astype(dtype)
    more[0, 1] = np.inf
    more[1, 2] = -np.inf
    more[2, 1], more[2, 3] = np.inf, -np.inf
    bits = more.view(unsigned)
    bits[3, 1] = nan
    bits[4, :] = nan
    bits[2, 2] = nan
    return np.concatenate([x, more])
