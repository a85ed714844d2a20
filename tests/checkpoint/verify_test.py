"""rowscale verify: sound results hold, each single fault fails the check that is there for it.

verify_test.py ROWSCALE [unittest arguments]
"""

import json
import math
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np

import block_fp8
import cast_model
import expected
import folder
import make_checkpoints
import models
import weights
from weights import E4M3, F32

ROWSCALE = ""
LAYER = "model.layers.1.mlp.up_proj"


def run(*arguments):
    return subprocess.run([ROWSCALE, *map(str, arguments)], capture_output=True, text=True, check=False)


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="rowscale-verify-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.source, self.out = self.folder / "model", self.folder / "out"

    def make(self, model, scheme="fp8-dynamic", numerics="compressed-tensors"):
        shutil.rmtree(self.out, ignore_errors=True)
        if not self.source.exists():
            make_checkpoints.write(self.source, model)
        done = run("quantize", self.source, self.out, "--scheme", scheme, "--numerics", numerics, "--quiet")
        self.assertEqual(done.returncode, 0, done.stderr)

    def verify(self, *options, code=0):
        """(checks by name, layers by module)"""
        done = run("verify", self.out, "--json", *options)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(lines[-1], {"rowscale_json": 1, "event": "verdict", "holds": code == 0})
        checks = {x["name"]: x for x in lines if x["event"] == "check"}
        return checks, {x["module"]: x for x in lines if x["event"] == "layer"}

    def assert_fails(self, *names, against=False):
        """Exactly these checks fail."""
        checks, _ = self.verify(*(["--against", self.source] if against else []), code=1)
        failing = {name for name, check in checks.items() if check["problems"]}
        self.assertEqual(failing, set(names), json.dumps(checks, indent=1))

    def edit(self, change, shard=None):
        """Rewrites the shard that holds LAYER, or another, after change(tensors); the record goes, so
        that hashes do not tell of it first."""
        (self.out / "rowscale.json").unlink(missing_ok=True)
        path = self.out / (shard or folder.Checkpoint(self.out).files[LAYER + ".weight"])
        file = folder.Shard(path)
        tensors = {name: np.array(file[name]) for name in file}
        change(tensors)
        folder.write_shard(path, tensors, {"format": "pt"})


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
            for command in (
                ("quantize", self.source, out, "--scheme", scheme, "--quiet"),
                ("verify", out, "--against", self.source),
                ("inspect", out),
            ):
                done = subprocess.run(
                    [ROWSCALE, *map(str, command)],
                    capture_output=True,
                    text=True,
                    check=False,
                    preexec_fn=restrict,
                )
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class Faults(Case):
    def setUp(self):
        super().setUp()
        self.make(models.llama(shards=2))

    def test_a_changed_byte(self):
        path = self.out / folder.Checkpoint(self.out).files[LAYER + ".weight"]
        data = bytearray(path.read_bytes())
        shard = folder.Shard(path)
        at = shard.start + shard.header[LAYER + ".weight"]["data_offsets"][0] + 100
        data[at] ^= 1
        path.write_bytes(data)
        self.assert_fails("files")
        self.assert_fails("files", "weights", against=True)

    def test_a_changed_side_file(self):
        (self.out / "tokenizer.json").write_bytes(b"{}")
        self.assert_fails("files")

    def test_a_missing_side_file(self):
        (self.out / "chat_template.jinja").unlink()
        self.assert_fails("files")

    def test_a_foreign_shard(self):
        shutil.copy(self.source / "model-00001-of-00002.safetensors", self.out / "model.safetensors")
        self.assert_fails("files")

    def test_a_record_that_leads_out(self):
        path = self.out / "rowscale.json"
        record = json.loads(path.read_text())
        record["files"].append({"name": "../model/config.json", "bytes": 1, "sha256": "0" * 64})
        path.write_text(json.dumps(record))
        self.assert_fails("files")

    def test_nan_codes(self):
        for code in (0x7F, 0xFF):

            def change(tensors, code=code):
                tensors[LAYER + ".weight"].view(np.uint8)[700, 255] = code

            self.edit(change)
            self.assert_fails("codes")

    def test_bad_scales(self):
        for value in (0, -1, np.inf, np.nan):

            def change(tensors, value=value):
                tensors[LAYER + ".weight_scale"][3] = value

            self.edit(change)
            self.assert_fails("scales")

    def test_a_scale_of_another_shape(self):
        for shape in ((704,), (1, 704), (352, 2), (1,)):

            def change(tensors, shape=shape):
                scale = tensors[LAYER + ".weight_scale"]
                tensors[LAYER + ".weight_scale"] = np.resize(scale, shape)

            self.edit(change)
            checks, _ = self.verify(code=1)
            self.assertEqual(checks["pairs"]["problems"], 1)

    def test_a_missing_scale(self):
        name = LAYER + ".weight_scale"
        self.edit(lambda tensors: tensors.pop(name))
        self.assert_fails("opens")  # the index names it
        index = self.out / "model.safetensors.index.json"
        content = json.loads(index.read_text())
        del content["weight_map"][name]
        index.write_text(json.dumps(content))
        self.assert_fails("pairs", "index")  # its bytes are missing from the sum, too

    def test_a_scale_of_nothing(self):
        def change(tensors):
            tensors["model.norm.weight_scale"] = tensors["model.norm.weight"][:1]

        index = self.out / "model.safetensors.index.json"
        content = json.loads(index.read_text())
        shard = content["weight_map"]["model.norm.weight"]
        self.edit(change, shard)
        content["weight_map"]["model.norm.weight_scale"] = shard
        content["metadata"]["total_size"] += 2
        index.write_text(json.dumps(content))
        self.assert_fails("pairs")

    def test_a_name_that_vllm_does_not_load(self):
        index = self.out / "model.safetensors.index.json"
        text = index.read_text().replace(f'"{LAYER}.weight_scale"', f'"{LAYER}.weight_scale_inv"')

        def change(tensors):
            tensors[LAYER + ".weight_scale_inv"] = tensors.pop(LAYER + ".weight_scale")

        self.edit(change)
        index.write_text(text)
        self.assert_fails("pairs")

    def test_a_wrong_sum(self):
        (self.out / "rowscale.json").unlink()
        index = self.out / "model.safetensors.index.json"
        content = json.loads(index.read_text())
        content["metadata"]["total_size"] += 1
        index.write_text(json.dumps(content))
        self.assert_fails("index")

    def test_a_stale_tensor(self):
        other = "model-00001-of-00002.safetensors"
        self.assertNotIn("lm_head.weight", folder.Shard(self.out / other))
        self.edit(lambda tensors: tensors.update({"lm_head.weight": np.zeros((2, 2), F32)}), other)
        self.assert_fails("index")

    def config(self, change):
        (self.out / "rowscale.json").unlink(missing_ok=True)
        path = self.out / "config.json"
        config = json.loads(path.read_text())
        change(config["quantization_config"])
        path.write_text(json.dumps(config))

    def test_fields_that_old_readers_refuse(self):
        self.config(lambda q: q["config_groups"]["group_0"]["weights"].update(scale_dtype=None))
        self.assert_fails("config")

    def test_configurations_that_no_reader_serves(self):
        path = self.out / "config.json"
        original = path.read_bytes()
        group = "group_0"
        changes = [
            lambda q: q.update(quant_method="fp8"),
            lambda q: q.update(format="int-quantized"),
            lambda q: q.update(quantization_status="frozen"),
            lambda q: q.update(ignore="lm_head"),
            lambda q: q.update(config_groups={}),
            lambda q: q["config_groups"][group].pop("targets"),
            lambda q: q["config_groups"][group]["weights"].update(num_bits=4),
            lambda q: q["config_groups"][group]["weights"].update(dynamic=True),
            lambda q: q["config_groups"][group]["weights"].update(symmetric=False),
            lambda q: q["config_groups"][group]["input_activations"].update(dynamic=False),
            lambda q: q["config_groups"][group]["input_activations"].update(strategy="channel"),
            lambda q: q["config_groups"][group].pop("input_activations"),
        ]
        for number, change in enumerate(changes):
            with self.subTest(number=number):
                path.write_bytes(original)
                self.config(change)
                checks, _ = self.verify(code=1)
                self.assertGreater(checks["config"]["problems"], 0)

    def test_a_language_model_that_says_otherwise(self):
        (self.out / "rowscale.json").unlink()
        path = self.out / "config.json"
        config = json.loads(path.read_text())
        config["text_config"] = {"quantization_config": config["quantization_config"]}
        path.write_text(json.dumps(config))
        self.verify()
        config["text_config"] = {"quantization_config": {"quant_method": "fp8"}}
        path.write_text(json.dumps(config))
        self.assert_fails("config")

    def test_a_weight_that_ignore_names(self):
        self.config(lambda q: q["ignore"].append(LAYER))
        self.assert_fails("pairs")
        self.config(lambda q: q.update(ignore=["re:.*up_proj"]))
        self.assert_fails("pairs")

    def test_against_finds_what_no_other_check_can(self):
        record = (self.out / "rowscale.json").read_text()

        def put_back():
            data = json.loads(record)
            data["files"] = []  # hashes of what was edited would tell at once
            (self.out / "rowscale.json").write_text(json.dumps(data))

        def scale(tensors):
            tensors[LAYER + ".weight_scale"][7] *= 64

        self.edit(scale)
        put_back()
        self.assert_fails("files", "weights", against=True)
        checks, layers = self.verify("--against", self.source, code=1)
        self.assertEqual((layers[LAYER]["different_codes"], layers[LAYER]["different_scales"]), (0, 1))
        self.assertIn(LAYER, checks["weights"]["shown"][0])
        self.assertEqual(next(iter(layers)), LAYER)  # and is the noisiest by far

    def test_against_finds_a_changed_copy(self):
        record = (self.out / "rowscale.json").read_text()

        def change(tensors):
            tensors["model.layers.1.input_layernorm.weight"][0] += 1

        name = "model.layers.1.input_layernorm.weight"
        self.edit(change, folder.Checkpoint(self.out).files[name])
        data = json.loads(record)
        data["files"] = []
        (self.out / "rowscale.json").write_text(json.dumps(data))
        self.assert_fails("files", "copies", against=True)

    def test_bad_scales_of_a_kv_cache(self):
        name = "model.layers.1.self_attn.k_proj.output_scale"
        model = models.llama(shards=2)
        model.keep(name, 1, make=weights.norm)
        shutil.rmtree(self.source)
        self.make(model)
        for value in (0, -1, np.inf, np.nan):

            def change(tensors, value=value):
                tensors[name][0] = value

            self.edit(change, folder.Checkpoint(self.out).files[name])
            self.assert_fails("scales")

    def test_an_expression_that_cannot_be_matched(self):
        """Python has more than is matched here: a problem of the check, in the configuration's words."""
        self.config(lambda q: q["ignore"].append(r"re:x\Z"))
        checks, _ = self.verify(code=1)
        self.assertEqual(checks["pairs"]["problems"], 1)
        self.assertIn(r"ignore \"re:x\Z\"", json.dumps(checks["pairs"]["shown"]).replace("\\\\", "\\"))
        self.assertNotIn("--ignore", json.dumps(checks))

    def put_back(self, record):
        data = json.loads(record)
        data["files"] = []  # hashes of what was edited would tell at once
        (self.out / "rowscale.json").write_text(json.dumps(data))

    def test_against_finds_layers_without_numbers_first(self):
        record = (self.out / "rowscale.json").read_text()
        layers = [f"model.layers.1.mlp.{part}_proj" for part in ("gate", "up")]

        def change(tensors):
            for layer in layers:
                tensors[layer + ".weight"].view(np.uint8)[0, 0] = 0x7F

        self.edit(change)
        self.put_back(record)
        _, found = self.verify("--against", self.source, code=1)
        self.assertEqual(list(found)[:2], layers)
        rest = [x["snr_db"] for x in found.values()][2:]
        self.assertEqual(rest, sorted(rest))

    def test_against_compares_the_configuration(self):
        record = (self.out / "rowscale.json").read_text()
        path = self.out / "config.json"
        original = path.read_bytes()
        group = "group_0"
        changes = [
            lambda c: c["quantization_config"]["ignore"].remove("lm_head"),
            lambda c: c["quantization_config"]["ignore"].append("nothing"),
            lambda c: c["quantization_config"]["config_groups"][group]["weights"].update(strategy="tensor"),
            lambda c: c.update(rope_theta=1e6),
        ]
        for number, change in enumerate(changes):
            with self.subTest(number=number):
                config = json.loads(original)
                change(config)
                path.write_text(json.dumps(config))
                self.put_back(record)
                checks, _ = self.verify("--against", self.source, code=1)
                self.assertEqual(checks["plan"]["problems"], 1)

    def test_against_compares_the_configuration_of_the_language_model(self):
        """Where the source has one there, as well as at the top."""
        model = block_fp8.deepseek_fp8()
        member = model.config.pop("quantization_config")
        model.config["text_config"] = {"model_type": "deepseek_v3", "quantization_config": member}
        shutil.rmtree(self.source)
        self.make(model, "fp8-block")
        record = (self.out / "rowscale.json").read_text()
        path = self.out / "config.json"
        original = path.read_bytes()
        inside = "text_config.quantization_config"
        changes = {
            f"{inside}: ignore": lambda c: c["text_config"]["quantization_config"]["ignore"].append("nothing"),
            f"{inside}: format": lambda c: c["text_config"]["quantization_config"].pop("format"),
            f"{inside}: has members": lambda c: c["text_config"]["quantization_config"].update(a=1),
            f"{inside}: quant_method": lambda c: c["text_config"].update(quantization_config=member),
            "not the members": lambda c: c["text_config"].update(hidden_size=1),
            "not the bytes": lambda c: None,
        }
        for words, change in changes.items():
            with self.subTest(words=words):
                config = json.loads(original)
                change(config)
                path.write_text(json.dumps(config))
                self.put_back(record)
                checks, _ = self.verify("--against", self.source, code=1)
                self.assertIn(words, " ".join(checks["plan"]["shown"]))

    def test_against_a_source_with_a_nan(self):
        """It cannot be converted: a problem of the check, and what was found before is shown."""
        path = self.source / folder.Checkpoint(self.source).files[LAYER + ".weight"]
        file = folder.Shard(path)
        tensors = {name: np.array(file[name]) for name in file}
        tensors[LAYER + ".weight"].view(np.uint16)[3, 5] = 0x7FC0
        folder.write_shard(path, tensors, {"format": "pt"})
        self.assert_fails("source", against=True)

    def test_against_another_source_with_patterns(self):
        """A recorded pattern fits nothing there: a problem of the check, and what was found before is shown."""
        shutil.rmtree(self.out)
        options = ["--scheme", "fp8-dynamic", "--quiet", "--ignore", "model.layers.1.mlp.down_proj"]
        self.assertEqual(run("quantize", self.source, self.out, *options).returncode, 0)
        shutil.rmtree(self.source)
        make_checkpoints.write(self.source, models.llama(num_hidden_layers=1))
        self.assert_fails("source", against=True)

    def test_against_another_source(self):
        shutil.rmtree(self.source)
        make_checkpoints.write(self.source, models.llama_duplicate_head())
        checks, _ = self.verify("--against", self.source, code=1)
        self.assertGreater(checks["names"]["problems"], 0)


class Arguments(Case):
    def test_exit_codes(self):
        self.assertEqual(run("verify", self.folder / "absent").returncode, 3)
        self.assertEqual(run("verify").returncode, 2)
        self.make(models.llama())
        (self.out / "rowscale.json").unlink()
        self.assertEqual(run("verify", self.out, "--against", self.source).returncode, 3)
        self.assertEqual(run("verify", self.out, "--html", self.folder / "no" / "page.html").returncode, 4)

    def test_a_source_is_no_result(self):
        make_checkpoints.write(self.source, models.llama())
        self.out = self.source
        checks, _ = self.verify(code=1)
        self.assertGreater(checks["config"]["problems"], 0)


if __name__ == "__main__":
    ROWSCALE = sys.argv.pop(1)
    unittest.main()
