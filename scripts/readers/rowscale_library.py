"""dequantize of rowscale's C interface, on tensors of PyTorch."""

import ctypes

import torch

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
