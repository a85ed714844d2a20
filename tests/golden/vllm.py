"""The fused operators of vLLM that quantize behind a norm or SiLU, step by step as vLLM's kernels
compute them, not as a recipe of this library.

Three things are ours, because vLLM's depend on the launch or on approximate instructions: the order
of the sum of squares (producers.sum_of_squares), 1 / sqrt in IEEE arithmetic, and exp (fp32.exp).
Everything else is vLLM's: where a value is rounded to the input's dtype, what bounds and floors a
scale, what divides, and that a NaN becomes the largest code.

Functions return (codes, scales [..., groups], residual_out or None); `scale` and the bounds are fp32.
"""

import numpy as np

from fp32 import E4M3, F32, encode, exp, from_bits, round_to, widen
from producers import sum_of_squares

SMALLEST_SCALE = from_bits(0x36924925)  # 1 / (448 * 512)


def _saturate(values):
    return encode(values, E4M3, nan="clamp_high")


def _by_reciprocal(values, scale):
    return _saturate(values * (F32(1) / F32(scale)))


def _amax(values, group):
    """[..., groups]; a NaN raises nothing."""
    d = values.shape[-1]
    starts = range(0, d, group)
    magnitude = np.where(np.isnan(values), F32(0), np.abs(values))
    parts = [magnitude[..., s : s + group].max(axis=-1, initial=F32(0)) for s in starts]
    return np.stack(parts, axis=-1).astype(F32)


def _divided(values, scales, group):
    return _saturate(values / np.repeat(scales, group, axis=-1)[..., : values.shape[-1]])


def _scale_of_bounded_amax(amax, scale_ub):
    if scale_ub is not None:
        amax = np.minimum(amax, F32(scale_ub))
    return np.maximum(amax / F32(448), SMALLEST_SCALE)


def _normed(z, weight, eps, dtype):
    """Two roundings to the input's dtype, of the normed value and of its product with the weight."""
    t = F32(1) / np.sqrt(sum_of_squares(z) / F32(z.shape[-1]) + F32(eps))
    return widen(round_to(dtype, widen(round_to(dtype, z * t[..., None])) * widen(weight)))


def rms_norm_static(x, weight, eps, scale, residual=None):
    """rms_norm_static_fp8_quant and its fused_add form: the sum is rounded, then normed."""
    z, residual_out = widen(x), None
    if residual is not None:
        residual_out = round_to(x.dtype, z + widen(residual))
        z = widen(residual_out)
    return _by_reciprocal(_normed(z, weight, eps, x.dtype), scale), None, residual_out


def rms_norm_dynamic(x, weight, eps, group=None, scale_ub=None, residual=None):
    """rms_norm_dynamic_per_token_quant, or with a group rms_norm_per_block_quant: the sum is normed
    in fp32; what is stored of it is rounded."""
    z, residual_out = widen(x), None
    if residual is not None:
        z = z + widen(residual)
        residual_out = round_to(x.dtype, z)
    n = _normed(z, weight, eps, x.dtype)
    group = group or x.shape[-1]
    scales = _scale_of_bounded_amax(_amax(n, group), scale_ub)
    return _divided(n, scales, group), scales, residual_out


def _halves(x):
    d = x.shape[-1] // 2
    return widen(x[..., :d]), widen(x[..., d:])


def silu_and_mul_static(x, scale):
    """silu_and_mul_quant: nothing is rounded before the product with 1 / scale."""
    gate, up = _halves(x)
    return _by_reciprocal(gate / (F32(1) + exp(-gate)) * up, scale), None, None


def silu_and_mul_per_token(x, scale_ub=None):
    gate, up = _halves(x)
    product = gate / (F32(1) + exp(-gate)) * up
    scales = _scale_of_bounded_amax(_amax(product, product.shape[-1]), scale_ub)
    return _divided(product, scales, product.shape[-1]), scales, None


def silu_and_mul_per_block(x, group, scale_ub=None):
    """The bound is one of the scale here, and the sigmoid is rounded before the gate is multiplied."""
    gate, up = _halves(x)
    product = gate * (F32(1) / (F32(1) + exp(-gate))) * up
    scales = _amax(product, group) / F32(448)
    if scale_ub is not None:
        scales = np.minimum(scales, F32(scale_ub))
    scales = np.maximum(scales, SMALLEST_SCALE)
    return _divided(product, scales, group), scales, None
