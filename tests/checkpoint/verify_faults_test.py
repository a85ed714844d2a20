"""rowscale verify: each single fault fails the check that is there for it.

verify_faults_test.py ROWSCALE [unittest arguments]
"""

import json
import shutil

import numpy as np

import command
import folder
import models
import weights
from verifications import LAYER, Changed
from weights import F32


class Files(Changed):
    """In files, index, codes and scales."""

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


class Configuration(Changed):
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

    def test_an_expression_that_cannot_be_matched(self):
        """Python has more than is matched here: a problem of the check, in the configuration's words."""
        self.config(lambda q: q["ignore"].append(r"re:x\Z"))
        checks, _ = self.verify(code=1)
        self.assertEqual(checks["pairs"]["problems"], 1)
        self.assertIn(r"ignore \"re:x\Z\"", json.dumps(checks["pairs"]["shown"]).replace("\\\\", "\\"))
        self.assertNotIn("--ignore", json.dumps(checks))


if __name__ == "__main__":
    command.main()
