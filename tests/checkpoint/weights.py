"""Weights that depend on nothing but their name: the bits of a hash's generator, looked up in a table.

They are shaped like those of language models: near normal with a heavy tail, rows and columns whose
sizes differ, so that no two scales agree and a scale taken from the wrong place shows.
"""

import functools
import hashlib
import statistics

import ml_dtypes
import numpy as np

BF16, F16, F32 = np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16), np.dtype(np.float32)
E4M3, E8M0 = np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e8m0fnu)

STRIP = 1 << 22  # elements that are made at a time


@functools.cache
def quantiles():
    """65536 values a 16-bit number chooses from. The cubic term makes the tail: up to 10.6 sigma."""
    normal = statistics.NormalDist()
    z = np.array([normal.inv_cdf((i + 0.5) / 65536) for i in range(32768, 65536)])
    upper = (z + 0.08 * z**3).astype(np.float32)
    return np.concatenate([-upper[::-1], upper])


def generator(name):
    """PCG64's raw stream, which numpy keeps stable."""
    return np.random.PCG64(int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little"))


def draw(source, count):
    raw = source.random_raw((count + 3) // 4).view(np.uint16)[:count]
    return quantiles()[raw]


def weight(name, shape, dtype=BF16, sigma=0.02):
    """[..., out, in]. Rows differ by about a factor of 4, one column in 64 is eight times as large."""
    rows, columns = int(np.prod(shape[:-1], dtype=np.int64)), shape[-1]
    source = generator(name)
    row_size = np.exp2(draw(source, rows) * 0.5).astype(np.float32) * np.float32(sigma)
    column_size = np.ones(columns, np.float32)
    column_size[source.random_raw(1)[0] % np.uint64(64) :: 64] = 8
    out = np.empty((rows, columns), dtype)
    step = max(1, STRIP // columns)
    for first in range(0, rows, step):
        part = draw(source, min(step, rows - first) * columns).reshape(-1, columns)
        part *= row_size[first : first + step, None]
        part *= column_size
        out[first : first + step] = part.astype(dtype)
    return out.reshape(shape)


def norm(name, shape, dtype=BF16):
    return (1 + 0.1 * draw(generator(name), int(np.prod(shape)))).astype(dtype).reshape(shape)


def edges(name, shape, dtype=BF16):
    """A weight whose rows hold what casts get wrong, one kind a row, repeated down the rows."""
    x = weight(name, shape, F32)
    limits = ml_dtypes.finfo(dtype)
    smallest, largest = float(limits.smallest_subnormal), float(limits.max)
    columns = np.arange(shape[-1])
    ties = np.where(columns == 0, 448, (columns % 112 + 0.5) * 0.125).astype(F32)
    kinds = [
        lambda row: row,
        lambda row: row * 0,  # +0 and -0
        lambda row: np.where(columns % 2 == 0, np.float32(0.0), np.float32(-0.0)),
        lambda row: np.sign(row) * F32.type(smallest) * (1 + columns % 7).astype(F32),  # subnormals only
        lambda row: np.where(columns == 3, np.float32(largest), row),  # one value dwarfs the rest
        lambda row: np.sign(row) * ties,  # scale 1: halfway between two codes
        lambda row: np.where(columns == 5, np.float32(-1.0), 0).astype(F32),  # one element
        lambda row: row * F32.type(2.0**-10),  # a scale that fp16 holds as a subnormal
        lambda row: np.sign(row) * F32.type(0.0123),  # all of one size
    ]
    flat = x.reshape(-1, shape[-1])
    for row in range(flat.shape[0]):
        flat[row] = kinds[row % len(kinds)](flat[row])
    return flat.astype(dtype).reshape(shape)
