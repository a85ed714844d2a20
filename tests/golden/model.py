"""Quantize, dequantize and requantize as the numerics contract states them.

Written for reading and for independence, not for speed. Scales travel as logical arrays
[batches, rows, columns]; `Storage` knows where each of them lies in memory.
"""

from dataclasses import dataclass, replace

import numpy as np

from fp32 import E4M3, F32, FORMATS, decode, encode, from_bits, round_to, to_bits, widen

POISON = 0xA5  # memory that a kernel must not write keeps this byte
GROUP_FLOOR = ("amax", 0x2EDBE6FF)  # 1e-10
ONE_IF_ZERO = ("if_zero", 0x3F800000)
UE8M0_FLOOR = F32(1e-10)


@dataclass(frozen=True)
class Recipe:
    granularity: str
    sizes: tuple = ()
    format: str = "e4m3"
    source: str = "dynamic"
    encoding: str = "f32"
    layout: str = "row_major"
    floor: tuple = ("none",)
    bound: tuple = ("none",)
    quotient: str = "divide"
    nan: str = "propagate"
    profile: str = "rowscale"

    @property
    def fmt(self):
        return FORMATS[self.format]

    def text(self):
        """The recipe in words, every field with its resolved value."""
        granularity = self.granularity
        if self.sizes:
            granularity += "(" + ",".join(str(size) for size in self.sizes) + ")"
        return (
            f"granularity={granularity} format={self.format} source={self.source} "
            f"encoding={self.encoding} layout={self.layout} floor={_limit_text(self.floor)} "
            f"bound={_limit_text(self.bound)} quotient={self.quotient} nan={self.nan} "
            f"profile={self.profile}"
        )


def _limit_text(limit):
    return limit[0] if limit[0] == "none" else f"{limit[0]}(0x{limit[1]:08x})"


def scale_floor(fmt):
    """scale >= 1/(MAX*512); MAX*512 is exact, so this is one rounding."""
    return ("scale", int(to_bits(F32(1) / (fmt.max * F32(512)))))


def recipe(granularity, *sizes, **fields):
    """A recipe with the defaults of its profile; `fields` override them."""
    made = Recipe(
        granularity, tuple(sizes), **{k: fields[k] for k in fields if k not in ("floor", "quotient", "nan")}
    )
    given = made.source == "given"
    if made.encoding == "ue8m0_packed":
        made = replace(made, layout="packed")
    if made.profile == "vllm":
        floor, quotient, nan = _vllm_rules(granularity, given)
    else:
        floor, quotient, nan = _rowscale_floor(granularity, made.fmt), "divide", "propagate"
    if given:
        floor = ("none",)  # a given scale is used as it is
    return replace(
        made,
        floor=fields.get("floor", floor),
        quotient=fields.get("quotient", quotient),
        nan=fields.get("nan", nan),
    )


def _rowscale_floor(granularity, fmt):
    if granularity in ("per_group", "per_block"):
        return GROUP_FLOOR
    if granularity == "per_channel":
        return ONE_IF_ZERO
    return scale_floor(fmt)


def _vllm_rules(granularity, given):
    smallest = scale_floor(E4M3)
    if given:
        return ("none",), "reciprocal", "clamp_high"
    if granularity == "per_tensor":
        return ("if_zero", smallest[1]), "reciprocal", "clamp_high"
    if granularity == "per_token":
        return smallest, "divide", "clamp_high"
    if granularity == "per_group":
        return GROUP_FLOOR, "divide", "clamp_low"
    raise ValueError(f"profile vllm has no dynamic {granularity}")


# ---- from elements to scales ----------------------------------------------------------------


def as_matrices(x):
    """[batches, rows, hidden]: the last two dimensions, all others merged."""
    shape = (1,) * max(0, 3 - x.ndim) + x.shape
    batches = int(np.prod(shape[:-2], dtype=np.int64))
    return x.reshape(batches, shape[-2], shape[-1])


def scale_grid(x_shape, r):
    """Shape [batches, rows, columns] of the logical scales for matrices of shape [B, T, H]."""
    b, t, h = x_shape
    if r.granularity == "per_tensor":
        return (1, 1, 1)
    if r.granularity in ("per_token", "per_channel"):
        return (b, t, 1)
    if r.granularity == "per_column":
        return (1, 1, h)
    if r.granularity == "per_group":
        return (b, t, -(-h // r.sizes[0]))
    rows, columns = r.sizes
    return (b, -(-t // rows), -(-h // columns))


def tile_of(r, x_shape):
    """How many rows and columns of one matrix share a scale."""
    _, t, h = x_shape
    return {
        "per_token": (1, h),
        "per_channel": (1, h),
        "per_column": (max(t, 1), 1),
        "per_group": (1, r.sizes[0] if r.sizes else 1),
        "per_block": tuple(r.sizes) if len(r.sizes) == 2 else (1, 1),
    }[r.granularity]


def absolute_maxima(x, r):
    """amax of every scale; starts at 0, so a NaN (and an empty set) never raises it."""
    magnitude = np.where(np.isnan(x), F32(0), np.abs(x))
    grid = scale_grid(x.shape, r)
    amax = np.zeros(grid, dtype=F32)
    if r.granularity == "per_tensor":
        amax[0, 0, 0] = magnitude.max(initial=F32(0))
        return amax
    rows, columns = tile_of(r, x.shape)
    for b, i, j in np.ndindex(*grid):
        tile = magnitude[b, i * rows : (i + 1) * rows, j * columns : (j + 1) * columns]
        amax[b, i, j] = tile.max(initial=F32(0))
    return amax


def expand(scales, x_shape, r):
    """One scale an element."""
    if r.granularity in ("per_tensor", "per_column"):
        return np.broadcast_to(scales, x_shape)
    rows, columns = tile_of(r, x_shape)
    tall = np.repeat(scales, rows, axis=1)[:, : x_shape[1]]
    return np.repeat(tall, columns, axis=2)[:, :, : x_shape[2]]


def scales_from_amax(amax, r):
    """The order of the contract: amax bound, amax floor, / MAX, scale bound, scale floor."""
    bound = None
    if r.bound[0] != "none":
        value = from_bits(r.bound[1])
        if not np.isnan(value):
            bound = np.maximum(value, F32(0))  # a bound below zero does what a bound of zero does
    if r.bound[0] == "amax" and bound is not None:
        amax = np.minimum(amax, bound)
    if r.floor[0] == "amax":
        amax = np.maximum(amax, from_bits(r.floor[1]))
    s = amax / r.fmt.max
    if r.bound[0] == "scale" and bound is not None:
        s = np.minimum(s, bound)
    if r.floor[0] == "scale":
        s = np.maximum(s, from_bits(r.floor[1]))
    if r.floor[0] == "if_zero":
        s = np.where(s == 0, from_bits(r.floor[1]), s)
    return s.astype(F32)


def to_ue8m0(s):
    """Exponent byte, rounded up: by the bits, never through a logarithm."""
    bits = to_bits(np.maximum(s, UE8M0_FLOOR))
    return ((bits >> 23) + ((bits & 0x7FFFFF) != 0)).astype(np.uint8)


def from_ue8m0(byte, value_of_255):
    """2^(byte-127); byte 0 is the subnormal 2^-127."""
    byte = np.asarray(byte, dtype=np.uint8)
    normal = from_bits(byte.astype(np.uint32) << 23)
    value = np.where(byte == 0, from_bits(0x00400000), normal)
    return np.where(byte == 255, F32(value_of_255), value).astype(F32)


def is_bytes(r):
    return r.encoding in ("ue8m0", "ue8m0_packed")


def encode_scales(s, r):
    """(what is stored, what the data are divided by)."""
    if r.encoding == "f32":
        return s, s
    byte = to_ue8m0(s)
    used = from_ue8m0(byte, np.inf)
    return (byte if is_bytes(r) else used), used


# ---- where scales lie -----------------------------------------------------------------------


class Storage:
    """Positions of logical scales [batches, rows, columns] in one flat buffer of elements."""

    def __init__(self, r, grid):
        self.packed = r.encoding == "ue8m0_packed"
        b, t, self.groups = grid
        columns = -(-self.groups // 4) if self.packed else self.groups
        self.dtype = np.int32 if self.packed else np.uint8 if r.encoding == "ue8m0" else F32
        across, down, batch, last = _strides(r, t, columns, np.dtype(self.dtype).itemsize)
        self.length = (b - 1) * batch + last if b * t * columns else 0
        positions = np.arange(b)[:, None, None] * batch
        positions = positions + np.arange(t)[None, :, None] * down
        self.positions = positions + np.arange(columns)[None, None, :] * across
        # Pads that kernels clear: gaps inside a batch, up to its last scale. What lies between that
        # scale and the next batch is nobody's, like the memory behind the last batch.
        inside = {i * batch + k for i in range(b) for k in range(last)} if self.length else set()
        self.pads = sorted(inside - set(self.positions.ravel().tolist()))

    def pack(self, stored):
        """Bytes of four groups in a word, the lowest group in the lowest byte; absent ones are 0."""
        b, t, groups = stored.shape
        padded = np.zeros((b, t, -(-groups // 4) * 4), dtype=np.uint8)
        padded[:, :, :groups] = stored
        return padded.view("<i4").astype(np.int32)

    def write(self, stored, valid_rows=None, clear_pads=True):
        """The buffer after a kernel: it was full of POISON before."""
        values = self.pack(stored) if self.packed else np.asarray(stored, dtype=self.dtype)
        buffer = np.full(self.length * np.dtype(self.dtype).itemsize, POISON, dtype=np.uint8).view(self.dtype)
        if clear_pads:
            buffer[self.pads] = 0
        if valid_rows is None:
            buffer[self.positions] = values
        else:
            buffer[self.positions[valid_rows]] = values[valid_rows]
        return buffer

    def read(self, buffer):
        """Logical scales as stored: floats, or bytes for both byte encodings."""
        values = buffer[self.positions]
        if not self.packed:
            return values
        return np.ascontiguousarray(values.astype("<i4")).view(np.uint8)[:, :, : self.groups]


def _strides(r, t, columns, itemsize):
    """(stride of columns, of rows, of batches, elements that one batch spans)."""
    if r.layout == "row_major":
        return 1, columns, t * columns, t * columns
    if r.layout == "column_major":
        return t, 1, t * columns, t * columns
    if r.layout in ("column_major_tma", "packed"):
        unit = 16 // itemsize
        aligned = -(-t // unit) * unit
        return aligned, 1, aligned * columns, t + (columns - 1) * aligned
    if r.layout == "block_k4":
        stride = -(-columns // 4) * 4
        return 1, stride, t * stride, (t - 1) * stride + columns
    raise ValueError(r.layout)


# ---- the three operations -------------------------------------------------------------------


def valid_rows(shape, counts):
    """[batches, rows] of bool: which rows a masked call touches; None when there is no mask."""
    if counts is None:
        return None
    return np.arange(shape[1])[None, :] < np.asarray(counts)[:, None]


def poisoned(array, valid):
    """`array` [B, T, ...] with the bytes of untouched rows replaced by POISON."""
    if valid is None:
        return array
    out = np.ascontiguousarray(array).copy()
    raw = out.view(np.uint8)
    raw[~valid] = POISON
    return out


def load_scales(buffer, r, x_shape):
    """fp32 values of stored scales, as dequantize and a given source use them."""
    stored = Storage(r, scale_grid(x_shape, r)).read(buffer)
    return from_ue8m0(stored, np.nan) if is_bytes(r) else stored


def quantize_values(x, r, given=None, counts=None):
    """(codes, scale storage) for fp32 matrices [B, T, H]."""
    valid = valid_rows(x.shape, counts)
    if r.source == "given":
        used, storage = load_scales(given, r, x.shape), given
    else:
        stored, used = encode_scales(scales_from_amax(absolute_maxima(x, r), r), r)
        place = Storage(r, scale_grid(x.shape, r))
        storage = place.write(stored, valid_rows=valid, clear_pads=valid is None)
    s = expand(used, x.shape, r)
    q = x / s if r.quotient == "divide" else x * (F32(1) / s)
    return poisoned(encode(q, r.fmt, r.nan), valid), storage


def quantize(x, r, given=None, counts=None):
    codes, storage = quantize_values(as_matrices(widen(x)), r, given, counts)
    return codes.reshape(x.shape), storage


def dequantize_values(codes, storage, r):
    matrices = as_matrices(codes)
    s = expand(load_scales(storage, r, matrices.shape), matrices.shape, r)
    return (decode(matrices, r.fmt) * s).reshape(codes.shape)


def dequantize(codes, storage, r, dtype):
    return round_to(dtype, dequantize_values(codes, storage, r))


def requantize(codes, storage, r_in, r_out):
    """x = code * scale stays in fp32: no 16-bit step in between."""
    return quantize(dequantize_values(codes, storage, r_in), r_out)
