"""Tensors of bf16 that benchmarks quantize, in several sets, and room for their codes."""

import torch

from goals import NORMAL


def normal(sets, tokens, hidden):
    """N(0, 3), bf16 [sets, tokens, hidden]."""
    return torch.empty(sets, tokens, hidden, device="cuda", dtype=torch.bfloat16).normal_(0, 3)


def patterned(pattern, sets, tokens, hidden):
    x = normal(sets, tokens, hidden)
    if pattern.endswith("% zeros"):
        x[torch.rand_like(x, dtype=torch.float32) < float(pattern.split()[0]) / 100] = 0
    elif pattern == "ReLU output":
        x.relu_()
    elif pattern == "N * 1e-30":
        x *= 1e-30
    elif pattern == "subnormal":
        bits = x.view(torch.int16)
        bits &= -32641  # 0x807F: sign and mantissa
    elif pattern == "infinities":
        x[torch.rand_like(x, dtype=torch.float32) < 1 / 64] = float("inf")
    elif pattern != NORMAL:
        raise ValueError(pattern)
    return x


def empty_codes(x):
    return torch.empty(x.shape, device="cuda", dtype=torch.float8_e4m3fn)
