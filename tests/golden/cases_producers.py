"""Cases of the producers, alone and followed by quantize."""

import numpy as np

from fp32 import BF16, F16, F32
from inputs import DTYPES, Bits, special_rows
from model import recipe


def build(b):
    rms_norm(b)
    activations(b)
    mla(b)


def rms_norm(b):
    def weight(seed, hidden, dtype):
        return (F32(1) + Bits(seed).normal((hidden,)) * F32(0.3)).astype(dtype)

    for i, (dtype_name, dtype) in enumerate(DTYPES.items()):
        for hidden in ((1, 130), (7,), (9,))[i]:
            x = Bits(1000 + 10 * i + hidden).rows((3, hidden), dtype)
            b.produce(
                f"{dtype_name}_hidden{hidden}",
                "RMSNorm alone, hidden no multiple of 8.",
                "rms_norm",
                x,
                weight=weight(1001, hidden, dtype),
                eps=1e-6,
            )
        x, residual = Bits(1030 + i).rows((3, 200), dtype), Bits(1040 + i).rows((3, 200), dtype)
        b.produce(
            f"{dtype_name}_residual",
            "z is the rounded sum, and the residual receives it.",
            "rms_norm",
            x,
            weight=weight(1002, 200, dtype),
            residual=residual,
            eps=1e-5,
        )
        gemma = (Bits(1003).normal((200,)) * F32(0.3)).astype(dtype)
        if i == 0:
            b.produce(
                f"{dtype_name}_gemma",
                "Gemma form: one rounding at the end.",
                "rms_norm",
                x,
                weight=gemma,
                eps=1e-6,
                form="gemma",
            )
        b.produce(
            f"{dtype_name}_gemma_residual",
            "Gemma form with a residual.",
            "rms_norm",
            x,
            weight=gemma,
            residual=residual,
            eps=1e-6,
            form="gemma",
        )
        b.produce(
            f"{dtype_name}_special",
            "Zero rows, subnormals, overflowing squares, infinities, NaN.",
            "rms_norm",
            special_rows(24, dtype),
            weight=weight(1004, 24, dtype),
            eps=1e-6,
        )
        hidden = (2048, 2056, 2100)[i]
        b.produce(
            f"{dtype_name}_hidden{hidden}",
            "Lanes of the sum tree that hold one chunk, or more, or a partial one.",
            "rms_norm",
            Bits(1050 + i + hidden).rows((2, hidden), dtype),
            weight=weight(1005, hidden, dtype),
            eps=1e-6,
        )
        if dtype is F32:
            continue
        b.produce(
            f"{dtype_name}_special_residual",
            "Special values in the residual too; a stored NaN is canonical.",
            "rms_norm",
            special_rows(24, dtype),
            weight=weight(1004, 24, dtype),
            residual=special_rows(24, dtype)[::-1].copy(),
            eps=1e-6,
        )
    b.produce(
        "bf16_hidden6001",
        "Up to three chunks a lane.",
        "rms_norm",
        Bits(1060).rows((2, 6001), BF16),
        weight=weight(1006, 6001, BF16),
        eps=1e-6,
    )
    b.produce(
        "f32_hidden4104",
        "Two chunks a lane and one lane with three.",
        "rms_norm",
        Bits(1061).rows((1, 4104), F32),
        weight=weight(1007, 4104, F32),
        eps=0,
    )
    b.produce(
        "eps0_zero_row",
        "eps 0 and a zero row: 0 * infinity is NaN.",
        "rms_norm",
        np.stack([np.zeros(10), np.ones(10)]).astype(BF16),
        weight=weight(1008, 10, BF16),
        eps=0,
    )
    b.produce(
        "f32_weight_bf16",
        "A weight of a wider dtype than the input is converted to fp32 as it is.",
        "rms_norm",
        Bits(1062).rows((2, 50), BF16),
        weight=weight(1009, 50, F32),
        eps=1e-6,
    )

    hidden = 300
    targets = {
        "per_token": recipe("per_token"),
        "per_group": recipe("per_group", 128),
        "tma": recipe("per_group", 64, layout="column_major_tma"),
        "column": recipe("per_group", 64, layout="column_major"),
        "packed": recipe("per_group", 64, encoding="ue8m0_packed"),
        "ue8m0": recipe("per_group", 64, encoding="ue8m0"),
        "per_channel": recipe("per_channel"),
        "e5m2": recipe("per_token", format="e5m2"),
    }
    for i, (name, r) in enumerate(targets.items()):
        dtype = list(DTYPES.values())[(i + 2) % 3]
        residual = Bits(1100 + i).rows((3, hidden), dtype) if i % 2 == 0 else None
        b.produce(
            f"quantized_{name}",
            "RMSNorm, then quantize its rounded rows.",
            "rms_norm",
            Bits(1110 + i).rows((3, hidden), dtype),
            r,
            weight=weight(1111, hidden, dtype),
            residual=residual,
            eps=1e-6,
            form="gemma" if i % 3 == 2 else "standard",
        )
    b.produce(
        "quantized_static",
        "RMSNorm with a given scale.",
        "rms_norm",
        Bits(1120).rows((3, 77), BF16),
        recipe("per_tensor", source="given"),
        given=[0.02],
        weight=weight(1121, 77, BF16),
        eps=1e-6,
    )
    b.produce(
        "quantized_zero_weight",
        "B01: a weight of zeros gives floor scales and zero codes.",
        "rms_norm",
        Bits(1122).rows((2, 64), BF16),
        recipe("per_group", 32),
        weight=np.zeros(64, dtype=BF16),
        eps=1e-6,
    )
    b.produce(
        "quantized_special",
        "Special rows through norm and quantize.",
        "rms_norm",
        special_rows(24, F16),
        recipe("per_group", 8),
        weight=weight(1123, 24, F16),
        eps=1e-6,
    )
    b.produce(
        "quantized_hidden2100",
        "A long row with residual.",
        "rms_norm",
        Bits(1124).rows((2, 2100), BF16),
        recipe("per_group", 128, encoding="ue8m0_packed"),
        weight=weight(1125, 2100, BF16),
        residual=Bits(1126).rows((2, 2100), BF16),
        eps=1e-5,
    )
    b.produce(
        "quantized_batched",
        "Leading dimensions.",
        "rms_norm",
        Bits(1127).rows((2, 3, 40), BF16),
        recipe("per_group", 16, layout="column_major_tma"),
        weight=weight(1128, 40, BF16),
        eps=1e-6,
    )
    b.produce(
        "quantized_no_rows",
        "No rows.",
        "rms_norm",
        np.zeros((0, 40), dtype=BF16),
        recipe("per_token"),
        weight=weight(1129, 40, BF16),
        eps=1e-6,
    )


def gated(b, op, seed, **parameters):
    """Gates around every threshold, special values against each other, and quantized forms."""
    width = 1 if op == "relu2" else 2
    for i, (dtype_name, dtype) in enumerate(DTYPES.items()):
        normal = (Bits(seed + i).normal((4, width * 61)) * F32(4)).astype(dtype)
        x = np.concatenate([normal, Bits(seed + 10 + i).patterns((8, width * 61), dtype)])
        b.produce(
            dtype_name,
            "Normal data, and random bit patterns against each other; 61 columns.",
            op,
            x,
            **parameters,
        )
        gates = np.concatenate(
            [
                np.linspace(-110, 110, 221),
                [
                    -87.0,
                    -87.00001,
                    -86.99999,
                    87,
                    88,
                    88.8,
                    -103.9,
                    -104.5,
                    0.0,
                    -0.0,
                    1e-30,
                    -1e-30,
                    1e20,
                    -1e20,
                    np.inf,
                    -np.inf,
                    np.nan,
                ],
            ]
        ).astype(F32)
        up = np.resize(np.array([1, -0.5, 3, 7.5, -9], dtype=F32), gates.shape)
        if op == "relu2":
            x = gates
        elif op == "swiglu_clamped":
            x = np.stack([gates, up], axis=1).reshape(-1)
        else:
            x = np.concatenate([gates, up])
        b.produce(
            f"{dtype_name}_gates",
            "Gates from -110 to 110 and around the thresholds of exp.",
            op,
            x.reshape(1, -1).astype(dtype),
            **parameters,
        )
    targets = {
        "per_token": recipe("per_token"),
        "tma": recipe("per_group", 32, layout="column_major_tma"),
        "packed": recipe("per_group", 32, encoding="ue8m0_packed"),
        "row_e5m2": recipe("per_group", 32, format="e5m2"),
    }
    for i, (name, r) in enumerate(targets.items()):
        if op in ("gelu_tanh_mul", "relu2") and name in ("tma", "row_e5m2"):
            continue
        dtype = list(DTYPES.values())[(i + 2) % 3]
        x = (Bits(seed + 20 + i).normal((5, width * 150)) * F32(3)).astype(dtype)
        b.produce(
            f"quantized_{name}", "The activation, then quantize its rounded rows.", op, x, r, **parameters
        )
    x = (Bits(seed + 30).normal((3, width * 33))).astype(BF16)
    b.produce(
        "quantized_static",
        "A given per-tensor scale.",
        op,
        x,
        recipe("per_tensor", source="given"),
        given=[0.011],
        **parameters,
    )


def activations(b):
    gated(b, "silu_mul", 1200)
    gated(b, "gelu_tanh_mul", 1300)
    gated(b, "relu2", 1400)
    gated(b, "swiglu_clamped", 1500, alpha=1.702, limit=7.0)
    b.produce(
        "limit2_alpha1",
        "Other parameters.",
        "swiglu_clamped",
        (Bits(1600).normal((3, 60)) * F32(3)).astype(BF16),
        alpha=1.0,
        limit=2.0,
    )
    x = (Bits(1601).normal((3, 4, 80)) * F32(3)).astype(BF16)
    x[0, 2:], x[1] = F32(np.nan), F32(np.inf)
    for name, r in (
        ("packed", recipe("per_group", 16, encoding="ue8m0_packed")),
        ("tma", recipe("per_group", 16, layout="column_major_tma")),
        ("per_token", recipe("per_token")),
    ):
        b.produce(
            f"masked_{name}",
            "Rows at or beyond the count are neither read nor written.",
            "silu_mul",
            x,
            r,
            counts=[2, 0, 4],
        )
    b.produce(
        "masked_row_major",
        "A masked clamped SwiGLU.",
        "swiglu_clamped",
        x,
        recipe("per_group", 16),
        counts=[2, 0, 4],
        alpha=1.702,
        limit=7.0,
    )
    x = np.zeros((2, 64), dtype=BF16)
    x[:, 32:] = 1
    b.produce(
        "quantized_zero_gate",
        "B01: a gate of zeros gives floor scales and zero codes.",
        "silu_mul",
        x,
        recipe("per_group", 16),
    )
    b.produce(
        "quantized_no_rows",
        "No rows.",
        "silu_mul",
        np.zeros((0, 64), dtype=BF16),
        recipe("per_group", 16, layout="column_major_tma"),
    )
    b.produce("hidden1", "One column.", "silu_mul", np.array([[1.5, 2], [-3, 4]], dtype=BF16))


def mla(b):
    def weights(seed, widths, dtypes):
        return [
            (F32(1) + Bits(seed + i).normal((width,)) * F32(0.3)).astype(dtype)
            for i, (width, dtype) in enumerate(zip(widths, dtypes))
        ]

    b.mla(
        "1536_512_64",
        "The widths of DeepSeek's models: groups for q, the row of kv for the cache.",
        Bits(1700).rows((2, 1536 + 512 + 64), BF16),
        weights(1701, (1536, 512), (BF16, BF16)),
        recipe("per_group", 128, layout="column_major_tma"),
        wanted=("kv", "rope"),
        q_eps=1e-6,
        kv_eps=1e-5,
    )
    b.mla(
        "codes_and_rows",
        "Everything that can be had, from two recipes; weights of other dtypes than x.",
        Bits(1710).rows((3, 100 + 70 + 10), F16),
        weights(1711, (100, 70), (F32, BF16)),
        recipe("per_token", format="e5m2"),
        recipe("per_group", 16, encoding="ue8m0_packed"),
        wanted=("q_row", "kv", "rope"),
        q_eps=1e-3,
        kv_eps=0,
    )
    b.mla(
        "static_q",
        "A given scale for q, codes alone for kv, no rope.",
        Bits(1720).rows((3, 40 + 24), F32),
        weights(1721, (40, 24), (F32, F32)),
        recipe("per_tensor", source="given"),
        recipe("per_token"),
        given=[0.02],
        q_eps=1e-6,
        kv_eps=1e-6,
    )
    b.mla(
        "special",
        "Rows of zeros, subnormals, infinities and NaN; rope keeps every bit of its NaN.",
        special_rows(48, BF16),
        weights(1731, (20, 16), (BF16, BF16)),
        recipe("per_token"),
        recipe("per_group", 8),
        wanted=("q_row", "kv", "rope"),
        q_eps=1e-6,
        kv_eps=1e-6,
    )
    b.mla(
        "masked",
        "Rows at or beyond the count are neither read nor written.",
        Bits(1740).rows((3, 4, 64 + 32 + 16), BF16),
        weights(1741, (64, 32), (BF16, BF16)),
        recipe("per_group", 32, encoding="ue8m0"),
        recipe("per_token"),
        counts=[2, 0, 4],
        wanted=("kv", "rope"),
        q_eps=1e-6,
        kv_eps=1e-6,
    )
