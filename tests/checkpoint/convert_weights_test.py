"""rowscale quantize on generated models: every byte of every tensor.

convert_weights_test.py ROWSCALE [unittest arguments]
"""

import json
import os
import shutil

import numpy as np

import block_fp8
import command
import expected
import folder
import make_checkpoints
import models
import weights
from command import SCHEMES
from conversions import Case
from folder import files_of
from models import Fate
from weights import F32


class Bytes(Case):
    """Every tensor of every convertible model, against the model of the casts."""

    def check(self, kind, numerics, schemes=SCHEMES):
        model = make_checkpoints.CONVERTIBLE[kind]()
        make_checkpoints.write(self.source, model)
        for scheme in schemes:
            with self.subTest(kind=kind, scheme=scheme, numerics=numerics):
                out = self.folder / scheme
                self.convert("--scheme", scheme, "--numerics", numerics, out=out)
                self.assert_tensors(expected.tensors(model, scheme, numerics), out)
                config = json.loads((out / "config.json").read_text())
                ignore = config["quantization_config"]["ignore"]
                self.assertEqual(sorted(ignore), sorted(expected.ignored(model)))
                shards = sorted(p.name for p in out.glob("*.safetensors"))
                self.assertEqual(shards, sorted(p.name for p in self.source.glob("*.safetensors")))
                for shard in shards:
                    self.assertEqual(folder.Shard(out / shard).metadata, {"format": "pt"})


def add_byte_tests():
    for kind in make_checkpoints.CONVERTIBLE:
        for numerics in ("compressed-tensors", "precise"):

            def test(self, kind=kind, numerics=numerics):
                self.check(kind, numerics)

            setattr(Bytes, f"test_{kind}_{numerics.replace('-', '_')}", test)


add_byte_tests()


class Sources(Case):
    """What else decides on the bytes of an output, and what does not."""

    def test_twice_the_same_bytes(self):
        make_checkpoints.write(self.source, models.llama(shards=3))
        for scheme in SCHEMES:
            first, second = self.folder / f"{scheme}-1", self.folder / f"{scheme}-2"
            self.convert("--scheme", scheme, "--threads", "1", out=first)
            self.convert("--scheme", scheme, "--threads", "3", out=second)
            self.assertEqual(files_of(first), files_of(second))

    def test_stale_tensors_lose(self):
        """Two shards hold one name; the index says which counts."""
        model = models.llama(shards=2)
        make_checkpoints.write(self.source, model)
        path = self.source / "model-00002-of-00002.safetensors"
        shard = folder.Shard(path)
        arrays = {name: np.array(shard[name]) for name in shard}
        arrays["model.embed_tokens.weight"] = np.zeros((4, 4), np.float32)
        folder.write_shard(path, arrays, {"format": "pt"})
        self.convert("--scheme", "fp8-dynamic")
        self.assert_tensors(expected.tensors(model, "fp8-dynamic", "compressed-tensors"))
        for file in self.out.glob("*.safetensors"):
            names = set(folder.Shard(file))
            self.assertEqual("model.embed_tokens.weight" in names, file.name.startswith("model-00001"))

    def test_scales_of_a_kv_cache_are_kept(self):
        """And said so in the configuration: readers skip them otherwise."""
        model = models.llama()
        for part in ("k_scale", "v_scale"):
            model.keep(f"model.layers.0.self_attn.{part}", 1, dtype=F32, make=weights.norm)
        make_checkpoints.write(self.source, model)
        self.convert("--scheme", "fp8-dynamic")
        self.assert_tensors(expected.tensors(model, "fp8-dynamic", "compressed-tensors"))
        scheme = json.loads((self.out / "config.json").read_text())["quantization_config"]["kv_cache_scheme"]
        wanted = {"num_bits": 8, "type": "float", "strategy": "tensor", "symmetric": True, "dynamic": False}
        self.assertEqual({key: scheme[key] for key in wanted}, wanted)


class Ignore(Case):
    def test_ignore_by_name_and_by_expression(self):
        model = models.llama()
        make_checkpoints.write(self.source, model)
        self.convert(
            "--scheme", "fp8-dynamic", "--ignore", "model.layers.0.mlp.down_proj", "--ignore", r"re:.*o_proj$"
        )
        for t in model.tensors:
            if t.name == "model.layers.0.mlp.down_proj.weight" or t.name.endswith("o_proj.weight"):
                t.fate, t.is_linear = Fate.KEEP, True
        self.assert_tensors(expected.tensors(model, "fp8-dynamic", "compressed-tensors"))
        config = json.loads((self.out / "config.json").read_text())
        self.assertEqual(set(config["quantization_config"]["ignore"]), expected.ignored(model))

    def test_ignore_of_weights_in_fp8(self):
        """They come out in the model's dtype: code * scale, rounded once."""
        left = ("model.layers.0.mlp.down_proj", "model.layers.1.self_attn.o_proj")
        for encoding in ("f32", "ue8m0"):
            model = block_fp8.deepseek_fp8(encoding)
            shutil.rmtree(self.source, ignore_errors=True)
            make_checkpoints.write(self.source, model)
            source = {t.name: t.make for t in model.tensors}
            for scheme in SCHEMES:
                for memory in ("512M", "48M"):
                    out = self.folder / f"{encoding}-{scheme}-{memory}"
                    options = ("--ignore", left[0], "--ignore", "re:.*1.self_attn.o_proj$")
                    done = self.convert("--scheme", scheme, *options, "--max-memory", memory, out=out)
                    wanted = expected.tensors(model, scheme, "compressed-tensors")
                    for name in left:
                        del wanted[f"{name}.weight_scale"]
                        codes, scales = source[f"{name}.weight"](), source[f"{name}.weight_scale_inv"]()
                        wanted[f"{name}.weight"] = block_fp8.dequantized(codes, scales)
                    self.assert_tensors(wanted, out)
                    ignore = json.loads((out / "config.json").read_text())["quantization_config"]["ignore"]
                    self.assertLessEqual(set(left), set(ignore))
                    self.assertIn("left alone by --ignore", done.stdout)
                    done = command.run("verify", out, "--against", self.source)
                    self.assertEqual(done.returncode, 0, done.stdout)
            done = self.convert("--scheme", "fp8-block", "--dry-run", *options, out=self.folder / "x")
            self.assertRegex(done.stdout, r'0.mlp.down_proj.weight" .*dequantize: left alone by --ignore')

    def test_ignore_of_a_weight_in_fp8_that_holds_nan(self):
        model = block_fp8.deepseek_fp8()
        for t in model.tensors:
            if t.name == "model.layers.0.mlp.down_proj.weight":

                def make(make=t.make):
                    array = make().copy()
                    array.view(np.uint8)[200, 300] = 0x7F
                    return array

                t.make = make
        make_checkpoints.write(self.source, model)
        done = self.convert("--scheme", "fp8-block", "--ignore", "model.layers.0.mlp.down_proj", code=3)
        self.assertIn("row 200, column 300", done.stderr)
        self.assertEqual(os.listdir(self.folder), ["model"])


if __name__ == "__main__":
    command.main()
