"""bench/gpu/goals.py, fused_goals.py and matmul_goals.py find the worst shape of each goal: measured values made by hand, verdicts known."""

import os
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "bench", "gpu"))

import fused_goals  # noqa: E402  (found by the path above)
import goals  # noqa: E402
import matmul_goals  # noqa: E402


class Measured:
    """A cold_graphs.Comparison with one round: {side: (microseconds, bytes)}."""

    def __init__(self, sides):
        self.times = {name: [us] for name, (us, _) in sides.items()}
        self.bytes = {name: moved for name, (_, moved) in sides.items()}

    def us(self, name):
        return self.times[name][0]

    def rate(self, name):
        return self.bytes[name] / self.us(name) * 1e6

    def ratio(self, name, base):
        return self.us(name) / self.us(base)

    def ratio_per_byte(self, name, base):
        return self.ratio(name, base) * self.bytes[base] / self.bytes[name]

    def difference(self, name, base):
        return self.us(name) - self.us(base)

    def fastest(self, names):
        return min((name for name in names if name in self.times), key=self.us, default=None)


def shape(group, op, token, moved, **others):
    sides = {goals.GROUP: (group, moved), goals.OP: (op, moved), goals.TOKEN: (token, moved),
             goals.TENSOR: (group, moved), "ceiling0": (group, moved)}
    sides.update({name.replace("_", " "): (us, moved) for name, us in others.items()})
    return Measured(sides)


def by_goal(verdicts):
    return {verdict.goal: verdict for verdict in verdicts}


class Goals(unittest.TestCase):
    def test_the_worst_shape_decides(self):
        shapes = {(17083, 2048): shape(50, 70, 50, 210e6),  # 4.2 TB/s, 1.4 times as fast
                  (17083, 4096): shape(100, 120, 104, 420e6)}  # 4.2 TB/s, 1.2 times
        found = by_goal(goals.group_goals(shapes) + goals.token_goals(shapes))
        self.assertEqual(found["per_group, TB/s from 200 MB"].word, "PASS")
        faster = found["per_group, op's time / ours at 17083"]
        self.assertEqual((faster.word, faster.where, round(faster.figure, 3)), ("MISS", "17083 x 4096", 1.2))
        token = found["per_token, time / per_group from 4096"]
        self.assertEqual((token.word, token.where), ("PASS", "17083 x 4096"))

    def test_the_better_of_op_and_row_is_the_rival(self):
        found = by_goal(goals.group_goals({(512, 2048): shape(10.5, 12, 10, 3e6, row_4_warps=11, row_8_warps=10)}))
        rival = found["per_group, time / the better of op and row"]
        self.assertEqual((rival.word, rival.figure), ("MISS", 1.05))

    def test_small_shapes(self):
        shapes = {(1, 4096): shape(1.2, 1.6, 1.7, 12e3), (128, 4096): shape(2.0, 2.4, 2.3, 1.6e6)}
        found = by_goal(goals.small_group_goals(shapes, "") + goals.small_token_goals(shapes, ""))
        self.assertEqual({goal: verdict.word for goal, verdict in found.items()}, {
            "per_group, op's time / ours at 1 to 16": "PASS", "per_group, op's time / ours at 128": "PASS",
            "per_token, us more than per_group below 4096": "MISS", "per_token, us at 1": "MISS"})

    def test_layouts_are_compared_per_byte(self):
        side = {goals.GROUP: (100, 1000), "hidden 7168": (180, 1750), "ue8m0": (100, 940)}
        found = by_goal(goals.layout_goals({4096: Measured(side)}))
        self.assertEqual({goal.split(",")[0]: verdict.word for goal, verdict in found.items()},
                         {"hidden 7168": "PASS", "ue8m0": "MISS"})

    def test_patterns_are_compared_with_the_recipe_s_own_normal_data(self):
        sides = {goals.side_of(goals.GROUP, goals.NORMAL): (50, 1), goals.side_of(goals.GROUP, "1 % zeros"): (51, 1),
                 goals.side_of(goals.TOKEN, goals.NORMAL): (60, 1), goals.side_of(goals.TOKEN, "1 % zeros"): (63, 1)}
        verdicts = goals.data_goals({17083: Measured(sides)})
        self.assertEqual([(v.word, v.where) for v in verdicts], [("MISS", "per_token, 17083 tokens")])

    def test_per_tensor_reads_twice_only_what_does_not_fit(self):
        roof = {goals.TENSOR: (22, 300e6), "ceiling0": (16, 200e6), "ceiling1": (15, 200e6)}
        found = by_goal(goals.tensor_goals({(17083, 4096): Measured(roof), (1, 4096): Measured(roof)},
                                           ("ceiling0", "ceiling1"), 60e6))
        only = found.pop("per_tensor, time / roof, input larger than L2 (two readings)")
        self.assertEqual((only.word, round(only.figure, 4), found), ("PASS", 0.9778, {}))


class FusedGoals(unittest.TestCase):
    def test_bytes_of_an_element_are_those_that_the_ratios_come_from(self):
        self.assertEqual([(one.name, one.chain_bytes, one.bytes) for one in fused_goals.OPERATORS if one.chain_bytes], [
            ("rms_norm", 7, 3), ("rms_norm + residual", 11, 7), ("rms_norm + residual + row_out", 11, 9),
            ("silu_mul", 9, 5)])

    def test_share_of_the_fastest_copy_in_bytes_a_second(self):
        side = fused_goals.fused(fused_goals.NORM, goals.GROUP)
        roof = fused_goals.ceilings(fused_goals.NORM, 2)
        slow = Measured({side: (115, 3.1), roof[0]: (110, 3), roof[1]: (100, 3)})  # 3.1/115 : 3/100 is 0.899
        slower = Measured({side: (120, 3.1), roof[0]: (100, 3), roof[1]: (110, 3)})  # 0.861
        small = Measured({side: (200, 3.1), roof[0]: (100, 3)})
        found = fused_goals.ceiling_goals({(4096, 4096): slow, (17083, 5120): slower, (512, 4096): small}, 2)
        self.assertEqual([(v.word, v.where, round(v.figure, 3)) for v in found], [("MISS", "17083 x 5120", 0.861)])
        found = fused_goals.ceiling_goals({(4096, 4096): slow, (512, 4096): small}, 2)
        self.assertEqual([v.word for v in found], ["PASS"])

    def test_the_chain_s_time_over_the_ratio_of_bytes(self):
        sides = {fused_goals.chain(fused_goals.RESIDUAL, goals.TOKEN): (22, 1),
                 fused_goals.fused(fused_goals.RESIDUAL, goals.TOKEN): (15, 1)}
        found = fused_goals.chain_goals({(17083, 4096): Measured(sides), (4096, 4096): Measured(sides)})
        # 22/15 of 11/7 is 0.933
        self.assertEqual([(v.word, v.where, round(v.figure, 3)) for v in found], [("PASS", "17083 x 4096", 0.933)])

    def test_one_token(self):
        side = fused_goals.fused(fused_goals.RESIDUAL, goals.GROUP)
        shapes = {(1, 4096): Measured({side: (2.5, 1)}), (1, 7168): Measured({side: (3.2, 1)}),
                  (16, 4096): Measured({side: (9, 1)})}
        self.assertEqual([v.word for v in fused_goals.one_token_goals(shapes, "")], ["MISS", "PASS"])

    def test_data_beside_the_call_s_own_normal_data(self):
        call = fused_goals.fused(fused_goals.SILU, goals.GROUP)
        sides = {goals.side_of(call, goals.NORMAL): (100, 1), goals.side_of(call, "1 % zeros"): (104, 1)}
        found = fused_goals.data_goals({4096: Measured(sides)})
        self.assertEqual([(v.goal, v.word) for v in found], [("1 % zeros: time / normal data", "MISS")])


def line(shape=(4096, 4096), m=1, us=10.0, backend="small_m", chosen=False, **others):
    """Of a run's CSV: its ceiling is 4000 GB/s, and its floor the weights at that."""
    fields = {"part": "dense", "call": "matmul", "scales": "token-channel", "accumulation": "precise", "out": "bf16",
              "n": shape[0], "k": shape[1], "m": m, "experts": 0, "top_k": 0, "tokens": 0, "rows": "dense",
              "touched_experts": 0, "backend": backend, "chosen": "yes" if chosen else "no", "chosen_by_tuning": "no",
              "tuning": "off", "us": us, "work_launches": 0, "ceiling_gb_per_s": 4000, "floor_us": shape[0] * shape[1] / 4e6}
    return matmul_goals.Line({**fields, **others})


class MatmulGoals(unittest.TestCase):
    def pairs(self, ours, rival, m, **others):
        """The chosen and cuBLASLt on all six shapes; the first two differ by a factor of two each way."""
        factors = (2, 0.5, 1, 1, 1, 1)
        return [one for shape, factor in zip(matmul_goals.SHAPES, factors)
                for one in (line(shape, m, ours * factor, chosen=True, **others), line(shape, m, rival, "cublaslt", **others))]

    def test_geometric_mean_over_six_shapes(self):
        found = by_goal(matmul_goals.outer_goals(self.pairs(6, 10, 32) + self.pairs(6, 10, 8)))
        wanted = {32: "PASS", 8: "MISS"}  # 0.6 of 0.72 and of 0.58
        for m, word in wanted.items():
            verdict = found[f"token-channel, precise: time / cuBLASLt's outer vectors, m = {m}"]
            self.assertEqual((verdict.word, round(verdict.figure, 3)), (word, 0.6))
            self.assertIn("worst 1.200, 6144x4096", verdict.where)

    def test_no_mean_of_fewer_shapes(self):
        found = by_goal(matmul_goals.outer_goals(self.pairs(6, 10, 32)[2:]))
        self.assertFalse([goal for goal in found if "outer vectors" in goal])

    def test_floors_by_the_size_of_the_weights(self):
        large, middle, small = (28672, 4096), (4096, 14336), (4096, 4096)  # 117, 59 and 17 MB; floors 29.4, 14.7 us
        lines = [line(large, 16, 36, chosen=True), line(middle, 1, 22, chosen=True), line(small, 1, 99, chosen=True),
                 line(large, 32, 99, chosen=True), line(large, 16, 99, "split")]
        self.assertEqual([(v.word, round(v.figure, 3)) for v in matmul_goals.outer_goals(lines) if "floor" in v.goal],
                         [("PASS", 1.226), ("MISS", 1.499)])

    def test_slower_than_split(self):
        lines = [line(us=10.5, chosen=True), line(us=10, backend="split"), line(us=20, backend="cublaslt"),
                 line(m=64, us=10, backend="split", chosen=True), line(m=64, us=9.9, backend="cublaslt", tuning="measured")]
        found = by_goal(matmul_goals.outer_goals(lines))["token-channel: time / the faster of split and outer"]
        self.assertEqual((found.word, found.figure, found.where), ("MISS", 1.05, "4096x4096, m 1, small_m"))

    def test_many_rows_are_tuned(self):
        tuned = {"chosen_by_tuning": "yes", "tuning": "measured", "backend": "cublaslt"}
        lines = [line(m=m, us=10, backend="cublaslt", chosen=True) for m in (64, 128)]
        lines += [line(m=m, us=us, **tuned) for m, us in ((64, 20), (128, 8))]
        self.assertEqual([(one.m, one.us) for one in matmul_goals.chosen(lines)], [(64, 10), (128, 8)])

    def test_blocks(self):
        block = {"scales": "block"}
        lines = [*self.pairs(10, 14, 8, **block), *self.pairs(10, 12, 16, **block),
                 line(m=64, us=10, chosen=True, **block), line(m=64, us=9, backend="cublaslt", **block),
                 *(line(shape, 1, chosen=True, **block) for shape in matmul_goals.SHAPES[1:])]
        found = by_goal(matmul_goals.block_goals(lines))
        self.assertEqual({goal: (v.word, round(v.figure, 3)) for goal, v in found.items()}, {
            "block, precise: cuBLASLt's time / ours, m = 8": ("PASS", 1.4),
            "block, precise: cuBLASLt's time / ours, m = 16": ("MISS", 1.2),
            "block: n x k served at m = 1": ("MISS", 5),
            "block: time / cuBLASLt's, m >= 32": ("MISS", 1.111)})

    def test_experts(self):
        expert = {"part": "grouped", "experts": 256, "top_k": 8, "tokens": 64, "touched_experts": 200, "rows": "sorted",
                  "chosen": True}
        # 200 experts of 4096 x 7168 at 4000 GB/s: 1468 us; of 7168 x 2048: 734.
        lines = [line((4096, 7168), 512, 1900, **expert), line((7168, 2048), 512, 1101, **expert),
                 line((4096, 7168), 512, 9999, **{**expert, "tokens": 4096})]
        self.assertEqual([(v.word, round(v.figure, 3), v.where) for v in matmul_goals.expert_goals(lines)],
                         [("MISS", 1.5, "7168x2048, sorted")])

    def test_a_linear_layer(self):
        both = {"part": "linear", "chosen": True}
        lines = [line(m=1, us=8, **both), line(m=1, us=11, call="quantize + matmul", **both),  # 9 of 8
                 line(m=64, us=10, **both), line(m=64, us=14, call="quantize + matmul", **both),  # 12 of 10
                 line(m=128, us=10, **both), line(m=128, us=99, call="quantize + matmul", **both)]
        self.assertEqual([(v.word, v.figure, v.where) for v in matmul_goals.linear_goals(lines)],
                         [("MISS", 1.2, "4096x4096, m 64, small_m")])

    def test_calls(self):
        calls = {"part": "calls", "call": "plan.run"}
        lines = [line(us=4.9, work_launches=1, **calls), line(us=7.6, backend="split", work_launches=2, **calls),
                 line(us=99, work_launches=1, **{**calls, "call": "matmul()"})]
        self.assertEqual([(v.word, round(v.figure, 3)) for v in matmul_goals.call_goals(lines)], [("MISS", 5.1)])


if __name__ == "__main__":
    unittest.main()
