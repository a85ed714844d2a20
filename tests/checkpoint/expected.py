"""What a converter is to write for a generated model: every tensor, by the model of the casts."""

import numpy as np

import block_fp8
import cast_model
from models import Fate
from weights import BF16, E8M0, F32

SCALE_SUFFIXES = (".weight_scale_inv", ".scale")
STRATEGY = {"fp8-dynamic": "channel", "fp8-block": "block", "fp8-tensor": "tensor"}


def tensors(model, scheme, numerics):
    """name -> array; the source's tensors are made once each."""
    source = {t.name: t for t in model.tensors}
    linear, out = {}, {}
    for t in model.tensors:
        array = t.make()
        if t.fate is Fate.KEEP:
            out[t.name] = array
        elif t.fate is Fate.QUANTIZE:
            linear[t.name] = (array, t.fused)
        elif t.fate is Fate.SPLIT:
            for name, part in t.parts(array).items():
                linear[name] = (part, None if ".down_proj." in name else name.rsplit(".", 2)[0])
        elif t.fate is Fate.PASS and t.name.endswith(".weight"):
            module = t.name.removesuffix(".weight")
            scales = next(source[module + s] for s in SCALE_SUFFIXES if module + s in source).make()
            if scales.dtype == np.uint8:
                scales = scales.view(E8M0)
            if scheme == "fp8-block":
                out[t.name] = array
                out[t.name + "_scale"] = scales if scales.dtype == BF16 else scales.astype(F32)
            else:
                linear[t.name] = (dequantized(array, scales, numerics), t.fused)
    quantize(linear, STRATEGY[scheme], numerics, out)
    return out


def dequantized(codes, scales, numerics):
    if numerics == "compressed-tensors":
        return block_fp8.dequantized(codes, scales)
    spread = cast_model.spread(scales.astype(F32), "block", codes.shape)
    return codes.astype(F32) * spread


def quantize(linear, strategy, numerics, out):
    shared = {}
    if strategy == "tensor":
        for array, fused in linear.values():
            if fused:
                amax = cast_model.amax(array, "tensor")
                shared[fused] = np.maximum(shared.get(fused, amax), amax)
    for name, (array, fused) in linear.items():
        codes, scale = cast_model.CASTS[numerics](array, strategy, shared.get(fused))
        out[name], out[name + "_scale"] = codes, scale


def ignored(model):
    """The list `ignore`, whole: every matrix that stays, linear or not; experts of a stack by the names
    that vLLM asks for one by one, and the module that holds them; the head of a model that stores none."""
    kept = [t for t in model.tensors if t.fate in (Fate.KEEP, Fate.DROP)]
    names = {t.name.removesuffix(".weight") for t in kept if len(t.shape) == 2 and t.name.endswith(".weight")}
    for t in kept:
        at, _, last = t.name.rpartition(".")
        if len(t.shape) == 3 and t.is_linear:
            parts = {"gate_up_proj": ("gate_proj", "up_proj"), "down_proj": ("down_proj",)}[last]
            names |= {f"{at}.{expert}.{part}" for expert in range(t.shape[0]) for part in parts} | {at}
    return names | ({"lm_head"} if model.config.get("tie_word_embeddings") else set())
