"""rowscale quantize: what it says before, during and after the work.

convert_report_test.py ROWSCALE [unittest arguments]
"""

import hashlib
import os
import re
import shutil

import numpy as np

import command
import make_checkpoints
import models
from command import lines_of
from conversions import Case
from folder import files_of
from models import Fate


class Report(Case):
    def test_dry_run_writes_nothing(self):
        make_checkpoints.write(self.source, models.llama())
        done = self.convert("--scheme", "fp8-dynamic", "--dry-run")
        self.assertFalse(self.out.exists())
        self.assertEqual(sorted(os.listdir(self.folder)), ["model"])
        self.assertIn("model.layers.0.mlp.down_proj.weight", done.stdout)

    def test_the_plan_comes_first(self):
        """Also where the target is in the way."""
        make_checkpoints.write(self.source, models.llama())
        self.out.mkdir()
        (self.out / "something").write_text("of the user")
        for options in (["--dry-run"], []):
            done = self.convert("--scheme", "fp8-dynamic", *options, code=2)
            self.assertIn("of the weight bytes become FP8", done.stdout)

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


if __name__ == "__main__":
    command.main()
