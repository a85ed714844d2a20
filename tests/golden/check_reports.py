"""Right values stated by public bug reports (B numbers), and the producers against plain fp64."""

import numpy as np

import producers
from fp32 import BF16, F32, from_bits, to_bits
from inputs import Bits
from model import Storage, quantize, recipe, requantize, scale_grid


def codes_of(x, r, scale=None):
    given = None if scale is None else np.array([scale], dtype=F32)
    return quantize(np.asarray(x), r, given)


def expect(name, got, want):
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape and bool(np.all(got == want)), (name, got, want)


def row(values, hidden=128, dtype=F32):
    x = np.zeros((1, hidden), dtype=dtype)
    x[0, : len(values)] = values
    return x


def check_codes():
    static = recipe("per_tensor", source="given")
    group = recipe("per_group", 128)

    def given(name, values, scale, want):
        expect(name, codes_of(np.array([values], dtype=F32), static, scale)[0][0], want)

    given("B10", [400.199585, 272.156555, 136.002075, 1.0625001, 1.0625], 1, [0x7D, 0x79, 0x71, 0x39, 0x38])
    given("B17", [256, 272, 304, 320, 416, 1.0625, 1.1875], 1, [0x78, 0x78, 0x7A, 0x7A, 0x7D, 0x38, 0x3A])
    given("B12", [4.6875], 0.9375, [0x4A])
    given(
        "B14",
        [448, 464, 464.0001, 465, 480, 1000, -1000, np.inf, -np.inf],
        1,
        [0x7E] * 6 + [0xFE, 0x7E, 0xFE],
    )
    given("B15", [4.47, 4.48, 4.65, 5.0, -1e4, 3e38], 0.01, [0x7E, 0x7E, 0x7E, 0x7E, 0xFE, 0x7E])
    given("B20", [2.0**-10, 2.0**-10 * 1.001, 3 * 2.0**-10, 2.0**-9, 7 * 2.0**-9], 1, [0, 1, 2, 1, 7])

    for values, column, want in (
        ([1.078125, 0.404296875, 0.80859375, 0.2021484375], 1, [0x72, 0x7A, 0x6A]),
        ([1.53125, 0.005340576171875], 1, [0x3C]),
        ([1.203125, 0.006378173828125], 1, [0x42]),
    ):
        codes, _ = quantize(row(values, dtype=BF16), group)
        expect("B12, B13", codes[0, column : column + len(want)], want)

    x = np.zeros((2, 256), dtype=F32)
    x[1, 200] = 1
    codes, scales = quantize(x, group)
    expect("B01 scales", to_bits(scales), [0x2A7B5123, 0x2A7B5123, 0x2A7B5123, to_bits(F32(1) / F32(448))])
    expect("B01 codes", np.flatnonzero(codes), [456])
    assert codes[1, 200] == 0x7E

    _, scales = quantize(np.full((1, 4), 1e-40, dtype=F32), recipe("per_token", floor=("none",)))
    assert scales[0] > 0, "B03"
    codes, scales = quantize(np.array([[1e-37, -1e-37]], dtype=BF16), recipe("per_token"))
    expect("B03", codes[0], [0x00, 0x80])
    expect("B03 floor", to_bits(scales), [0x36924925])

    def byte(amax):
        return int(quantize(row([amax]), recipe("per_group", 128, encoding="ue8m0"))[1][0])

    for k in range(-20, 41):
        peak = F32(448 * 2.0**k)
        expect(
            "B05",
            [byte(peak), byte(np.nextafter(peak, F32(np.inf))), byte(np.nextafter(peak, F32(0)))],
            [127 + k, 128 + k, 127 + k],
        )
    expect("B05, B11", [byte(from_bits(0x39E00002)), byte(448.109375), byte(0)], [127 - 19, 128, 0x5E])

    codes, scales = quantize(row([1]), recipe("per_group", 128, encoding="ue8m0_f32"))
    expect("B08", [codes[0, 0], scales[0]], [0x78, 2.0**-8])
    codes, scales = requantize(
        np.full((1, 128), 0x7E, dtype=np.uint8),
        np.array([1 / 448], dtype=F32),
        recipe("per_group", 128, source="given"),
        recipe("per_group", 128, encoding="ue8m0"),
    )
    expect("B08 requantize", [codes[0, 0], scales[0]], [0x78, 127 - 8])

    x = np.ones((1, 128), dtype=F32)
    x[0, 5] = from_bits(0x7F810000)
    codes, scales = quantize(x, group)
    expect("B16", [codes[0, 4], codes[0, 5], to_bits(scales)[0]], [0x7E, 0x7F, to_bits(F32(1) / F32(448))])

    x = np.concatenate([row([1000, 1]), row([2, 1]), row([1e-9])])
    codes, scales = quantize(x, recipe("per_token", bound=("amax", 0x43E00000)))
    expect("B23", codes[:2, :2], [[0x7E, 0x38], [0x7E, 0x76]])
    expect("B23 scales", to_bits(scales), [0x3F800000, to_bits(F32(2) / F32(448)), 0x36924925])

    w = np.ones((192, 200), dtype=BF16)
    w[128:, 128:] = 3
    codes, scales = quantize(w, recipe("per_block", 128, 128))
    assert np.all(codes == 0x7E), "B36"
    expect("B36 scales", scales, np.array([1, 1, 1, 3], dtype=F32) / F32(448))


def check_layouts():
    """The worked example of packed scales: T = 3, G = 5, seven words."""
    r = recipe("per_group", 128, encoding="ue8m0_packed")
    stored = np.arange(1, 16, dtype=np.uint8).reshape(1, 3, 5)
    words = Storage(r, scale_grid((1, 3, 640), r)).write(stored)
    expect(
        "packed",
        words.view(np.uint8),
        [1, 2, 3, 4, 6, 7, 8, 9, 11, 12, 13, 14, 0, 0, 0, 0, 5, 0, 0, 0, 10, 0, 0, 0, 15, 0, 0, 0],
    )


def check_producers():
    """fp32 results within a few ulp of fp64 formulas: catches a misread formula, not a rounding."""
    random = Bits(21)
    x = random.normal((4, 3000))
    wide = x.astype(np.float64)
    weight = random.normal((3000,))
    norm = wide / np.sqrt((wide * wide).mean(-1, keepdims=True) + 1e-6)
    close(producers.rms_norm(x, weight, 1e-6)[0], norm * weight)
    close(producers.rms_norm(x, weight, 1e-6, form="gemma")[0], norm * (1 + weight.astype(np.float64)))
    g, u = wide[:, :1500] * 3, wide[:, 1500:]
    pair = np.concatenate([x[:, :1500] * F32(3), x[:, 1500:]], 1)
    close(producers.silu_mul(pair), g / (1 + np.exp(-g)) * u)
    inner = 0.7978845608 * (g + 0.044715 * g**3)
    close(producers.gelu_tanh_mul(pair), 0.5 * g * (1 + np.tanh(inner)) * u, absolute=3e-6)
    close(producers.relu2(x), np.maximum(wide, 0) ** 2)
    mixed = np.stack([pair[:, :1500], pair[:, 1500:]], -1).reshape(4, 3000)
    g, u = np.minimum(g, 2.0), np.clip(u, -2.0, 2.0)
    close(producers.swiglu_clamped(mixed, 1.702, 2.0), (u + 1) * g / (1 + np.exp(-1.702 * g)), absolute=1e-6)


def close(got, want, absolute=1e-30):
    assert np.allclose(got, want, rtol=3e-6, atol=absolute), np.abs(got - want).max()


def run():
    check_codes()
    check_layouts()
    check_producers()
    print("model: the values stated by bug reports, the packed layout and the producers are as expected")


if __name__ == "__main__":
    run()
