"""rowscale quantize: each input and argument that is refused, the word that helps, and nothing written.

convert_refusals_test.py ROWSCALE [unittest arguments]
"""

import os
import shutil
import subprocess

import numpy as np

import block_fp8
import command
import expected
import make_checkpoints
import models
import refused
from conversions import Case


class Refusals(Case):
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


class Arguments(Case):
    def test_bad_patterns(self):
        make_checkpoints.write(self.source, models.llama())
        for pattern in ("model.layers.9.mlp.down_proj", "re:(", "re:.*mlp.gate", "re:.*q_proj$"):
            done = self.convert("--scheme", "fp8-dynamic", "--ignore", pattern, code=2)
            self.assertFalse(self.out.exists(), pattern)
            self.assertIn("--ignore", done.stderr)

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

    def test_without_a_working_directory(self):
        make_checkpoints.write(self.source, models.llama())
        gone = self.folder / "gone"
        script = 'cd "$1" && rmdir "$1" && shift && exec "$@"'

        def start(code, *arguments):
            gone.mkdir()
            done = subprocess.run(
                ["sh", "-c", script, "sh", gone, command.path, *map(str, arguments)],
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


if __name__ == "__main__":
    command.main()
