"""rowscale quantize: what becomes of everything that is no weight.

convert_folder_test.py ROWSCALE [unittest arguments]
"""

import hashlib
import json
import os
import re

import numpy as np

import block_fp8
import command
import expected
import folder
import make_checkpoints
import models
from conversions import Case
from folder import files_of
from models import Fate


class Folder(Case):
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
        done = command.run("verify", self.out)
        self.assertEqual(done.returncode, 0, done.stdout)
        done = command.run("verify", self.out, "--against", self.source)
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


class Force(Case):
    def test_force_replaces_its_own(self):
        make_checkpoints.write(self.source, models.llama())
        self.convert("--scheme", "fp8-dynamic")
        before = files_of(self.out)
        self.convert("--scheme", "fp8-block", code=2)
        self.assertEqual(files_of(self.out), before)
        self.convert("--scheme", "fp8-block", "--force")
        self.assert_tensors(expected.tensors(models.llama(), "fp8-block", "compressed-tensors"))


if __name__ == "__main__":
    command.main()
