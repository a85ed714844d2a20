"""Turns one call of an operator into a golden case: inputs, outputs of the model, metadata."""

from dataclasses import dataclass

import numpy as np

import model
import producers
from fp32 import BF16, F16, F32


@dataclass
class Case:
    name: str
    tensors: dict
    metadata: dict


def hex_float(value):
    return float(F32(value)).hex()


def stored_scales(values, recipe, x_shape):
    """Storage of given scales; `values` are floats or bytes that broadcast to the scale grid.

    Pads of an input keep POISON: whoever reads one shows it.
    """
    shape = (1,) * max(0, 3 - len(x_shape)) + tuple(x_shape)
    shape = (int(np.prod(shape[:-2], dtype=np.int64)),) + shape[-2:]
    grid = model.scale_grid(shape, recipe)
    dtype = np.uint8 if model.is_bytes(recipe) else F32
    values = np.asarray(values, dtype=dtype)
    if values.size == int(np.prod(grid)):
        values = values.reshape(grid)
    return model.Storage(recipe, grid).write(np.broadcast_to(values, grid), clear_pads=False)


class Builder:
    def __init__(self):
        self.cases = {}

    def add(self, name, why, op, recipe, tensors, **metadata):
        assert name not in self.cases, name
        metadata = {"op": op, "why": why, **metadata}
        if recipe is not None:
            metadata["recipe"] = recipe.text()
        tensors = {key: value for key, value in tensors.items() if value is not None}
        self.cases[name] = Case(name, tensors, metadata)

    def quantize(self, name, why, x, recipe, given=None, counts=None):
        """`given` holds logical scales for source=given."""
        counts = None if counts is None else np.asarray(counts, dtype=np.int32)
        storage = None if given is None else stored_scales(given, recipe, x.shape)
        codes, scales = model.quantize(x, recipe, storage, counts)
        tensors = {"x": x, "codes": codes.view(recipe.fmt.dtype), "scales": scales, "counts": counts}
        self.add("quantize_" + name, why, "quantize", recipe, tensors)

    def dequantize(self, name, why, codes, scales, recipe, dtype):
        """`scales` are logical; the recipe says how they are stored."""
        storage = stored_scales(scales, recipe, codes.shape)
        y = model.dequantize(codes, storage, recipe, dtype)
        tensors = {"codes": codes.view(recipe.fmt.dtype), "scales": storage, "y": y}
        self.add("dequantize_" + name, why, "dequantize", recipe, tensors)

    def requantize(self, name, why, codes, scales, recipe_in, recipe):
        storage_in = stored_scales(scales, recipe_in, codes.shape)
        new_codes, new_scales = model.requantize(codes, storage_in, recipe_in, recipe)
        tensors = {
            "codes_in": codes.view(recipe_in.fmt.dtype),
            "scales_in": storage_in,
            "codes": new_codes.view(recipe.fmt.dtype),
            "scales": new_scales,
        }
        self.add("requantize_" + name, why, "requantize", recipe, tensors, recipe_in=recipe_in.text())

    def produce(
        self, name, why, op, x, recipe=None, given=None, counts=None, weight=None, residual=None, **parameters
    ):
        """A producer alone, or followed by quantize when a recipe is given."""
        residual_out = None
        if op == "rms_norm":
            n, residual_out = producers.rms_norm(x, weight, residual=residual, **parameters)
        else:
            n = getattr(producers, op)(x, **parameters)
        tensors = {"x": x, "weight": weight, "residual": residual, "residual_out": residual_out}
        counts = None if counts is None else np.asarray(counts, dtype=np.int32)
        matrices = model.as_matrices(n)
        valid = model.valid_rows(matrices.shape, counts)
        row = model.poisoned(matrices, valid).reshape(n.shape)
        tensors["counts"] = counts
        if recipe is None:
            tensors["y"] = row
        else:
            storage = None if given is None else stored_scales(given, recipe, n.shape)
            codes, scales = model.quantize(n, recipe, storage, counts)
            tensors.update(codes=codes.view(recipe.fmt.dtype), scales=scales, row=row)
        metadata = {k: v if isinstance(v, str) else hex_float(v) for k, v in parameters.items()}
        if op == "rms_norm":
            metadata.setdefault("form", "standard")
        metadata["quantized"] = "no" if recipe is None else "yes"
        self.add(op + "_" + name, why, op, recipe, tensors, **metadata)

    def mla(self, name, why, x, weights, recipe, kv_recipe=None, given=None, counts=None, wanted=(), **eps):
        """q and kv normed and quantized, rope copied. `wanted` names optional outputs; `given` q's scales."""
        q_rank, kv_rank = (len(w) for w in weights)
        counts = None if counts is None else np.asarray(counts, dtype=np.int32)
        tensors = {"x": x, "q_weight": weights[0], "kv_weight": weights[1], "counts": counts}

        def stored(part):
            matrices = model.as_matrices(np.ascontiguousarray(part))
            return model.poisoned(matrices, model.valid_rows(matrices.shape, counts)).reshape(part.shape)

        def quantized(prefix, row, recipe, storage=None):
            codes, scales = model.quantize(row, recipe, storage, counts)
            tensors[prefix + "_codes"] = codes.view(recipe.fmt.dtype)
            tensors[prefix + "_scales"] = scales

        q, _ = producers.rms_norm(x[..., :q_rank], weights[0], eps["q_eps"])
        kv, _ = producers.rms_norm(x[..., q_rank : q_rank + kv_rank], weights[1], eps["kv_eps"])
        quantized("q", q, recipe, None if given is None else stored_scales(given, recipe, q.shape))
        metadata = {key: hex_float(value) for key, value in eps.items()}
        if kv_recipe is not None:
            quantized("kv", kv, kv_recipe)
            metadata["kv_recipe"] = kv_recipe.text()
        optional = {"q_row": q, "kv": kv, "rope": x[..., q_rank + kv_rank :]}
        tensors.update({key: stored(optional[key]) for key in wanted})
        self.add("mla_norm_quantize_" + name, why, "mla_norm_quantize", recipe, tensors, **metadata)

    def fused_by_vllm(self, op, name, why, x, recipe, made, scale=None, weight=None, residual=None, **eps):
        """`made` is what a function of vllm.py returned; the recipe says where its scales lie."""
        codes, scales, residual_out = made
        given = scale is not None
        grid = model.scale_grid(model.as_matrices(codes).shape, recipe)
        storage = (
            stored_scales([scale], recipe, codes.shape)
            if given
            else model.Storage(recipe, grid).write(scales.reshape(grid))
        )
        tensors = {"x": x, "weight": weight, "residual": residual, "residual_out": residual_out}
        tensors.update(codes=codes.view(recipe.fmt.dtype), scales=storage)
        metadata = {key: hex_float(value) for key, value in eps.items()}
        if op == "rms_norm":
            metadata["form"] = "standard"
        self.add(f"vllm_{op}_{name}", why, op, recipe, tensors, quantized="yes", **metadata)


def bits16(patterns, dtype):
    assert dtype in (BF16, F16)
    return np.asarray(patterns, dtype=np.uint16).view(dtype)
