"""One checkpoint in one reader: loads it on the CPU and compares every weight with rowscale's dequantize.

    check_readers.py LIBRARY FOLDER

Run by scripts/check-readers with the Python of the readers. LIBRARY: librowscale.so. Prints one line:
how many weights were compared, or what went wrong. Exit: 0 all equal; 1 not.
"""

import ctypes
import glob
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
from safetensors import safe_open

DTYPES = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2, torch.float8_e4m3fn: 3}


class Tensor(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("data", ctypes.c_void_p),
        ("numbers", ctypes.c_int32 * 5),
        ("shape", ctypes.c_int64 * 8),
        ("strides", ctypes.c_int64 * 8),
        ("row_counts", ctypes.c_void_p),
    ]


class Recipe(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("kinds", ctypes.c_int32 * 2),
        ("sizes", ctypes.c_int64 * 3),
        ("rest", ctypes.c_int32 * 10),
    ]


class Rowscale:
    """dequantize of the C interface."""

    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.rs_last_error.restype = ctypes.c_char_p

    def call(self, name, *arguments):
        if getattr(self.library, name)(*arguments) != 0:
            raise RuntimeError(f"{name}: {self.library.rs_last_error().decode()}")

    def view(self, tensor):
        out = Tensor(struct_size=ctypes.sizeof(Tensor))
        shape = (ctypes.c_int64 * tensor.dim())(*tensor.shape)
        self.call(
            "rs_tensor_contiguous",
            ctypes.byref(out),
            ctypes.c_void_p(tensor.data_ptr()),
            DTYPES[tensor.dtype],
            tensor.dim(),
            shape,
        )
        return out

    def dequantize(self, codes, scale, dtype):
        recipe = Recipe(struct_size=ctypes.sizeof(Recipe))
        if scale.numel() == 1 and codes.shape[0] != 1:
            self.call("rs_recipe_per_tensor", ctypes.byref(recipe))
        elif scale.shape == (codes.shape[0], 1):
            self.call("rs_recipe_per_channel", ctypes.byref(recipe))
        else:
            self.call("rs_recipe_per_block", ctypes.byref(recipe), ctypes.c_int64(128), ctypes.c_int64(128))
        out = torch.empty(codes.shape, dtype=dtype)
        wide = scale.float().contiguous()
        views = [self.view(t) for t in (codes.contiguous(), wide, out)]
        self.call(
            "rs_dequantize",
            ctypes.byref(views[0]),
            ctypes.byref(views[1]),
            ctypes.byref(recipe),
            ctypes.byref(views[2]),
            None,
        )
        return out


def stored(folder):
    out = {}
    for path in sorted(glob.glob(os.path.join(folder, "*.safetensors"))):
        with safe_open(path, framework="pt") as file:
            out.update({name: file.get_tensor(name) for name in file.keys()})
    return out


def load(folder):
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as stream:
        architecture = json.load(stream)["architectures"][0]
    quantization = transformers.CompressedTensorsConfig(run_compressed=False)
    return getattr(transformers, architecture).from_pretrained(
        folder, dtype="auto", quantization_config=quantization
    )


def bits(tensor):
    return tensor.contiguous().view(torch.uint8)


def main():
    rowscale, folder = Rowscale(sys.argv[1]), sys.argv[2]
    tensors = stored(folder)
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
    if quantized == 0:
        raise RuntimeError("no FP8 weight was compared")
    note = f"; {rounded} of them with the scale rounded to the model's dtype by the reader" if rounded else ""
    print(f"{quantized} weights and {copied} other tensors equal, bit for bit{note}")


def equal(a, b):
    return a.dtype == b.dtype and torch.equal(bits(a), bits(b))


def require(holds, problem):
    if not holds:
        raise RuntimeError(problem)


if __name__ == "__main__":
    try:
        main()
    except Exception as error:  # whatever a reader throws is the result
        print(
            f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else error!r}"
        )
        sys.exit(1)
