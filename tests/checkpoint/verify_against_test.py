"""rowscale verify --against: what differs from what the source gives, and sources that give nothing.

verify_against_test.py ROWSCALE [unittest arguments]
"""

import json
import shutil

import numpy as np

import block_fp8
import command
import folder
import make_checkpoints
import models
from verifications import LAYER, Changed


class Against(Changed):
    def test_against_finds_what_no_other_check_can(self):
        record = (self.out / "rowscale.json").read_text()

        def scale(tensors):
            tensors[LAYER + ".weight_scale"][7] *= 64

        self.edit(scale)
        self.put_back(record)
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
        self.put_back(record)
        self.assert_fails("files", "copies", against=True)

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
        self.assertEqual(command.run("quantize", self.source, self.out, *options).returncode, 0)
        shutil.rmtree(self.source)
        make_checkpoints.write(self.source, models.llama(num_hidden_layers=1))
        self.assert_fails("source", against=True)

    def test_against_another_source(self):
        shutil.rmtree(self.source)
        make_checkpoints.write(self.source, models.llama_duplicate_head())
        checks, _ = self.verify("--against", self.source, code=1)
        self.assertGreater(checks["names"]["problems"], 0)


if __name__ == "__main__":
    command.main()
