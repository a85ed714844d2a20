"""rowscale quantize --card: README.md says what the model is, and nothing of the original is lost.

convert_card_test.py ROWSCALE [unittest arguments]
"""

import json
import os
import shutil

import numpy as np

import block_fp8
import command
import folder
import make_checkpoints
import models
from conversions import Case
from folder import files_of
from weights import E4M3, F32


class Cards(Case):
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


if __name__ == "__main__":
    command.main()
