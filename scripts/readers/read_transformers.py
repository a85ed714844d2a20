"""Loads checkpoints with transformers and compressed-tensors on the CPU, decompressed, and compares every
weight with rowscale's dequantize and every other tensor with the stored one, bit for bit.

    read_transformers.py LIBRARY FOLDER...

Run by compare.py with the Python of the readers. LIBRARY: librowscale.so. Prints the lines of reading.py.
"""

import json
import os
import sys
import warnings

os.environ.update(
    CUDA_VISIBLE_DEVICES="", TRANSFORMERS_VERBOSITY="error", HF_HUB_OFFLINE="1", TQDM_DISABLE="1"
)
warnings.simplefilter("ignore")

import torch
import transformers

from reading import Wrong, read_each, stored
from rowscale_library import Rowscale


def load(folder):
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as stream:
        architecture = json.load(stream)["architectures"][0]
    quantization = transformers.CompressedTensorsConfig(run_compressed=False)
    return getattr(transformers, architecture).from_pretrained(
        folder, dtype="auto", quantization_config=quantization
    )


def bits(tensor):
    return tensor.contiguous().view(torch.uint8)


def equal(a, b):
    return a.dtype == b.dtype and torch.equal(bits(a), bits(b))


def require(holds, problem):
    if not holds:
        raise Wrong(problem)


def read(rowscale, folder):
    tensors = dict(stored(folder))
    weights = load(folder).state_dict()
    quantized = copied = rounded = 0
    for name, tensor in tensors.items():
        if name.endswith("_scale"):
            continue
        if name not in weights:
            # Buffers that a model computes by itself now, as BERT's position_ids.
            require(not tensor.is_floating_point(), f"{name}: not in the loaded model")
            continue
        got = weights[name]
        if tensor.dtype != torch.float8_e4m3fn:
            copied += 1
            require(equal(got, tensor), f"{name}: other bits, or another dtype")
            continue
        quantized += 1
        scale = tensors[name + "_scale"]
        if equal(got, rowscale.dequantize(tensor, scale, got.dtype)):
            continue
        # Readers that keep every parameter in the model's dtype round scales in fp32 to it.
        require(
            equal(got, rowscale.dequantize(tensor, scale.to(got.dtype), got.dtype)), f"{name}: other bits"
        )
        rounded += 1
    require(quantized != 0, "no FP8 weight was compared")
    note = f"; {rounded} of them with the scale rounded to the model's dtype by the reader" if rounded else ""
    return f"{quantized} weights and {copied} other tensors equal, bit for bit{note}"


def main():
    rowscale = Rowscale(sys.argv[1])
    read_each(sys.argv[2:], lambda folder: read(rowscale, folder))


if __name__ == "__main__":
    main()
