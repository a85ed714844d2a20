"""Small inputs from public bug reports (B numbers) and the vllm profile of plain quantization."""

import numpy as np

from case_builder import bits16
from fp32 import BF16, F16, F32, from_bits, to_bits
from inputs import DTYPES, Bits, special_rows
from model import recipe


def build(b):
    bug_inputs(b)
    vllm(b)


def bug_inputs(b):
    for i, (name, r) in enumerate(
        (
            ("per_tensor", recipe("per_tensor")),
            ("per_token", recipe("per_token")),
            ("per_group", recipe("per_group", 128)),
            ("packed", recipe("per_group", 128, encoding="ue8m0_packed")),
        )
    ):
        x = np.zeros((2, 256), dtype=list(DTYPES.values())[i % 3])
        x[1, 200] = 1
        b.quantize(f"b01_{name}", "B01: all-zero groups beside one element of 1.0.", x, r)
    x = np.zeros((2, 256), dtype=BF16)
    for name, r in (
        ("per_tensor", recipe("per_tensor")),
        ("per_channel", recipe("per_channel")),
        ("per_block", recipe("per_block", 128, 128)),
    ):
        b.quantize(f"b01_all_zero_{name}", "B01: nothing but zeros.", x, r)
    w = np.zeros((20, 20), dtype=BF16)
    w[0, 0], w[15, 15] = 1, 1e-38
    b.quantize(
        "b02_per_block",
        "B02: zero blocks and a block of 1e-38 beside a normal one.",
        w,
        recipe("per_block", 10, 10),
    )

    tiny = np.where(np.arange(128) % 2 == 0, F32(1e-37), F32(-1e-37)).reshape(1, 128)
    subnormal = np.full((1, 128), 1e-40, dtype=F32)
    for name, r in (
        ("per_tensor", recipe("per_tensor")),
        ("per_token", recipe("per_token")),
        ("per_group", recipe("per_group", 128)),
        ("per_channel", recipe("per_channel")),
        ("floor_none", recipe("per_token", floor=("none",))),
    ):
        b.quantize(
            f"b03_{name}",
            "B03: an amax whose reciprocal overflows, and subnormals that may not be flushed.",
            np.concatenate([tiny, subnormal]),
            r,
        )

    x = np.zeros((1, 128), dtype=F32)
    x[0, 0] = from_bits(0x39E00002)  # 0x1.c00004p-12
    b.quantize(
        "b05_key",
        "B05: a quotient of 2^-20*(1+2^-23) rounds up to 2^-19.",
        x,
        recipe("per_group", 128, encoding="ue8m0_packed"),
    )
    x = np.zeros((1, 128), dtype=BF16)
    x[0, 0] = 1
    for encoding in ("f32", "ue8m0"):
        b.quantize(
            f"b08_{encoding}",
            "B08: the data are divided by the scale as stored, so 1.0 decodes to 1.0.",
            x,
            recipe("per_group", 128, encoding=encoding),
        )
    x = np.array(
        [[400.199585, 272.156555, 136.002075, 1.0625001, 1.0625, 256, 272, 304, 320, 416, 1.1875]], dtype=F32
    )
    b.quantize(
        "b10_b17",
        "B10, B17: one rounding from fp32; ties go to the even code.",
        np.concatenate([x, -x]),
        recipe("per_tensor", source="given"),
        given=[1],
    )
    x = np.zeros((2, 128), dtype=F32)
    x[0, 0], x[1, 0] = 448.109375, 1.998
    b.quantize(
        "b11",
        "B11: the amax stays in fp32 before the exponent is taken.",
        x,
        recipe("per_group", 128, encoding="ue8m0"),
    )

    x = np.zeros((3, 128), dtype=BF16)
    x[0, :4] = [1.078125, 0.404296875, 0.80859375, 0.2021484375]
    x[1, :2] = [1.53125, 0.005340576171875]
    x[2, :2] = [1.203125, 0.006378173828125]
    for quotient in ("divide", "reciprocal"):
        b.quantize(
            f"b12_b13_{quotient}",
            "B12, B13: quotients that are exact ties only under an IEEE division.",
            x,
            recipe("per_group", 128, quotient=quotient),
        )
    b.quantize(
        "b12_probe",
        "B12: 4.6875/0.9375 is exactly 5.",
        np.array([[4.6875]], dtype=F32),
        recipe("per_tensor", source="given"),
        given=[0.9375],
    )
    x = np.array([[448, 464, 464.0001, 465, 480, 1000, -1000, np.inf, -np.inf, np.nan]], dtype=F32)
    for fmt, factor in (("e4m3", 1), ("e5m2", 128)):
        b.quantize(
            f"b14_{fmt}",
            "B14: everything beyond MAX saturates, infinity included.",
            x * F32(factor),
            recipe("per_tensor", source="given", format=fmt),
            given=[1],
        )
    b.quantize(
        "b15",
        "B15: outliers under a small given scale saturate; the last quotient overflows fp32.",
        np.array([[4.47, 4.48, 4.65, 5.0, -1e4, 3e38]], dtype=F32),
        recipe("per_tensor", source="given"),
        given=[0.01],
    )

    ones = np.full((4, 128), 0x3F80, dtype=np.uint16)
    ones[0, 5], ones[1, 5], ones[2, 5], ones[3, 5] = 0x7FC0, 0x7F81, 0xFF81, 0x7F80
    for name, sizes, nan in (
        ("per_token", (), "propagate"),
        ("per_token", (), "clamp_high"),
        ("per_group", (128,), "clamp_low"),
    ):
        b.quantize(
            f"b16_{name}_{nan}",
            "B16: quiet and signalling NaN in a row of ones do not touch the scale.",
            bits16(ones, BF16),
            recipe(name, *sizes, nan=nan),
        )
    m = np.arange(8, dtype=F32)
    x = np.stack(
        [
            m * F32(2.0**-9),
            (m + F32(0.5)) * F32(2.0**-9),
            np.array(
                [2.0**-10, 2.0**-10 * 1.001, 3 * 2.0**-10, 0, -0.0, 2.0**-11, -(2.0**-10), -(2.0**-11)],
                dtype=F32,
            ),
        ]
    )
    b.quantize(
        "b20",
        "B20: the subnormal codes and their midpoints.",
        np.concatenate([x, -x]),
        recipe("per_tensor", source="given"),
        given=[1],
    )
    x = np.zeros((3, 128), dtype=F32)
    x[0, :2], x[1, :2], x[2, :] = [1000, 1], [2, 1], 1e-9
    bound = ("amax", int(to_bits(F32(448))))
    for profile in ("rowscale", "vllm"):
        b.quantize(
            f"b23_{profile}",
            "B23: an upper bound on the amax, before the division by MAX.",
            x,
            recipe("per_token", bound=bound, profile=profile),
        )
    for rows, columns, sizes, name in ((192, 200, (128, 128), "192x200"), (1, 129, (128, 128), "1x129")):
        w = np.ones((rows, columns), dtype=BF16)
        w[128:, 128:] = 3
        b.quantize(
            f"b36_{name}",
            "B36: partial last blocks count their real elements only.",
            w,
            recipe("per_block", *sizes),
        )
    w = np.ones((192, 200), dtype=BF16)
    w[128:, 128:] = 3
    b.quantize(
        "b36_block_k4",
        "B36 in the layout with padded k-blocks.",
        w,
        recipe("per_block", 128, 128, layout="block_k4"),
    )
    x = np.ones((3, 640), dtype=BF16) * np.array([[1], [1.5], [1.5]], dtype=BF16)
    x *= BF16(448)
    x[2, :] = 0
    b.quantize(
        "packed_672",
        "An amax of 672 rounds up to 2; zero groups give byte 0x5E.",
        x,
        recipe("per_group", 128, encoding="ue8m0_packed"),
    )


def vllm(b):
    for i, (dtype_name, dtype) in enumerate(DTYPES.items()):
        x = Bits(800 + i).rows((5, 256), dtype)
        special = special_rows(16, dtype)
        b.quantize(
            f"vllm_per_tensor_{dtype_name}",
            "vLLM dynamic per-tensor: reciprocal, no floor.",
            x,
            recipe("per_tensor", profile="vllm"),
        )
        if dtype is BF16:
            b.quantize(
                "vllm_static",
                "vLLM static per-tensor: reciprocal, NaN to the largest code.",
                np.concatenate([x[:, :16], special]),
                recipe("per_tensor", profile="vllm", source="given"),
                given=[0.0173],
            )
        b.quantize(
            f"vllm_per_token_{dtype_name}",
            "vLLM per-token: divide, scale floor, NaN to the largest code.",
            np.concatenate([x[:, :16], special]),
            recipe("per_token", profile="vllm"),
        )
        layout = ("row_major", "column_major", "column_major_tma")[i]
        b.quantize(
            f"vllm_per_group_{layout}",
            "vLLM per-token-group: divide, amax floor, NaN to the most negative code.",
            np.concatenate([x[:, :16], special]),
            recipe("per_group", 8, profile="vllm", layout=layout),
        )
        if dtype is BF16:
            b.quantize(
                "vllm_per_group_ue8m0",
                "vLLM per-token-group with power-of-two scales.",
                np.concatenate([x[:, :16], special]),
                recipe("per_group", 8, profile="vllm", encoding="ue8m0_f32", layout=layout),
            )
            b.quantize(
                "vllm_packed",
                "vLLM packed UE8M0; two rows are zero.",
                np.concatenate([x[:3], x[3:] * dtype(0)]),
                recipe("per_group", 64, profile="vllm", encoding="ue8m0_packed"),
            )
    b.quantize(
        "vllm_per_tensor_zero",
        "An all-zero tensor gives the floor scale and zeros.",
        np.array([[0, -0.0], [0, 0]], dtype=BF16),
        recipe("per_tensor", profile="vllm"),
    )
    b.quantize(
        "vllm_per_tensor_tiny",
        "No floor while the amax is above 0.",
        np.array([[1e-7, -3e-8, 0]], dtype=F32),
        recipe("per_tensor", profile="vllm"),
    )
    b.quantize(
        "vllm_per_tensor_subnormal",
        "1/s overflows: products are infinite, and 0*inf is NaN.",
        np.array([[1e-40, -3e-41, 0]], dtype=F32),
        recipe("per_tensor", profile="vllm"),
    )
    b.quantize(
        "vllm_per_tensor_infinite",
        "Infinite amax: finite elements give zeros, infinite ones the NaN rule.",
        special_rows(8, F32)[5:9],
        recipe("per_tensor", profile="vllm"),
    )
    b.quantize(
        "vllm_per_tensor_no_rows",
        "Zero tokens: the floor scale.",
        np.zeros((0, 16), dtype=BF16),
        recipe("per_tensor", profile="vllm"),
    )
    x = Bits(810).rows((4, 24), F16)
    for name, sizes, scales in (("per_token", (), 4), ("per_column", (), 24), ("per_block", (2, 8), 6)):
        b.quantize(
            f"vllm_static_{name}",
            "vLLM static scales of other shapes: reciprocal, NaN to the largest code.",
            x,
            recipe(name, *sizes, profile="vllm", source="given"),
            given=np.abs(Bits(811).normal((scales,))),
        )
