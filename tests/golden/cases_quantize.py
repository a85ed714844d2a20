"""Cases of plain quantization by the recipe table: granularity, encoding, layout, floor, bound, nan."""

import numpy as np

from fp32 import BF16, F16, F32, FORMATS, decode, to_bits
from inputs import DTYPES, Bits, special_rows
from model import recipe

# Every way to store the scales of per_group.
GROUP_STORAGE = [
    ("f32", "row_major"),
    ("f32", "column_major"),
    ("f32", "column_major_tma"),
    ("ue8m0_f32", "row_major"),
    ("ue8m0_f32", "column_major"),
    ("ue8m0_f32", "column_major_tma"),
    ("ue8m0", "row_major"),
    ("ue8m0", "column_major"),
    ("ue8m0", "column_major_tma"),
    ("ue8m0_packed", "packed"),
]
GRANULARITIES = {
    "per_tensor": (),
    "per_token": (),
    "per_channel": (),
    "per_group": (128,),
    "per_block": (128, 128),
}


def build(b):
    granularities(b)
    storages(b)
    shapes(b)
    masked(b)
    limits(b)
    given_scales(b)
    infinities(b)
    sweeps(b)


def granularities(b):
    for i, (name, sizes) in enumerate(GRANULARITIES.items()):
        # The two granularities of activations meet every dtype, the others one each.
        common = name in ("per_token", "per_group")
        for j, (dtype_name, dtype) in enumerate(DTYPES.items()):
            if not common and j != i % 3:
                continue
            random = Bits(100 + 10 * i + j)
            shape = (131, 140) if name == "per_block" else (5, 300)
            b.quantize(
                f"{name}_{dtype_name}",
                "Normal data with the default recipe.",
                random.rows(shape, dtype),
                recipe(name, *sizes),
            )
            x = special_rows(12, dtype) if name != "per_tensor" else special_rows(12, dtype)[5:9]
            small = {"per_group": (4,), "per_block": (2, 4)}.get(name, sizes)
            b.quantize(
                f"{name}_{dtype_name}_special",
                "Zeros of both signs, subnormals, huge values, infinities and NaN.",
                x,
                recipe(name, *small),
            )
        if name == "per_channel":
            continue
        x = Bits(180 + i).rows((6, 40), BF16)
        x[2] = 0
        b.quantize(
            f"{name}_e5m2",
            "The e5m2 format with its own MAX and default floor.",
            x,
            recipe(name, *sizes, format="e5m2"),
        )
    for i, (dtype_name, dtype) in enumerate(DTYPES.items()):
        x = Bits(190 + i).patterns((9, 96), dtype)
        b.quantize(
            f"patterns_{dtype_name}",
            "Random bit patterns of the input dtype, all kinds of NaN among them.",
            x,
            recipe("per_group", 8, format=list(FORMATS)[i % 2]),
        )
    for name, encoding in (("per_tensor", "ue8m0_f32"), ("per_token", "ue8m0"), ("per_block", "ue8m0_f32")):
        x = Bits(197).rows((5, 200), BF16)
        sizes = (2, 64) if name == "per_block" else ()
        b.quantize(
            f"{name}_{encoding}",
            "Power-of-two scales outside per_group.",
            x,
            recipe(name, *sizes, encoding=encoding),
        )


def storages(b):
    for i, (encoding, layout) in enumerate(GROUP_STORAGE):
        dtype_name, dtype = list(DTYPES.items())[i % 3]
        r = recipe("per_group", 64, encoding=encoding, layout=layout)
        b.quantize(
            f"per_group_{encoding}_{layout}",
            "Each encoding in each layout; five groups, the last one short.",
            Bits(200 + i).rows((6, 300), dtype),
            r,
        )
        if encoding == "ue8m0_f32":
            continue  # stored like f32
        b.quantize(
            f"per_group_{encoding}_{layout}_batched",
            "Leading dimensions: strides per batch, pads between batches.",
            Bits(220 + i).rows((3, 5, 70), dtype),
            recipe("per_group", 16, encoding=encoding, layout=layout),
        )
    for rows in (1, 3, 4):
        x = Bits(240 + rows).rows((rows, 160), BF16)
        b.quantize(
            f"packed_rows{rows}",
            "Packed words for T around a multiple of 4: pad rows and absent groups are 0.",
            x,
            recipe("per_group", 32, encoding="ue8m0_packed"),
        )
        b.quantize(
            f"tma_f32_rows{rows}",
            "Column stride is T rounded up to 4 floats.",
            x,
            recipe("per_group", 32, layout="column_major_tma"),
        )
    for rows in (1, 17):
        b.quantize(
            f"tma_ue8m0_rows{rows}",
            "Column stride is T rounded up to 16 bytes.",
            Bits(260 + rows).rows((rows, 96), BF16),
            recipe("per_group", 32, encoding="ue8m0", layout="column_major_tma"),
        )
    for columns in (2, 9):
        b.quantize(
            f"block_k4_columns{columns}",
            "Rows of block scales padded to a multiple of 4 columns.",
            Bits(270 + columns).rows((7, columns), BF16),
            recipe("per_block", 3, 2, layout="block_k4"),
        )


def shapes(b):
    tma = recipe("per_group", 128, layout="column_major_tma")
    packed = recipe("per_group", 128, encoding="ue8m0_packed")
    for name, r in (
        ("per_tensor", recipe("per_tensor")),
        ("per_token", recipe("per_token")),
        ("per_group", tma),
        ("packed", packed),
        ("per_block", recipe("per_block", 128, 128)),
    ):
        b.quantize(
            f"{name}_no_rows",
            "No rows: nothing is read; a dynamic per_tensor still writes its floor scale.",
            np.zeros((0, 256), dtype=BF16),
            r,
        )
    b.quantize(
        "per_tensor_no_rows_floor_none",
        "No rows and no floor: the amax starts at 0, so the scale is 0.",
        np.zeros((0, 8), dtype=F32),
        recipe("per_tensor", floor=("none",)),
    )
    b.quantize(
        "per_tensor_no_rows_one_if_zero",
        "No rows: the amax is 0, so the scale is 1.",
        np.zeros((0, 8), dtype=F32),
        recipe("per_tensor", floor=("if_zero", 0x3F800000)),
    )
    for name, sizes in (("per_token", ()), ("per_group", (128,)), ("per_block", (128, 128))):
        b.quantize(
            f"{name}_hidden1", "A row of one element.", Bits(300).rows((3, 1), F32), recipe(name, *sizes)
        )
    for hidden in (7, 17, 129):
        x = Bits(310 + hidden).rows((3, hidden), F16)
        x[:, -1] = F16(1000)
        r = recipe("per_group", 16) if hidden == 17 else recipe("per_token")
        b.quantize(
            f"{r.granularity}_hidden{hidden}", "B29: the amax is the last element, in the vector tail.", x, r
        )
    b.quantize(
        "per_group_size1", "Groups of one element.", Bits(320).rows((2, 9), F32), recipe("per_group", 1)
    )
    b.quantize(
        "per_group_size512",
        "B25: a group larger than a warp's vectors; the neighbour is huge.",
        np.concatenate([Bits(321).normal((2, 512)), Bits(322).normal((2, 512)) * F32(1e30)], 1).astype(BF16),
        recipe("per_group", 512),
    )
    b.quantize(
        "per_group_larger_than_row",
        "The only group is longer than the row.",
        Bits(323).rows((2, 40), BF16),
        recipe("per_group", 128),
    )
    b.quantize(
        "per_token_batched",
        "Leading dimensions are rows.",
        Bits(324).rows((2, 3, 50), BF16),
        recipe("per_token"),
    )
    b.quantize(
        "per_group_four_dimensions",
        "B35: two leading dimensions more than a matrix.",
        Bits(325).rows((2, 3, 4, 40), BF16),
        recipe("per_group", 32),
    )
    b.quantize(
        "per_group_one_dimension",
        "B35: a single row without a row dimension.",
        Bits(326).rows((130,), BF16),
        recipe("per_group", 128),
    )
    b.quantize(
        "per_tensor_batched",
        "One scale for all batches.",
        Bits(327).rows((2, 3, 33), F16),
        recipe("per_tensor"),
    )
    b.quantize(
        "per_block_batched",
        "Leading dimensions of a block recipe are independent matrices.",
        Bits(328).rows((3, 5, 10), F32),
        recipe("per_block", 2, 4),
    )
    b.quantize(
        "per_block_1x128",
        "Blocks of one row are groups.",
        Bits(329).rows((3, 200), BF16),
        recipe("per_block", 1, 128),
    )


def masked(b):
    counts = [3, 0, 5]
    for i, (encoding, layout) in enumerate(GROUP_STORAGE):
        if encoding == "ue8m0_f32" or (encoding, layout) == ("ue8m0", "column_major"):
            continue
        x = Bits(400 + i).rows((3, 5, 70), BF16)
        # Rows behind the count are garbage that nobody may read into a result.
        x[0, 3:], x[1, :] = F32(np.nan), F32(np.inf)
        b.quantize(
            f"masked_per_group_{encoding}_{layout}",
            "Rows at or beyond the count, and pads, are not written.",
            x,
            recipe("per_group", 16, encoding=encoding, layout=layout),
            counts=counts,
        )
    b.quantize(
        "masked_per_token",
        "Rows at or beyond the count are not written.",
        Bits(411).rows((4, 3, 33), F32),
        recipe("per_token"),
        counts=[1, 2, 3, 0],
    )
    b.quantize(
        "masked_given_per_tensor",
        "A given scale with a mask.",
        Bits(412).rows((2, 3, 24), F16),
        recipe("per_tensor", source="given"),
        given=[0.037],
        counts=[2, 0],
    )


def limits(b):
    def bits(value):
        return int(to_bits(F32(value)))

    x = Bits(500).rows((6, 64), F32)
    x[1] = 0
    x[2] *= F32(1e-9)
    x[3] *= F32(1e-30)
    floors = {
        "none": ("none",),
        "amax": ("amax", bits(1e-4)),
        "scale": ("scale", bits(1e-3)),
        "one_if_zero": ("if_zero", 0x3F800000),
        "if_zero": ("if_zero", bits(0.25)),
    }
    for name, floor in floors.items():
        for granularity, sizes in (("per_token", ()), ("per_group", (32,))):
            encoding = "f32" if granularity == "per_token" else "ue8m0"
            if encoding == "ue8m0" and name not in ("none", "amax"):
                continue
            b.quantize(
                f"floor_{name}_{encoding}",
                "Rows that are zero, tiny and ordinary under one floor, which comes before UE8M0.",
                x,
                recipe(granularity, *sizes, floor=floor, encoding=encoding),
            )
    for nan, fmt in (("clamp_high", "e5m2"), ("clamp_low", "e5m2"), ("clamp_low", "e4m3")):
        b.quantize(
            f"floor_none_zero_rows_{nan}_{fmt}",
            "No floor: 0/0 is NaN and follows the nan rule.",
            x[:3],
            recipe("per_token", floor=("none",), nan=nan, format=fmt),
        )
    bounds = {
        "amax": ("amax", bits(2.5)),
        "scale": ("scale", bits(0.004)),
        "amax_nan": ("amax", 0x7FC00000),
        "scale_nan": ("scale", 0xFFC00001),
        "amax_zero": ("amax", 0),
        "amax_negative": ("amax", bits(-3)),
        "scale_zero": ("scale", 0),
        "scale_negative": ("scale", bits(-3)),
        "amax_inf": ("amax", bits(np.inf)),
    }
    for name, bound in bounds.items():
        for granularity, sizes in (("per_token", ()), ("per_group", (32,))):
            if granularity == "per_group" and name not in ("amax", "scale", "amax_zero"):
                continue  # below 0, a scale bound would undo the amax floor, which comes before it
            b.quantize(
                f"bound_{name}_{granularity}",
                "A bound limits its own quantity; NaN is ignored, zero and below leave what the floor gives.",
                x,
                recipe(granularity, *sizes, bound=bound),
            )
    for name, floor in (("one_if_zero", ("if_zero", 0x3F800000)), ("none", ("none",))):
        b.quantize(
            f"floor_{name}_underflow",
            "amax / MAX underflows to 0 while the amax is not 0: without a floor x/0 saturates, if_zero mends the scale.",
            np.array([[1e-45, -1e-45, 0, -0.0]], dtype=F32),
            recipe("per_token", floor=floor),
        )
    b.quantize(
        "bound_scale_ue8m0",
        "The bound comes before the rounding up, so the stored scale may exceed it.",
        x,
        recipe("per_group", 32, encoding="ue8m0_f32", bound=bounds["scale"]),
    )
    b.quantize(
        "bound_amax_packed",
        "A bound on the amax with packed scales.",
        x,
        recipe("per_group", 32, encoding="ue8m0_packed", bound=bounds["amax"]),
    )
    b.quantize(
        "bound_amax_below_floor",
        "The floor comes after the bound and wins.",
        x,
        recipe("per_token", bound=("amax", bits(1e-3)), floor=("amax", bits(0.5))),
    )
    y = special_rows(12, F32)
    for quotient, nan in (("divide", "clamp_high"), ("divide", "clamp_low"), ("reciprocal", "propagate")):
        b.quantize(
            f"special_{quotient}_{nan}",
            "Special values under another quotient or nan rule.",
            y,
            recipe("per_token", quotient=quotient, nan=nan),
        )
    b.quantize(
        "reciprocal_per_group",
        "Multiplying by the rounded reciprocal moves some codes.",
        Bits(501).rows((4, 512), BF16),
        recipe("per_group", 64, quotient="reciprocal"),
    )
    b.quantize(
        "reciprocal_overflow",
        "1/s overflows for a subnormal s: products are infinite or 0*inf.",
        np.array([[1e-40, -1e-41, 0, -0.0], [1e-36, 1e-37, -1e-38, 0]], dtype=F32),
        recipe("per_token", quotient="reciprocal", floor=("none",)),
    )


def given_scales(b):
    scales = [1, 0.01, 0, -0.0, -0.5, np.inf, -np.inf, np.nan, 1e-45, 3e38, 2.0**-100]
    x = np.tile(special_rows(9, F32)[5:8].reshape(1, 27), (len(scales), 1))
    x[:, :6] = [448, -1e4, 3e38, 1e-40, 0, -0.0]
    for quotient, fmt in (("divide", "e4m3"), ("divide", "e5m2"), ("reciprocal", "e4m3")):
        b.quantize(
            f"given_per_token_{quotient}_{fmt}",
            "Given scales are used as they are: zero, negative, infinite, NaN.",
            x,
            recipe("per_token", source="given", quotient=quotient, format=fmt),
            given=scales,
        )
    b.quantize(
        "given_per_tensor",
        "One given scale.",
        Bits(600).rows((5, 77), BF16),
        recipe("per_tensor", source="given"),
        given=[0.0173],
    )
    b.quantize(
        "given_per_column",
        "One given scale a column.",
        Bits(601).rows((5, 40), F16),
        recipe("per_column", source="given"),
        given=np.abs(Bits(602).normal((40,))),
    )
    b.quantize(
        "given_per_column_batched",
        "The scales of the columns serve every row of every batch.",
        Bits(603).rows((2, 3, 20), BF16),
        recipe("per_column", source="given", quotient="reciprocal"),
        given=Bits(604).normal((20,)),
    )
    b.quantize(
        "given_per_channel",
        "Given scales of weight rows.",
        Bits(605).rows((7, 40), BF16),
        recipe("per_channel", source="given"),
        given=np.abs(Bits(606).normal((7,))),
    )
    for encoding, layout in GROUP_STORAGE:
        if encoding == "ue8m0_f32" and layout != "row_major":
            continue  # read like f32
        r = recipe("per_group", 16, source="given", encoding=encoding, layout=layout)
        exponent = Bits(607).raw(5 * 3).astype(np.int32) % 9 - 6
        if encoding == "f32":
            given = np.abs(Bits(608).normal((15,)))
        elif encoding == "ue8m0_f32":
            given = F32(2.0) ** exponent.astype(F32)
        else:
            given = exponent + 127
        b.quantize(
            f"given_per_group_{encoding}_{layout}",
            "Given scales are read through their layout; pads are poison.",
            Bits(609).rows((5, 40), BF16),
            r,
            given=given,
        )
    ends = np.array([0, 1, 126, 127, 254], dtype=np.uint8)
    y = np.tile(np.array([1, -1, 1e-38, 3e38, 0, -0.0, np.inf, np.nan], dtype=F32), (5, 1))
    b.quantize(
        "given_ue8m0_ends",
        "Bytes 0 (the subnormal 2^-127), 1 and 254 as given scales.",
        y,
        recipe("per_token", source="given", encoding="ue8m0"),
        given=ends,
    )
    b.quantize(
        "given_ue8m0_255",
        "Byte 255 as a given scale is NaN, as in decode.",
        y[:1],
        recipe("per_token", source="given", encoding="ue8m0"),
        given=[255],
    )
    b.quantize(
        "given_per_block",
        "Given scales of blocks.",
        Bits(610).rows((5, 10), F16),
        recipe("per_block", 2, 4, source="given"),
        given=np.abs(Bits(611).normal((9,))),
    )
    b.quantize(
        "given_block_k4",
        "Given scales of blocks in the padded layout.",
        Bits(612).rows((5, 10), F16),
        recipe("per_block", 2, 2, source="given", layout="block_k4"),
        given=np.abs(Bits(613).normal((15,))),
    )


def infinities(b):
    x = Bits(700).normal((5, 64)).astype(BF16)
    x[0, 3], x[1, 40], x[3, :] = np.inf, -np.inf, np.inf
    x[2, 5], x[4, 5], x[4, 6] = np.nan, np.nan, -np.inf
    for encoding, layout in (
        ("f32", "row_major"),
        ("ue8m0_f32", "row_major"),
        ("ue8m0", "row_major"),
        ("ue8m0_packed", "packed"),
    ):
        nan = "clamp_low" if encoding == "ue8m0_packed" else "propagate"
        b.quantize(
            f"infinite_{encoding}",
            "Infinite amax: infinite scale (byte 255), signed zeros, inf/inf by the nan rule.",
            x,
            recipe("per_group", 32, encoding=encoding, layout=layout, nan=nan),
        )


def sweeps(b):
    one = recipe("per_tensor", source="given")
    every = np.arange(65536, dtype=np.uint16)
    b.quantize(
        "every_bf16_e4m3",
        "Encode of every bf16 pattern at scale 1.",
        every.view(BF16).reshape(64, 1024),
        one,
        given=[1],
    )
    b.quantize(
        "every_fp16_e5m2",
        "Encode of every fp16 pattern at scale 1.",
        every.view(F16).reshape(64, 1024),
        recipe("per_tensor", source="given", format="e5m2"),
        given=[1],
    )
    for name, fmt in FORMATS.items():
        values = decode(np.arange(fmt.max_code + 1), fmt)
        middles = (values[1:] + values[:-1]) / F32(2)
        x = np.stack([values[1:], middles, np.nextafter(middles, F32(np.inf)), np.nextafter(middles, F32(0))])
        b.quantize(
            f"midpoints_{name}",
            "B10, B17, B20: every code value and every midpoint with both fp32 neighbours, at scale 1.",
            np.concatenate([x, -x]),
            recipe("per_tensor", source="given", format=name),
            given=[1],
        )
    hot = np.full((70, 70), 0.1, dtype=BF16)
    np.fill_diagonal(hot, np.where(np.arange(70) % 2 == 0, 100, -100).astype(BF16))
    b.quantize("one_hot", "B24: the amax at each position of the row, both signs.", hot, recipe("per_token"))
    x = np.zeros((3 * 81, 4), dtype=F32)
    for i, k in enumerate(range(-40, 41)):
        peak = F32(448 * 2.0**k)
        for j, value in enumerate((peak, np.nextafter(peak, F32(np.inf)), np.nextafter(peak, F32(0)))):
            x[3 * i + j] = [value, -value / F32(3), value / F32(448), 0]
    b.quantize(
        "b05",
        "B05: amax at 448*2^k and its neighbours; the exponent comes from bits.",
        x,
        recipe("per_group", 4, encoding="ue8m0_f32"),
    )
