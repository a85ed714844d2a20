"""DeepSeek-style block FP8 sources: codes, and one `weight_scale_inv` for each 128 x 128 elements."""

import functools

import ml_dtypes
import numpy as np

import weights
from models import Fate, Model
from moe_models import deepseek, deepseek_config
from weights import BF16, E4M3, E8M0, F32

BLOCK = 128


def blocks(name, shape, power_of_two):
    """(codes, fp32 scales): by the recipe that these models are published with, amax / 448 in fp32."""
    x = weights.weight(name, shape, BF16).astype(F32)
    rows, columns = (-(-length // BLOCK) for length in shape)
    padded = np.zeros((rows * BLOCK, columns * BLOCK), F32)
    padded[: shape[0], : shape[1]] = x
    tiles = padded.reshape(rows, BLOCK, columns, BLOCK)
    amax = np.abs(tiles).max(axis=(1, 3))
    scales = np.maximum(amax, F32.type(1e-4)) / F32.type(448)
    if power_of_two:
        scales = np.exp2(np.ceil(np.log2(scales))).astype(F32)
    codes = np.clip(tiles / scales[:, None, :, None], -448, 448).astype(E4M3)
    return np.ascontiguousarray(codes.reshape(padded.shape)[: shape[0], : shape[1]]), scales


class Encoding:
    """How scales are stored. UE8M0 as floats or as bytes; Qwen's files hold bf16."""

    def __init__(self, dtype, power_of_two, stored_as=None):
        self.dtype, self.power_of_two = np.dtype(dtype), power_of_two
        self.stored_as = np.dtype(stored_as or dtype)


ENCODINGS = {
    "f32": Encoding(F32, False),
    "bf16": Encoding(BF16, True),  # powers of two: exact in bf16
    "ue8m0_f32": Encoding(F32, True),
    "ue8m0": Encoding(E8M0, True),
    "ue8m0_u8": Encoding(E8M0, True, np.uint8),  # files older than the dtype
}


def quantization_config(encoding, **changes):
    config = {
        "quant_method": "fp8",
        "fmt": "e4m3",
        "activation_scheme": "dynamic",
        "weight_block_size": [BLOCK, BLOCK],
    }
    if encoding.startswith("ue8m0"):
        config["scale_fmt"] = "ue8m0"
    return {**config, **changes}


def deepseek_fp8(encoding="f32", suffix=".weight_scale_inv", **changes):
    """`suffix`: how names of scales end, in the place of ".weight". Shapes that do not divide by 128 (96 columns, 704 rows), and scales in another shard."""
    how = ENCODINGS[encoding]
    config = deepseek_config(quantization_config=quantization_config(encoding, **changes))
    model = Model(config, shards=3)

    def linear(model, name, rows, columns, fused=None):
        weight, shape = f"{name}.weight", (rows, columns)
        grid = tuple(-(-length // BLOCK) for length in shape)
        part = functools.partial(blocks, weight, shape, how.power_of_two)
        model.add(weight, shape, Fate.PASS, lambda *_: part()[0], fused=fused)
        model.add(
            name + suffix, grid, Fate.PASS, lambda *_: part()[1].astype(how.dtype).view(how.stored_as)
        )

    deepseek(model, linear, linear)
    # Half of the scales move to the end: another shard than their weights.
    late = [t for i, t in enumerate(model.tensors) if t.name.endswith(suffix) and i % 4 < 2]
    model.tensors = [t for t in model.tensors if t not in late] + late
    return model


def dequantized(codes_, scales_):
    """bf16 of code * scale, in fp32: what the published dequantization gives."""
    grid = np.repeat(np.repeat(scales_.astype(F32), BLOCK, 0), BLOCK, 1)
    return (codes_.astype(F32) * grid[: codes_.shape[0], : codes_.shape[1]]).astype(ml_dtypes.bfloat16)
