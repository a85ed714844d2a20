#!/usr/bin/env python3
"""Makes data/casts_*.safetensors: what llm-compressor's oneshot, without data, makes of small weights.

Needs the environment of `scripts/install-deps --readers`; the files are kept, so that tests need none
of it. Each holds, for one dtype: NAME.input, and for each strategy NAME.STRATEGY.codes and
NAME.STRATEGY.scale.

    "$(scripts/install-deps --readers-path)/bin/python" tests/checkpoint/make_cast_golden.py [--check]
"""

import argparse
import importlib.metadata
import os
import sys
import tempfile

import numpy as np
import safetensors.numpy

import folder
import weights

PINNED = {
    "torch": "2.11.0",
    "compressed-tensors": "0.18.0",
    "llmcompressor": "0.13.0",
    "transformers": "5.14.1",
}
DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")

DTYPES = {"bf16": weights.BF16, "f16": weights.F16, "f32": weights.F32}

# Short blocks on both sides; edges' rows hold zeros, subnormals, huge values and exact ties.
INPUTS = {
    "plain": (weights.weight, (16, 144)),
    "edges": (weights.edges, (27, 144)),
    "tall": (weights.edges, (130, 36)),
    "zeros": (lambda name, shape, dtype: weights.weight(name, shape, dtype) * 0, (3, 130)),
}

STRATEGIES = ("channel", "block", "tensor")


def inputs(dtype):
    # fp16 and bf16 sums of values and signs stay in their dtype; ml_dtypes would widen a product with 0.
    return {name: make(name, shape, dtype).astype(dtype) for name, (make, shape) in INPUTS.items()}


def scheme(strategy):
    weight = {"num_bits": 8, "type": "float", "strategy": strategy, "symmetric": True, "dynamic": False}
    activations = {"num_bits": 8, "type": "float", "strategy": "token", "symmetric": True, "dynamic": True}
    if strategy == "block":
        weight["block_structure"] = [128, 128]
        activations.update(strategy="group", group_size=128)
    return {"group_0": {"targets": ["Linear"], "weights": weight, "input_activations": activations}}


def oneshot(arrays, torch_dtype, strategy):
    """The files that llm-compressor writes for a model of one Linear an array."""
    import llmcompressor
    import torch
    import transformers
    from llmcompressor.modifiers.quantization import QuantizationModifier

    class Config(transformers.PretrainedConfig):
        model_type = "casts"

    class Casts(transformers.PreTrainedModel):
        config_class = Config

        def __init__(self, config):
            super().__init__(config)
            for name, (_, shape) in INPUTS.items():
                setattr(self, name, torch.nn.Linear(shape[1], shape[0], bias=False))
            self.post_init()

        def _init_weights(self, _):
            pass

        def forward(self, x):
            return x

    model = Casts(Config()).to(torch_dtype)
    for name, array in arrays.items():
        raw = torch.from_numpy(np.frombuffer(array.tobytes(), np.uint8).copy()).view(torch_dtype)
        getattr(model, name).weight.data = raw.reshape(array.shape)
    recipe = QuantizationModifier(config_groups=scheme(strategy))
    llmcompressor.oneshot(model=model, recipe=recipe)
    with tempfile.TemporaryDirectory() as path:
        model.save_pretrained(path, save_compressed=True)
        written = folder.Checkpoint(path)
        return {name: np.array(written[name]) for name in written}


def make(name):
    import torch

    torch_dtype = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}[name]
    arrays = inputs(DTYPES[name])
    out = {f"{key}.input": array for key, array in arrays.items()}
    for strategy in STRATEGIES:
        written = oneshot(arrays, torch_dtype, strategy)
        for key in arrays:
            out[f"{key}.{strategy}.codes"] = written[f"{key}.weight"]
            out[f"{key}.{strategy}.scale"] = written[f"{key}.weight_scale"]
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with the files, write nothing")
    check = parser.parse_args().check
    for package, version in PINNED.items():
        if importlib.metadata.version(package) != version:
            sys.exit(f"{package} is {importlib.metadata.version(package)}, pinned {version}")
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    metadata = {"made_by": ", ".join(f"{package} {version}" for package, version in PINNED.items())}
    os.makedirs(DATA, exist_ok=True)
    for name in DTYPES:
        path = os.path.join(DATA, f"casts_{name}.safetensors")
        data = safetensors.numpy.save(make(name), metadata)
        if not check:
            folder.write(path, data)
        else:
            with open(path, "rb") as stream:
                if stream.read() != data:
                    sys.exit(f"{path} differs")
        print(path, len(data))


if __name__ == "__main__":
    main()
