"""Cases of dequantize and requantize."""

import numpy as np

from cases_quantize import GROUP_STORAGE
from fp32 import BF16, F16, F32, FORMATS, encode
from inputs import DTYPES, Bits
from model import recipe


def build(b):
    dequantize(b)
    requantize(b)


def random_codes(seed, shape, fmt="e4m3"):
    """Finite codes of normal data."""
    return encode(Bits(seed).normal(shape) * F32(60), FORMATS[fmt])


def random_scales(seed, count, encoding):
    if encoding == "f32":
        return np.abs(Bits(seed).normal((count,))) * F32(0.01)
    exponent = Bits(seed).raw(count).astype(np.int32) % 12 - 9
    return F32(2.0) ** exponent.astype(F32) if encoding == "ue8m0_f32" else exponent + 127


def dequantize(b):
    scales = np.array(
        [1, 1 / 448, 3.7e-5, 1e-45, 2.0**-149 * 300, 1e30, 3e38, np.inf, np.nan, 0, -0.0, -1.5], dtype=F32
    )
    codes = np.tile(np.arange(256, dtype=np.uint8), (len(scales), 1))
    for fmt in FORMATS:
        for dtype_name, dtype in DTYPES.items():
            if fmt == "e5m2" and dtype is BF16:
                continue
            b.dequantize(
                f"every_code_{fmt}_{dtype_name}",
                "B21: all 256 codes times many scales; one product, one rounding.",
                codes,
                scales,
                recipe("per_token", source="given", format=fmt),
                dtype,
            )
    for i, (encoding, layout) in enumerate(GROUP_STORAGE):
        if encoding == "ue8m0_f32" and layout != "row_major":
            continue  # read like f32
        dtype = list(DTYPES.values())[i % 3]
        r = recipe("per_group", 16, source="given", encoding=encoding, layout=layout)
        b.dequantize(
            f"per_group_{encoding}_{layout}",
            "Scales read through each layout; pads are poison.",
            random_codes(900 + i, (5, 90)),
            random_scales(901, 30, encoding),
            r,
            dtype,
        )
    for i, (encoding, layout) in enumerate(
        (("f32", "column_major_tma"), ("ue8m0", "column_major_tma"), ("ue8m0_packed", "packed"))
    ):
        r = recipe("per_group", 16, source="given", encoding=encoding, layout=layout)
        b.dequantize(
            f"per_group_{encoding}_{layout}_batched",
            "Strides per batch.",
            random_codes(920 + i, (2, 3, 90)),
            random_scales(921, 36, encoding),
            r,
            BF16,
        )
    for layout in ("row_major", "block_k4"):
        b.dequantize(
            f"per_block_{layout}",
            "Partial blocks on both sides.",
            random_codes(930, (5, 18)),
            random_scales(931, 15, "f32"),
            recipe("per_block", 2, 4, source="given", layout=layout),
            BF16,
        )
    b.dequantize(
        "per_block_batched",
        "Independent matrices.",
        random_codes(932, (2, 3, 10)),
        random_scales(933, 12, "f32"),
        recipe("per_block", 2, 4, source="given"),
        F32,
    )
    for name, count in (("per_tensor", 1), ("per_channel", 4), ("per_column", 30)):
        b.dequantize(
            name,
            "Each shape of scales.",
            random_codes(934, (4, 30)),
            random_scales(935, count, "f32"),
            recipe(name, source="given"),
            F16,
        )
    b.dequantize(
        "ue8m0_ends",
        "Bytes 0, 1, 254 and 255 (NaN).",
        np.tile(np.arange(0, 256, 5, dtype=np.uint8), (4, 1)),
        [0, 1, 254, 255],
        recipe("per_token", source="given", encoding="ue8m0"),
        F32,
    )
    b.dequantize(
        "no_rows",
        "No rows.",
        np.zeros((0, 16), dtype=np.uint8),
        np.zeros((0, 1), dtype=F32),
        recipe("per_token", source="given"),
        BF16,
    )
    b.dequantize(
        "hidden1",
        "One element a row.",
        random_codes(936, (3, 1)),
        random_scales(937, 3, "f32"),
        recipe("per_group", 128, source="given"),
        BF16,
    )


def requantize(b):
    group_in = recipe("per_group", 32, source="given")
    block_in = recipe("per_block", 8, 8, source="given")
    codes = random_codes(950, (5, 140))
    scales = random_scales(951, 25, "f32")
    for name, r in (
        ("packed", recipe("per_group", 32, encoding="ue8m0_packed")),
        ("ue8m0", recipe("per_group", 32, encoding="ue8m0", layout="column_major_tma")),
        ("ue8m0_f32", recipe("per_group", 32, encoding="ue8m0_f32")),
        ("same", recipe("per_group", 32)),
        ("per_token", recipe("per_token")),
        ("per_tensor", recipe("per_tensor")),
        ("e5m2", recipe("per_group", 32, format="e5m2")),
    ):
        b.requantize(
            f"per_group_to_{name}",
            "New scales from fp32(code)*scale, codes follow.",
            codes,
            scales,
            group_in,
            r,
        )
    for name, r in (
        ("ue8m0_f32", recipe("per_block", 8, 8, encoding="ue8m0_f32")),
        ("block_k4", recipe("per_block", 4, 8, layout="block_k4")),
        ("per_channel", recipe("per_channel")),
    ):
        b.requantize(
            f"per_block_to_{name}",
            "Blocks of a weight to another recipe.",
            random_codes(952, (18, 20)),
            random_scales(953, 9, "f32"),
            block_in,
            r,
        )
    every = np.arange(256, dtype=np.uint8).reshape(8, 32)
    for fmt, other in (("e4m3", "e5m2"), ("e5m2", "e4m3")):
        b.requantize(
            f"every_code_{fmt}_to_{other}",
            "All codes, NaN and infinities among them.",
            every,
            random_scales(954, 8, "f32"),
            recipe("per_token", source="given", format=fmt),
            recipe("per_group", 4, format=other),
        )
    ones = np.zeros((1, 128), dtype=np.uint8)
    ones[0, :] = 0x7E
    b.requantize(
        "b08",
        "B08: 1.0 under 1/448 becomes 256 under 2^-8; changing the scale alone would give 1.75.",
        ones,
        [1 / 448],
        recipe("per_group", 128, source="given"),
        recipe("per_group", 128, encoding="ue8m0"),
    )
    b.requantize(
        "batched",
        "Packed scales of batches to TMA-aligned floats.",
        random_codes(955, (2, 3, 70)),
        random_scales(956, 30, "ue8m0"),
        recipe("per_group", 16, source="given", encoding="ue8m0_packed"),
        recipe("per_group", 32, layout="column_major_tma"),
    )
    b.requantize(
        "fp32_intermediate",
        "Products that a 16-bit step would overflow or round.",
        random_codes(957, (2, 64)),
        [3.1e5, 1.7e-9],
        recipe("per_token", source="given"),
        recipe("per_group", 16, encoding="ue8m0_f32"),
    )
