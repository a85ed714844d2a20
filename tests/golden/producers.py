"""The separate operators whose output is quantized: RMSNorm and the gated activations.

Each takes rows in fp32, fp16 or bf16 and returns rows of the same dtype. A fused operator is one of
these followed by `model.quantize`, nothing else.
"""

import numpy as np

from fp32 import F32, exp, fma, round_to, widen

LANES = 256
CHUNK = 8


def sum_of_squares(z):
    """sum(z*z) along the last dimension by the fixed tree, which depends on its length only."""
    hidden = z.shape[-1]
    chunks = -(-hidden // CHUNK)
    padded = np.zeros(z.shape[:-1] + (chunks * CHUNK,), dtype=F32)
    padded[..., :hidden] = z
    padded = padded.reshape(z.shape[:-1] + (chunks, CHUNK))

    partial = np.zeros(z.shape[:-1] + (chunks,), dtype=F32)
    for i in range(CHUNK):
        partial = fma(padded[..., i], padded[..., i], partial)

    lanes = np.zeros(z.shape[:-1] + (LANES,), dtype=F32)
    for j in range(chunks):
        lanes[..., j % LANES] = lanes[..., j % LANES] + partial[..., j]

    k = LANES // 2
    while k >= 1:
        lanes[..., :k] = lanes[..., :k] + lanes[..., k : 2 * k]
        k //= 2
    return lanes[..., 0]


def rms_norm(x, weight, eps, residual=None, form="standard"):
    """(n, residual_out); residual_out is None without a residual."""
    dtype = x.dtype
    residual_out = None
    z = widen(x)
    if residual is not None:
        residual_out = round_to(dtype, z + widen(residual))
        z = widen(residual_out)
    v = sum_of_squares(z) / F32(x.shape[-1]) + F32(eps)
    t = (F32(1) / np.sqrt(v))[..., None]
    w = widen(weight)
    if form == "gemma":
        return round_to(dtype, (z * t) * (F32(1) + w)), residual_out
    return round_to(dtype, widen(round_to(dtype, z * t)) * w), residual_out


def swish(g, alpha):
    """g * sigmoid(alpha * g) without overflow; swish(-inf) is NaN, swish(+inf) is +inf."""
    w = F32(alpha) * g
    t = np.abs(w)
    e = np.where(t > F32(87), F32(0), exp(-t))
    numerator = np.where(w < 0, g * e, g)
    return numerator / (F32(1) + e)


def silu_mul(x):
    d = x.shape[-1] // 2
    g, u = widen(x[..., :d]), widen(x[..., d:])
    a = round_to(x.dtype, swish(g, 1))
    return round_to(x.dtype, widen(a) * u)


def gelu_tanh_mul(x):
    d = x.shape[-1] // 2
    g, u = widen(x[..., :d]), widen(x[..., d:])
    y = F32(0.7978845608) * fma(F32(0.044715), (g * g) * g, g)
    h = F32(1) - F32(2) / (exp(y + y) + F32(1))
    a = round_to(x.dtype, (F32(0.5) * g) * (F32(1) + h))
    return round_to(x.dtype, widen(a) * u)


def relu2(x):
    v = widen(x)
    positive = np.where(v > 0, v * v, F32(0))
    return round_to(x.dtype, np.where(np.isnan(v), v, positive))


def swiglu_clamped(x, alpha, limit):
    """Gate and up interleaved; numpy's minimum and maximum keep a NaN of either operand."""
    gate, up = widen(x[..., 0::2]), widen(x[..., 1::2])
    limit = F32(limit)
    g = np.minimum(gate, limit)
    u = np.minimum(np.maximum(up, -limit), limit)
    return round_to(x.dtype, (u + F32(1)) * swish(g, alpha))
