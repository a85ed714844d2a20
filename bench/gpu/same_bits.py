"""Before anything is timed: rowscale gives the bits of the baselines, and of itself in other layouts."""

import torch

import goals
import triton_row
from baselines import scales_of_groups, scales_of_tokens
from rowscale_c import Quantize

POISON = 0x55
GROUP_TEXT, TOKEN_TEXT = "granularity=per_group(128)", "granularity=per_token"


def finite(tokens, hidden):
    """Normal values, and rows of zeros, of subnormals and of values that the floor concerns."""
    x = torch.randn(tokens, hidden, device="cuda", dtype=torch.bfloat16) * 3
    x[tokens // 2] = 0
    x[tokens // 3] *= 1e-12
    x[tokens // 4, ::3] = 1e-39
    return x


def special(tokens, hidden):
    x = finite(tokens, hidden)
    x[0, :128] = float("inf")
    x[0, 200] = -float("inf")
    x[tokens - 1, 5::17] = float("nan")
    return x


def poisoned(x):
    return torch.full(x.shape, POISON, dtype=torch.uint8, device="cuda").view(torch.float8_e4m3fn)


def same(what, got, expected):
    """Compares bytes; tells the first that differs."""
    got, expected = got.contiguous().view(torch.uint8), expected.contiguous().view(torch.uint8)
    if torch.equal(got, expected):
        return
    different = (got != expected).flatten().nonzero()
    first = int(different[0])
    raise SystemExit(f"{what}: {len(different)} of {got.numel()} bytes differ, first at {first}: "
                     f"got {int(got.flatten()[first]):#04x}, expected {int(expected.flatten()[first]):#04x}")


def ours(library, text, x, stream):
    codes = poisoned(x)
    call = Quantize(library, text, [x], [codes], stream.cuda_stream)
    call(0)
    torch.cuda.synchronize()
    return codes, call.scale_matrix(0).clone()


def check_against_baselines(library, baselines, stream, tokens, hidden):
    shape = f"[{tokens}, {hidden}]"
    for kind, profile in ((finite, ""), (special, " profile=vllm")):
        x = kind(tokens, hidden)
        codes, scales = poisoned(x), scales_of_groups(x)
        torch.cuda.synchronize()
        baselines.op(x, codes, scales, stream)
        got_codes, got_scales = ours(library, GROUP_TEXT + profile, x, stream)
        what = f"per_group{profile} beside op, {kind.__name__} {shape}"
        same(what + ", scales", got_scales, scales)
        same(what + ", codes", got_codes, codes)
        if triton_row.takes(hidden) and kind is finite:
            row_codes, row_scales = poisoned(x), scales_of_groups(x)
            triton_row.launch(x, row_codes, row_scales, 4)
            torch.cuda.synchronize()
            same(f"row beside op, {shape}, scales", row_scales, scales)
            same(f"row beside op, {shape}, codes", row_codes, codes)
        codes, scales = poisoned(x), scales_of_tokens(x)
        torch.cuda.synchronize()
        baselines.two_pass(x, codes, scales, stream)
        got_codes, got_scales = ours(library, TOKEN_TEXT + profile, x, stream)
        what = f"per_token{profile} beside two_pass, {kind.__name__} {shape}"
        same(what + ", scales", got_scales, scales)
        same(what + ", codes", got_codes, codes)


def check_tensor(library, stream, tokens, hidden):
    """Against PyTorch's own operations; dividing by a tensor, which is IEEE's division."""
    x = finite(tokens, hidden)
    largest = torch.tensor(448.0, device="cuda")
    scale = torch.maximum(x.float().abs().max() / largest, 1 / (largest * 512))
    codes = (x.float() / scale).clamp(-448, 448).to(torch.float8_e4m3fn)
    got_codes, got_scale = ours(library, "granularity=per_tensor", x, stream)
    same(f"per_tensor beside PyTorch, [{tokens}, {hidden}], scale", got_scale.reshape(1), scale.reshape(1))
    same(f"per_tensor beside PyTorch, [{tokens}, {hidden}], codes", got_codes, codes)


def check_layouts(library, stream, tokens, hidden):
    x = finite(tokens, hidden)
    codes, scales = ours(library, GROUP_TEXT, x, stream)
    for layout in ("column_major", "column_major_tma"):
        got_codes, got_scales = ours(library, f"{GROUP_TEXT} layout={layout}", x, stream)
        same(f"{layout}, codes", got_codes, codes)
        same(f"{layout}, scales", got_scales, scales)
    wide = torch.zeros(tokens, hidden + hidden // 2, device="cuda", dtype=torch.bfloat16)
    wide[:, :hidden] = x
    got_codes, got_scales = ours(library, GROUP_TEXT, wide[:, :hidden], stream)
    same("strided rows, codes", got_codes, codes)
    same("strided rows, scales", got_scales, scales)
    codes, scales = ours(library, f"{GROUP_TEXT} encoding=ue8m0_f32", x, stream)
    exponents = (scales.contiguous().view(torch.int32) >> 23).to(torch.uint8)
    for rest in ("", " layout=column_major_tma"):
        got_codes, got_scales = ours(library, f"{GROUP_TEXT} encoding=ue8m0{rest}", x, stream)
        same(f"ue8m0{rest}, codes", got_codes, codes)
        same(f"ue8m0{rest}, scales", got_scales, exponents)
    got_codes, got_words = ours(library, f"{GROUP_TEXT} encoding=ue8m0_packed", x, stream)
    same("ue8m0_packed, codes", got_codes, codes)
    same("ue8m0_packed, scales", got_words.contiguous().view(torch.uint8)[:, :exponents.shape[1]], exponents)


def check_all(library, baselines, stream):
    with torch.cuda.stream(stream):
        for hidden in goals.HIDDEN:
            for tokens in (5, 515):
                check_against_baselines(library, baselines, stream, tokens, hidden)
        check_tensor(library, stream, 515, 4096)
        check_layouts(library, stream, 515, 5120)
