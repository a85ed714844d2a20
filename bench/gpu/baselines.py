"""The shared object of baselines.cu by ctypes: each call launches on a stream of PyTorch."""

import ctypes

import torch


def address(tensor):
    return ctypes.c_void_p(tensor.data_ptr())


def optional_address(tensor):
    return None if tensor is None else address(tensor)


class Baselines:
    def __init__(self, path):
        self.c = ctypes.CDLL(path)
        self.ceilings = [f"ceiling{i}" for i in range(self.c.baseline_ceiling_variants())]

    def require(self, error):
        if error != 0:
            raise RuntimeError(f"baseline: CUDA error {error}")

    def op(self, x, codes, scales, stream):
        self.require(self.c.baseline_op(address(x), address(codes), address(scales), *x.shape,
                                        ctypes.c_void_p(stream.cuda_stream)))

    def two_pass(self, x, codes, scales, stream):
        self.require(self.c.baseline_two_pass(address(x), address(codes), address(scales), *x.shape,
                                              ctypes.c_void_p(stream.cuda_stream)))

    def copy21(self, x, codes, stream):
        self.require(self.c.baseline_copy21(address(x), address(codes), *x.shape,
                                            ctypes.c_void_p(stream.cuda_stream)))

    def ceiling(self, variant, x, codes, stream):
        self.require(self.c.baseline_ceiling(variant, address(x), address(codes), *x.shape,
                                             ctypes.c_void_p(stream.cuda_stream)))

    def gated_ceiling(self, variant, x, codes, stream):
        self.require(self.c.baseline_gated_ceiling(variant, address(x), address(codes), *codes.shape,
                                                   ctypes.c_void_p(stream.cuda_stream)))

    def norm_ceiling(self, variant, x, residual, row_out, codes, stream):
        """residual and row_out: None for what is no part of the traffic; one of them is."""
        self.require(self.c.baseline_norm_ceiling(
            variant, address(x), optional_address(residual), optional_address(row_out), address(codes),
            *codes.shape, ctypes.c_void_p(stream.cuda_stream)))

    def read(self, zeros, sink, stream):
        self.require(self.c.baseline_read(address(zeros), ctypes.c_int64(zeros.numel()), address(sink),
                                          ctypes.c_void_p(stream.cuda_stream)))


def scales_of_groups(x):
    return torch.zeros(x.shape[0], x.shape[1] // 128, dtype=torch.float32, device=x.device)


def scales_of_tokens(x):
    return torch.zeros(x.shape[0], 1, dtype=torch.float32, device=x.device)
