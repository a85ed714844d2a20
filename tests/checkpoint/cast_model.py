"""The casts of docs/numerics.md section 9, written again: numpy's IEEE fp32 and ml_dtypes' roundings.

Shares no code with the library. check_casts.py holds it to llm-compressor's bytes and to fractions.
A weight is [out, in]; strategies are channel (a row), block (128 x 128) and tensor.
"""

import ml_dtypes
import numpy as np

from weights import E4M3, F32

MAX = F32.type(448)
BLOCK = 128


def amax(x, strategy):
    """fp32, in the shape of the scales: [out, 1], [ceil(out/128), ceil(in/128)] or [1]."""
    size = np.abs(x.astype(F32))
    if strategy == "channel":
        return size.max(axis=1, keepdims=True)
    if strategy == "tensor":
        return size.max(keepdims=True).reshape(1)
    rows, columns = (-(-length // BLOCK) for length in x.shape)
    padded = np.zeros((rows * BLOCK, columns * BLOCK), F32)
    padded[: x.shape[0], : x.shape[1]] = size
    return padded.reshape(rows, BLOCK, columns, BLOCK).max(axis=(1, 3))


def spread(scale, strategy, shape):
    """The scale of each element."""
    if strategy == "block":
        return np.repeat(np.repeat(scale, BLOCK, 0), BLOCK, 1)[: shape[0], : shape[1]]
    return np.broadcast_to(scale, shape)


def compressed_tensors(x, strategy, shared=None):
    """(codes, scale): two roundings, both to the dtype of x. shared: the amax of a fused group."""
    dtype = x.dtype
    with np.errstate(all="ignore"):
        scale = ((amax(x, strategy) if shared is None else shared) / MAX).astype(dtype)
        scale[scale == 0] = ml_dtypes.finfo(dtype).eps
        q = (x.astype(F32) / spread(scale, strategy, x.shape).astype(F32)).astype(dtype)
        q = q + dtype.type(0)  # -0 becomes +0
        q = np.clip(q.astype(F32), -MAX, MAX)  # no rounding: 448 is a value of the dtype
        return q.astype(E4M3), scale


def precise(x, strategy, shared=None):
    """(codes, fp32 scale): one rounding; a zero amax makes the scale 1."""
    with np.errstate(all="ignore"):
        scale = (amax(x, strategy) if shared is None else shared) / MAX
        scale[scale == 0] = 1
        q = np.clip(x.astype(F32) / spread(scale, strategy, x.shape), -MAX, MAX)
        return q.astype(E4M3), scale


CASTS = {"compressed-tensors": compressed_tensors, "precise": precise}


def dequantized(codes, scale, strategy, dtype):
    """One multiplication in fp32, one rounding to the dtype."""
    return (codes.astype(F32) * spread(scale, strategy, codes.shape).astype(F32)).astype(dtype)
