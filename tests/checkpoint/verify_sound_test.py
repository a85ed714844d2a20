"""rowscale verify: sound results hold, with numbers that numpy gives, within its limits.

verify_sound_test.py ROWSCALE [unittest arguments]
"""

import math
import re
import resource
import shutil

import numpy as np

import cast_model
import command
import expected
import folder
import make_checkpoints
import models
import weights
from verifications import LAYER, Case
from weights import E4M3


class Sound(Case):
    def test_every_family_scheme_and_numerics(self):
        for kind in (
            "llama_edges",
            "llama_edges_f16",
            "llama_f32",
            "qwen2",
            "llama4",
            "qwen3_5_moe",
            "deepseek_fp8_ue8m0",
        ):
            model = make_checkpoints.CONVERTIBLE[kind]()
            shutil.rmtree(self.source, ignore_errors=True)
            for scheme in expected.STRATEGY:
                for numerics in cast_model.CASTS:
                    with self.subTest(kind=kind, scheme=scheme, numerics=numerics):
                        self.make(model, scheme, numerics)
                        checks, layers = self.verify("--against", self.source, "--threads", 2)
                        self.assertEqual(
                            list(checks),
                            [
                                "files",
                                "opens",
                                "config",
                                "index",
                                "pairs",
                                "scales",
                                "codes",
                                "plan",
                                "weights",
                                "copies",
                                "names",
                                "source",
                            ],
                        )
                        wanted = {
                            n for n, a in expected.tensors(model, scheme, numerics).items() if a.dtype == E4M3
                        }
                        passed = {n for n in wanted if kind.startswith("deepseek") and scheme == "fp8-block"}
                        self.assertEqual({f"{m}.weight" for m in layers}, wanted - passed)

    def test_errors_are_those_of_the_formula(self):
        model = models.llama_edges()
        for scheme, strategy in expected.STRATEGY.items():
            with self.subTest(scheme=scheme):
                self.make(model, scheme)
                _, layers = self.verify("--against", self.source)
                got = folder.Checkpoint(self.out)
                source = folder.Checkpoint(self.source)
                for module, layer in layers.items():
                    x = source[module + ".weight"].astype(np.float64)
                    scale = got[module + ".weight_scale"].astype(np.float64)
                    w = got[module + ".weight"].astype(np.float64) * cast_model.spread(
                        scale, strategy, x.shape
                    )
                    signal, noise = (x**2).sum(), ((x - w) ** 2).sum()
                    self.assertEqual(layer["elements"], x.size)
                    self.assertEqual((layer["worst"], layer["amax"]), (np.abs(x - w).max(), np.abs(x).max()))
                    if noise == 0:
                        self.assertIsNone(layer["snr_db"], module)
                    else:
                        self.assertAlmostEqual(layer["snr_db"], 10 * math.log10(signal / noise), places=6)
                order = [math.inf if x["snr_db"] is None else x["snr_db"] for x in layers.values()]
                self.assertEqual(order, sorted(order))

    def test_scales_of_other_things(self):
        """`.scale` is a common name; it counts beside an FP8 weight only."""
        model = models.llama()
        model.keep("model.layers.0.layer_scale.scale", 256, make=weights.norm)
        model.keep("model.layers.0.self_attn.k_scale", 1, make=weights.norm)
        self.make(model)
        self.verify()
        self.verify("--against", self.source)

    def test_page_needs_nothing_from_outside(self):
        self.make(models.llama())
        page = self.folder / "page.html"
        self.verify("--against", self.source, "--html", page)
        text = page.read_text(encoding="utf-8")
        for outside in ("http:", "https:", "src=", "href=", "@import", "url(", "<script"):
            self.assertNotIn(outside, text)
        self.assertEqual(len(re.findall(r'<div style="width:[0-9.]+%">', text)), 14)
        self.assertIn(LAYER, text)
        self.assertEqual(text.count("<table>"), text.count("</table>"))


class Memory(Case):
    def test_stays_below_that_of_a_conversion(self):
        """Source and result together are larger than what the command may hold."""
        make_checkpoints.write(self.source, models.llama_of(6e8), {})
        self.make(None, "fp8-tensor")
        self.verify("--against", self.source, "--threads", 8)
        largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024  # of all that were run
        self.assertLess(largest, 512 << 20)


class Descriptors(Case):
    """A model has more shards than the process may open files."""

    def test_more_shards_than_files(self):
        make_checkpoints.write(self.source, models.llama(shards=150, hidden_size=128, num_hidden_layers=20))
        self.assertGreater(len(list(self.source.glob("*.safetensors"))), 48)

        def restrict():
            resource.setrlimit(resource.RLIMIT_NOFILE, (48, 48))

        for scheme in expected.STRATEGY:
            out = self.folder / scheme
            for arguments in (
                ("quantize", self.source, out, "--scheme", scheme, "--quiet"),
                ("verify", out, "--against", self.source),
                ("inspect", out),
            ):
                done = command.run(*arguments, preexec_fn=restrict)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class Arguments(Case):
    def test_exit_codes(self):
        self.assertEqual(command.run("verify", self.folder / "absent").returncode, 3)
        self.assertEqual(command.run("verify").returncode, 2)
        self.make(models.llama())
        (self.out / "rowscale.json").unlink()
        self.assertEqual(command.run("verify", self.out, "--against", self.source).returncode, 3)
        self.assertEqual(command.run("verify", self.out, "--html", self.folder / "no" / "page.html").returncode, 4)

    def test_a_source_is_no_result(self):
        make_checkpoints.write(self.source, models.llama())
        self.out = self.source
        checks, _ = self.verify(code=1)
        self.assertGreater(checks["config"]["problems"], 0)


if __name__ == "__main__":
    command.main()
