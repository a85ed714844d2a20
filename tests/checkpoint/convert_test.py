"""rowscale quantize on generated models: every byte of the result, and every refusal.

convert_test.py ROWSCALE [unittest arguments]
"""

import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np

import block_fp8
import expected
import folder
import make_checkpoints
import models
import refused
import weights
from models import Fate
from weights import E4M3, F32

ROWSCALE = ""
SCHEMES = ("fp8-dynamic", "fp8-block", "fp8-tensor")


def run(*arguments, **keywords):
    return subprocess.run(
        [ROWSCALE, *map(str, arguments)], capture_output=True, text=True, check=False, **keywords
    )


def lines_of(done):
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert all(list(line)[:2] == ["rowscale_json", "event"] and line["rowscale_json"] == 1 for line in lines)
    return lines


def files_of(path):
    return {str(p.relative_to(path)): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="rowscale-convert-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.source, self.out = self.folder / "model", self.folder / "out"

    def convert(self, *options, code=0, source=None, out=None):
        done = run("quantize", source or self.source, out or self.out, *options)
        self.assertEqual(done.returncode, code, f"{options}\n{done.stdout}\n{done.stderr}")
        return done

    def assert_tensors(self, wanted, out=None):
        got = folder.Checkpoint(out or self.out)
        self.assertEqual(sorted(wanted), sorted(got))
        for name, array in wanted.items():
            found = got[name]
            self.assertEqual((found.dtype, found.shape), (array.dtype, array.shape), name)
            a, b = np.frombuffer(found.tobytes(), np.uint8), np.frombuffer(array.tobytes(), np.uint8)
            different = np.flatnonzero(a != b)
            self.assertEqual(
                different.size,
                0,
                f"{name} {array.dtype}: {different.size} bytes differ, first at {different[:1]}",
            )


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


class Folder(Case):
    """What becomes of everything that is no weight."""

    def test_config_keeps_every_other_byte(self):
        model = make_checkpoints.CONVERTIBLE["llama_edges"]()
        make_checkpoints.write(self.source, model)
        self.convert("--scheme", "fp8-dynamic")
        before, after = model.text(), (self.out / "config.json").read_bytes().decode()
        prefix = os.path.commonprefix([before, after])
        rest = before[len(prefix) :]
        self.assertTrue(after.endswith(rest))
        inserted = after[len(prefix) : len(after) - len(rest)]
        self.assertRegex(inserted, r'^\s*,\s*"quantization_config"\s*:')
        self.assertEqual(before, after.replace(inserted, "", 1))

    def test_config_replaces_the_member(self):
        model = block_fp8.deepseek_fp8()
        text = model.text()
        make_checkpoints.write(self.source, model)
        self.convert("--scheme", "fp8-block")
        after = (self.out / "config.json").read_text()
        member = re.compile(r'"quantization_config": \{.*?\n  \}', re.DOTALL)
        self.assertEqual(member.sub("", text, 1), member.sub("", after, 1))
        self.assertEqual(json.loads(after)["quantization_config"]["quant_method"], "compressed-tensors")

    def test_config_of_the_language_model(self):
        """Readers look in one place or the other: both get the new member, and no other byte changes."""
        model = block_fp8.deepseek_fp8()
        language = {"model_type": "deepseek_v3", "hidden_size": 256}
        language["quantization_config"] = model.config.pop("quantization_config")
        model.config["text_config"] = language
        before = model.text()
        make_checkpoints.write(self.source, model)
        self.convert("--scheme", "fp8-block")
        after = (self.out / "config.json").read_text()
        config = json.loads(after)
        self.assertEqual(config["quantization_config"]["quant_method"], "compressed-tensors")
        self.assertEqual(config["quantization_config"], config["text_config"]["quantization_config"])
        inside = re.compile(r'"quantization_config": \{.*?\n    \}', re.DOTALL)
        at_the_end = re.compile(r',\n  "quantization_config": \{.*?\n  \}', re.DOTALL)
        self.assertEqual(inside.sub("", before, 1), at_the_end.sub("", inside.sub("", after, 1), 1))
        done = run("verify", self.out)
        self.assertEqual(done.returncode, 0, done.stdout)
        done = run("verify", self.out, "--against", self.source)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_side_files(self):
        make_checkpoints.write(self.source, models.llama(shards=2))
        (self.source / "stray.safetensors").write_bytes(b"not in the index")
        plan = self.convert("--scheme", "fp8-dynamic")
        got = files_of(self.out)
        for name, data in folder.SIDE_FILES.items():
            self.assertEqual(got.get(name), data, name)
        for name in [*folder.SKIPPED_FILES, "stray.safetensors"]:
            self.assertNotIn(name, got)
        said = plan.stdout + plan.stderr
        for name in (
            "pytorch_model.bin",
            "model.pt",
            "training.pth",
            "model.gguf",
            "original",
            ".git",
            ".cache",
            "stray.safetensors",
        ):
            self.assertIn(name, said)
        left = (
            set(got)
            - set(folder.SIDE_FILES)
            - {"config.json", "rowscale.json", "model.safetensors.index.json"}
        )
        self.assertEqual({name for name in left if not name.endswith(".safetensors")}, set())

    def test_names_that_rowscale_works_with(self):
        """Left out and named, also where OUT is an empty folder; names that are close to them are not."""
        model = models.llama()
        make_checkpoints.write(self.source, model)
        left_out = (".rowscale-journal", ".rowscale-lock", ".rowscale-part")
        copied = ("config.json.rowscale-part", "rowscale.json.part", "sub/.rowscale-lock", "sub/.rowscale-part")
        (self.source / "sub").mkdir(exist_ok=True)
        for name in (*left_out, *copied):
            (self.source / name).write_text(f"text of {name}")
        empty = self.folder / "empty"
        empty.mkdir()
        for out in (self.out, empty):
            done = self.convert("--scheme", "fp8-dynamic", out=out)
            got = files_of(out)
            for name in left_out:
                self.assertNotIn(name, sorted(got))
                self.assertIn(name, done.stdout)
            for name in copied:
                self.assertEqual(got.get(name), f"text of {name}".encode(), name)
            self.assertEqual(json.loads(got["config.json"])["model_type"], "llama")
            self.assert_tensors(expected.tensors(model, "fp8-dynamic", "compressed-tensors"), out)

    def test_names_as_long_as_the_file_system_allows(self):
        """A file that is being written has a name that does not grow with its own."""
        make_checkpoints.write(self.source, models.llama(), {})
        longest = os.pathconf(self.folder, "PC_NAME_MAX")
        names = ("n" * longest, "d" * longest + "/" + "m" * longest, "s" * (longest - 12) + ".safetensors")
        for name in names[:2]:
            (self.source / name).parent.mkdir(exist_ok=True)
            (self.source / name).write_text("text")
        (self.source / "model.safetensors").rename(self.source / names[2])
        self.convert("--scheme", "fp8-dynamic")
        got = files_of(self.out)
        self.assertEqual([got.get(name) for name in names[:2]], [b"text"] * 2)
        self.assertIn(names[2], got)

    def test_paths_too_long_are_refused_before_work(self):
        model, deep = models.llama(), self.folder
        make_checkpoints.write(self.source, model, {})
        while len(str(deep)) < 4000:
            deep /= "d" * min(200, 4000 - len(str(deep)))
        for name in range(len(str(self.folder)) + 1, 4001, 1000):
            os.makedirs(str(deep)[:name].rstrip("/"), exist_ok=True)
        os.makedirs(deep, exist_ok=True)
        (self.source / ("x" * 120)).write_text("text")
        done = self.convert("--scheme", "fp8-dynamic", out=deep / "o", code=2)
        self.assertIn("expected paths of fewer than 4096 bytes", done.stderr)
        self.assertEqual(os.listdir(deep), [])

    def test_a_record_of_others_deeper_inside_is_copied(self):
        make_checkpoints.write(self.source, models.llama())
        (self.source / "sub").mkdir(exist_ok=True)
        (self.source / "sub" / "rowscale.json").write_text("{}")
        (self.source / "rowscale.json").write_text("{}")
        self.convert("--scheme", "fp8-dynamic")
        self.assertEqual((self.out / "sub" / "rowscale.json").read_text(), "{}")
        self.assertIn("sha256", (self.out / "rowscale.json").read_text())

    def test_the_record_says_what_was_done(self):
        model = models.llama(shards=2)
        make_checkpoints.write(self.source, model)
        pattern = "re:.*o_proj$"
        self.convert("--scheme", "fp8-block", "--numerics", "precise", "--ignore", pattern)
        record = json.loads((self.out / "rowscale.json").read_text())
        total = sum(2 * int(np.prod(t.shape)) for t in model.tensors)
        quantized = sum(
            2 * int(np.prod(t.shape))
            for t in model.tensors
            if t.fate is Fate.QUANTIZE and not t.name.endswith("o_proj.weight")
        )
        files = record.pop("files")
        self.assertRegex(record.pop("rowscale"), r"^\d+\.\d+\.\d+$")
        self.assertAlmostEqual(record.pop("quantized_share"), quantized / total)
        self.assertEqual(
            record,
            {
                "record": 1,
                "scheme": "fp8-block",
                "numerics": "precise",
                "ignore": [pattern],
                "source": "model",
                "source_bytes": total,
                "quantized_bytes": quantized,
            },
        )
        got = {name: data for name, data in files_of(self.out).items() if name != "rowscale.json"}
        self.assertEqual([file["name"] for file in files], sorted(got))
        for file in files:
            data = got[file["name"]]
            self.assertEqual((file["bytes"], file["sha256"]), (len(data), hashlib.sha256(data).hexdigest()))

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

    def test_index_sums_the_payload(self):
        make_checkpoints.write(self.source, models.llama(shards=3))
        self.convert("--scheme", "fp8-block")
        index = json.loads((self.out / "model.safetensors.index.json").read_text())
        got = folder.Checkpoint(self.out)
        self.assertEqual(index["metadata"]["total_size"], sum(got[name].nbytes for name in got))
        self.assertEqual(list(index["weight_map"]), sorted(index["weight_map"]))
        for name, file in index["weight_map"].items():
            self.assertIn(name, got.shards[file].header)

    def test_hub_snapshot_becomes_plain_files(self):
        snapshot = make_checkpoints.hub_snapshot(self.folder, models.llama())
        self.convert("--scheme", "fp8-dynamic", source=snapshot)
        links = [p for p in self.out.rglob("*") if p.is_symlink()]
        self.assertEqual(links, [])
        self.assert_tensors(expected.tensors(models.llama(), "fp8-dynamic", "compressed-tensors"))

    def test_twice_the_same_bytes(self):
        make_checkpoints.write(self.source, models.llama(shards=3))
        for scheme in SCHEMES:
            first, second = self.folder / f"{scheme}-1", self.folder / f"{scheme}-2"
            self.convert("--scheme", scheme, "--threads", "1", out=first)
            self.convert("--scheme", scheme, "--threads", "3", out=second)
            self.assertEqual(files_of(first), files_of(second))

    def test_dry_run_writes_nothing(self):
        make_checkpoints.write(self.source, models.llama())
        done = self.convert("--scheme", "fp8-dynamic", "--dry-run")
        self.assertFalse(self.out.exists())
        self.assertEqual(sorted(os.listdir(self.folder)), ["model"])
        self.assertIn("model.layers.0.mlp.down_proj.weight", done.stdout)

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


class Cards(Case):
    """--card: README.md says what the model is, and nothing of the original is lost."""

    def card(self, files):
        make_checkpoints.write(self.source, models.llama(), files)
        self.convert("--scheme", "fp8-dynamic", "--card")
        record = json.loads((self.out / "rowscale.json").read_text())
        self.assertIn("README.md", [file["name"] for file in record["files"]])
        _, front, text = (self.out / "README.md").read_text().split("---\n", 2)
        return front.splitlines(), text

    def test_what_is_taken_over(self):
        original = (
            b"---\nlicense: other\nlicense_name: a-name\nbase_model:\n- owner/older\n"
            b"language:\n- de\n- en\n"
            b"tags:\n- one\n  - two three\n- fp8\nmodel-index:\n- name: x\n---\n# Text\nlicense: mit\n"
        )
        front, text = self.card({"README.md": original})
        self.assertEqual(
            front,
            [
                "base_model: model",
                "base_model_relation: quantized",
                "license: other",
                "license_name: a-name",
                "language:",
                "- de",
                "- en",
                "tags:",
                "- one",
                "- two three",
                "- fp8",
                "- compressed-tensors",
                "- rowscale",
            ],
        )
        self.assertIn("(README.base.md)", text)
        self.assertIn("`fp8-dynamic`", text)
        self.assertEqual((self.out / "README.base.md").read_bytes(), original)

    def test_what_the_source_is_called(self):
        """Its folder's name, or the one asked for; never what config.json says that it was tuned from."""
        model = models.llama()
        model.config["_name_or_path"] = "someone/an-older-model"
        make_checkpoints.write(self.source, model, {})
        for options, name in (((), "model"), (("--base-model", "owner/its: name"), "owner/its: name")):
            self.convert("--scheme", "fp8-dynamic", "--card", "--force", *options)
            self.assertEqual(json.loads((self.out / "rowscale.json").read_text())["source"], name)
            first = (self.out / "README.md").read_text().splitlines()[1]
            self.assertEqual(first, "base_model: " + (name if ":" not in name else json.dumps(name)))

    def test_tags_in_one_line(self):
        front, _ = self.card({"README.md": b"---\ntags: [one, two ]\nlicense: mit\n---\n"})
        self.assertEqual(
            front[2:],
            ["license: mit", "tags:", "- one", "- two", "- fp8", "- compressed-tensors", "- rowscale"],
        )

    def test_a_card_that_was_set_aside_before(self):
        files = {"README.md": b"second", "README.base.md": b"first", "README.base-2.md": b"other"}
        _, text = self.card(files)
        self.assertIn("(README.base-3.md)", text)
        got = files_of(self.out)
        self.assertEqual(got["README.base.md"], b"first")
        self.assertEqual(got["README.base-2.md"], b"other")
        self.assertEqual(got["README.base-3.md"], b"second")

    def test_without_a_card(self):
        front, text = self.card({"README.base.md": b"kept"})
        self.assertEqual(front[:2], ["base_model: model", "base_model_relation: quantized"])
        self.assertNotIn("README.base", text)
        self.assertEqual((self.out / "README.base.md").read_bytes(), b"kept")

    def test_the_block_that_a_scale_is_for(self):
        """That of a source in block FP8, whose scales are taken over: [64, 32] here, no scheme's default."""
        codes, scales = np.ones((192, 128), E4M3), np.ones((3, 4), F32)
        config = {"model_type": "llama", "torch_dtype": "bfloat16"}
        config["quantization_config"] = block_fp8.quantization_config("f32", weight_block_size=[64, 32])
        layer = "model.layers.0.mlp.down_proj.weight"
        tensors = {layer: codes, f"{layer}_scale_inv": scales}
        shard = [(name, lambda array=array: array) for name, array in tensors.items()]
        folder.write_model(self.source, [shard], json.dumps(config))
        for scheme, said in (
            ("fp8-block", "one scale a block of 64x32; activations by groups of 32,"),
            ("fp8-tensor", "one scale a weight; activations by token,"),
        ):
            self.convert("--scheme", scheme, "--card", "--force")
            text = (self.out / "README.md").read_text()
            self.assertIn(said, text)
            self.assertEqual("block of" in text, scheme == "fp8-block")
            group = json.loads((self.out / "config.json").read_text())["quantization_config"]["config_groups"]
            block = group["group_0"]["weights"]["block_structure"]
            self.assertEqual(block, [64, 32] if scheme == "fp8-block" else None)

    def test_names_that_yaml_would_take_for_something_else(self):
        self.source = self.folder / "null: # x"
        front, _ = self.card({})
        self.assertEqual(front[0], 'base_model: "null: # x"')

    def test_the_name_in_the_hubs_cache(self):
        self.source = make_checkpoints.hub_snapshot(self.folder, models.llama())
        self.convert("--scheme", "fp8-dynamic", "--card")
        self.assertIn("base_model: owner/name\n", (self.out / "README.md").read_text())

    def test_cards_that_cannot_be_written_are_refused_before_work(self):
        for files, code in (
            ({"README.md/x": b""}, 2),
            ({"README.md": b"version https://git-lfs.github.com/spec/v1\n"}, 3),
        ):
            shutil.rmtree(self.source, ignore_errors=True)
            make_checkpoints.write(self.source, models.llama(), files)
            done = self.convert("--scheme", "fp8-dynamic", "--card", code=code)
            self.assertIn("README.md", done.stderr)
            self.assertEqual(os.listdir(self.folder), ["model"])


class Options(Case):
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
                    done = run("verify", out, "--against", self.source)
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

    def test_bad_patterns(self):
        make_checkpoints.write(self.source, models.llama())
        for pattern in ("model.layers.9.mlp.down_proj", "re:(", "re:.*mlp.gate", "re:.*q_proj$"):
            done = self.convert("--scheme", "fp8-dynamic", "--ignore", pattern, code=2)
            self.assertFalse(self.out.exists(), pattern)
            self.assertIn("--ignore", done.stderr)

    def test_less_than_half_says_why(self):
        """[512, 256] in bf16 stay of [512, 256] and [64, 256]: 1 / 9 of the bytes becomes FP8."""
        model = models.Model(models.llama_config())
        model.keep("model.embed_tokens.weight", 512, 256)
        model.linear("model.layers.0.mlp.down_proj", 64, 256)
        make_checkpoints.write(self.source, model)
        wanted = [
            "Less than half of the weight bytes, 11.1 %, become FP8. The rest:",
            "   88.9 %  embedding",
        ]
        for options in (["--dry-run"], []):
            done = self.convert("--scheme", "fp8-dynamic", *options)
            self.assertEqual(done.stdout.splitlines()[-2:], wanted)
        for options in (["--dry-run"], []):
            done = self.convert("--scheme", "fp8-dynamic", "--json", *options, out=self.folder / "json")
            (line,) = [x for x in lines_of(done) if x["event"] == "shortfall"]
            self.assertAlmostEqual(line["quantized_share"], 1 / 9)
            self.assertEqual(list(line["rest"]), ["embedding"])
            self.assertAlmostEqual(line["rest"]["embedding"], 8 / 9)
        shutil.rmtree(self.source)
        model.linear("model.layers.1.mlp.down_proj", 512, 256)  # 9 / 17
        make_checkpoints.write(self.source, model)
        done = self.convert("--scheme", "fp8-dynamic", "--dry-run", out=self.folder / "half")
        self.assertNotIn("Less than half", done.stdout)

    def test_json_lines(self):
        """One object a line and nothing else; members as docs/converting.md has them."""
        model = models.llama(shards=2)
        make_checkpoints.write(self.source, model)
        dry = lines_of(self.convert("--scheme", "fp8-block", "--json", "--dry-run"))
        tensors = {x["name"]: x for x in dry if x["event"] == "tensor"}
        self.assertEqual(sorted(tensors), sorted(t.name for t in model.tensors))
        for t in model.tensors:
            line = tensors[t.name]
            self.assertEqual(line["bytes_before"], 2 * int(np.prod(t.shape)))
            self.assertEqual(line["action"], "quantize" if t.fate is Fate.QUANTIZE else "copy")
        lines = lines_of(self.convert("--scheme", "fp8-block", "--json"))
        events = [x["event"] for x in lines]
        # Progress comes every ten seconds, so perhaps never.
        self.assertEqual(set(events) - {"progress"}, {"left_out", "warning", "plan", "file", "done"})
        self.assertEqual(events[-1], "done")
        (plan,) = [x for x in lines if x["event"] == "plan"]
        self.assertIn(plan, dry)
        self.assertEqual(plan["bytes_before"], sum(2 * int(np.prod(t.shape)) for t in model.tensors))
        self.assertEqual(sum(x["bytes"] for x in plan["reasons"].values()), plan["bytes_before"])
        self.assertEqual((plan["scheme"], plan["source"]), ("fp8-block", "not quantized"))
        for line in lines:
            if line["event"] == "warning":  # 704 is no multiple of 128
                self.assertIn("tensor parallel", line["message"])
        files = {x["name"]: x for x in lines if x["event"] == "file"}
        self.assertEqual(set(files), set(files_of(self.out)))
        for name, data in files_of(self.out).items():
            self.assertEqual(files[name]["bytes"], len(data))
            self.assertEqual(files[name]["sha256"], hashlib.sha256(data).hexdigest())
        error = lines_of(self.convert("--scheme", "fp8-block", "--json", code=2))[-1]
        self.assertEqual((error["event"], error["exit_code"]), ("error", 2))

    def test_the_plan_comes_first(self):
        """Also where the target is in the way."""
        make_checkpoints.write(self.source, models.llama())
        self.out.mkdir()
        (self.out / "something").write_text("of the user")
        for options in (["--dry-run"], []):
            done = self.convert("--scheme", "fp8-dynamic", *options, code=2)
            self.assertIn("of the weight bytes become FP8", done.stdout)

    def test_texts_of_others_are_escaped(self):
        """A control sequence in config.json must not reach a terminal."""
        model = make_checkpoints.CONVERTIBLE["unknown_stack"]()
        model.config["model_type"] = "a\x1b[31m"
        make_checkpoints.write(self.source, model)
        done = self.convert("--scheme", "fp8-dynamic")
        self.assertNotIn("\x1b", done.stdout + done.stderr)
        self.assertIn("a\\x1b[31m", done.stderr)

    def test_unknown_stack_is_reported(self):
        make_checkpoints.write(self.source, make_checkpoints.CONVERTIBLE["unknown_stack"]())
        done = self.convert("--scheme", "fp8-dynamic")
        self.assertRegex(done.stdout, r"stacked experts, which are not taken apart .* \d+\.\d %")
        self.assertIn("% of the weight bytes are experts stacked in one tensor", done.stderr)
        self.convert("--scheme", "fp8-dynamic", "--strict", out=self.folder / "strict", code=1)

    def test_experts_that_vllm_refuses_are_warned_of(self):
        for kind, experts in (("mixtral", 24), ("llama4", 18), ("llama", 0)):
            source = self.folder / kind
            make_checkpoints.write(source, make_checkpoints.CONVERTIBLE[kind]())
            for scheme in ("fp8-dynamic", "fp8-tensor"):
                done = self.convert("--scheme", scheme, "--dry-run", source=source)
                warned = re.findall(r"(\d+) weights are experts", done.stderr)
                self.assertEqual(warned, [str(experts)] if experts and scheme == "fp8-tensor" else [])

    def test_without_a_working_directory(self):
        make_checkpoints.write(self.source, models.llama())
        gone = self.folder / "gone"
        command = 'cd "$1" && rmdir "$1" && shift && exec "$@"'

        def start(code, *arguments):
            gone.mkdir()
            done = subprocess.run(
                ["sh", "-c", command, "sh", gone, ROWSCALE, *map(str, arguments)],
                capture_output=True,
                text=True,
                check=False,
            )
            self.assertEqual(done.returncode, code, done.stderr)
            return done.stderr

        scheme = ("--scheme", "fp8-dynamic")
        said = start(3, "quantize", "model", self.out, *scheme)
        self.assertIn("model: expected an absolute path: the working directory is gone", said)
        said = start(2, "quantize", self.source, "out", *scheme)
        self.assertIn("OUT: expected an absolute path, got out: the working directory is gone", said)
        self.assertIn("the working directory is gone", start(3, "inspect", "model"))
        self.assertIn("the working directory is gone", start(3, "verify", "out"))
        start(0, "quantize", self.source, self.out, *scheme)
        start(0, "verify", self.out, "--against", self.source)
        self.assert_tensors(expected.tensors(models.llama(), "fp8-dynamic", "compressed-tensors"))

    def test_wrong_arguments(self):
        make_checkpoints.write(self.source, models.llama())
        self.convert("--scheme", "fp9", code=2)
        self.convert("--scheme", "fp8-dynamic", "--numerics", "best", code=2)
        for size, said in (("100", "MiB for the 21 tensors of this model, got 100 bytes"), ("40M", ", got 40 MiB")):
            done = self.convert("--scheme", "fp8-dynamic", "--max-memory", size, code=2)
            self.assertIn("--max-memory: expected at least ", done.stderr)
            self.assertIn(said, done.stderr)
        done = self.convert("--scheme", "fp8-dynamic", "--base-model", os.fsdecode(b"a\xffb"), code=2)
        self.assertIn("--base-model: expected UTF-8", done.stderr)
        self.convert("--scheme", "fp8-dynamic", out=self.source, code=2)
        self.convert("--scheme", "fp8-dynamic", out=self.source / "inside", code=2)
        self.convert("--scheme", "fp8-dynamic", "--force", out=self.folder, code=2)
        self.out.mkdir()
        (self.out / "something").write_text("of the user")
        self.convert("--scheme", "fp8-dynamic", code=2)
        self.convert("--scheme", "fp8-dynamic", "--force", code=2)
        self.assertEqual(os.listdir(self.out), ["something"])

    def test_force_replaces_its_own(self):
        make_checkpoints.write(self.source, models.llama())
        self.convert("--scheme", "fp8-dynamic")
        before = files_of(self.out)
        self.convert("--scheme", "fp8-block", code=2)
        self.assertEqual(files_of(self.out), before)
        self.convert("--scheme", "fp8-block", "--force")
        self.assert_tensors(expected.tensors(models.llama(), "fp8-block", "compressed-tensors"))


class Refusals(Case):
    """Each input that is refused: the exit code, the word that helps, and nothing written."""

    def test_bad_numbers_in_what_is_passed_through(self):
        name = "model.layers.1.self_attn.o_proj"

        def changed(tensor, change):
            model = block_fp8.deepseek_fp8()
            for t in model.tensors:
                if t.name == tensor:

                    def make(make=t.make):
                        array = np.array(make())
                        change(array)
                        return array

                    t.make = make
            shutil.rmtree(self.source, ignore_errors=True)
            make_checkpoints.write(self.source, model)

        for code in (0x7F, 0xFF):
            changed(f"{name}.weight", lambda array, code=code: array.view(np.uint8).__setitem__((3, 5), code))
            done = self.convert("--scheme", "fp8-block", code=3)
            self.assertIn(f'"{name}.weight": expected finite numbers, got NaN at row 3, column 5', done.stderr)
            self.assertEqual(os.listdir(self.folder), ["model"])
        for value in (0, -1, np.inf, np.nan):
            changed(f"{name}.weight_scale_inv", lambda array, value=value: array.__setitem__((1, 0), value))
            done = self.convert("--scheme", "fp8-block", code=3)
            self.assertIn(f'"{name}.weight_scale_inv": expected', done.stderr)
            self.assertEqual(os.listdir(self.folder), ["model"])

    def test_hub_name(self):
        done = self.convert("--scheme", "fp8-dynamic", source="owner/name", code=3)
        self.assertIn("download", done.stderr)


def add_refusal_tests():
    for name, (make, code, message) in refused.REFUSED.items():

        def test(self, make=make, code=code, message=message):
            make(self.source)
            done = self.convert("--scheme", "fp8-dynamic", code=code)
            self.assertIn(message.lower(), done.stderr.lower())
            self.assertFalse(self.out.exists())
            self.assertEqual(sorted(p for p in os.listdir(self.folder) if p != "model"), [])

        setattr(Refusals, f"test_{name}", test)


add_refusal_tests()

if __name__ == "__main__":
    ROWSCALE = sys.argv.pop(1)
    unittest.main(verbosity=1)
