"""Where the system gives out: memory and descriptors. Not under the sanitizers, which need both themselves.

limits_test.py ROWSCALE [unittest arguments]
"""

import pathlib
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

import folder
import make_checkpoints
import models

ROWSCALE = ""


class Limits(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="rowscale-limits-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def run_with(self, limit, most, *arguments):
        return subprocess.run(
            [ROWSCALE, *map(str, arguments)], capture_output=True, text=True, check=False,
            preexec_fn=lambda: resource.setrlimit(limit, (most, most)),
        )

    def test_memory_that_runs_out_is_no_fault_of_the_input(self):
        name = "n" * 1000
        entries = [f'"{name}{i}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}' for i in range(90_000)]
        header = ("{" + ",".join(entries) + "}").encode()
        path = self.folder / "model.safetensors"
        path.write_bytes(struct.pack("<Q", len(header)) + header)
        done = self.run_with(resource.RLIMIT_AS, 64 << 20, "inspect", path)
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("not enough memory", done.stderr)

    def test_against_a_file_that_cannot_be_opened_midway(self):
        """No problem of a check, for nothing is known of the source: the exit code is that of the input."""
        source, out = self.folder / "model", self.folder / "out"
        make_checkpoints.write(source, models.llama(), {})  # no folders inside
        subprocess.run([ROWSCALE, "quantize", source, out, "--scheme", "fp8-dynamic", "--quiet"], check=True)
        # One file beside the three: the models can be opened, but not both be read.
        done = self.run_with(resource.RLIMIT_NOFILE, 4, "verify", out, "--against", source, "--threads", "1")
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.assertIn("Too many open files", done.stderr)

    def test_against_a_source_that_cannot_be_read_while_it_is_planned(self):
        """Planning compares a tied head with the embedding: here they lie in two files, and one can be open."""
        source, out = self.folder / "model", self.folder / "out"
        model = models.llama_duplicate_head()
        model.shards = 2
        make_checkpoints.write(source, model, {})
        files = folder.Checkpoint(source).files
        self.assertNotEqual(files["lm_head.weight"], files["model.embed_tokens.weight"])
        subprocess.run([ROWSCALE, "quantize", source, out, "--scheme", "fp8-dynamic", "--quiet"], check=True)
        done = self.run_with(resource.RLIMIT_NOFILE, 4, "verify", out, "--against", source, "--threads", "1")
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.assertIn("Too many open files", done.stderr)


if __name__ == "__main__":
    ROWSCALE = sys.argv.pop(1)
    unittest.main()
