"""rowscale inspect, held to what Python reads of the same files.

inspect_test.py ROWSCALE [unittest arguments]
"""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np

import block_fp8
import folder
import make_checkpoints
import models
import refused
from weights import E8M0, F32

ROWSCALE = ""


def run(*arguments, code=0):
    done = subprocess.run([ROWSCALE, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == code, f"{done.returncode}: {done.stdout}{done.stderr}"
    return done


class Inspect(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="rowscale-inspect-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.source = self.folder / "model"

    def lines(self, path):
        lines = [json.loads(line) for line in run("inspect", "--json", path).stdout.splitlines()]
        self.assertEqual({line["rowscale_json"] for line in lines}, {1})
        return [x for x in lines if x["event"] == "tensor"], lines[-1]

    def test_tensors_and_sums(self):
        make_checkpoints.write(self.source, models.llama(shards=3))
        tensors, summary = self.lines(self.source)
        wanted = folder.Checkpoint(self.source)
        self.assertEqual({x["name"]: x["file"] for x in tensors}, wanted.files)
        for x in tensors:
            array = wanted[x["name"]]
            self.assertEqual((x["shape"], x["bytes"]), (list(array.shape), array.nbytes))
        total = sum(wanted[name].nbytes for name in wanted)
        self.assertEqual((summary["event"], summary["files"], summary["bytes"]), ("summary", 3, total))
        self.assertEqual(summary["dtypes"], {"BF16": {"tensors": len(tensors), "bytes": total}})
        self.assertEqual(summary["scales"]["tensors"], 0)

    def test_scales_of_every_encoding(self):
        for encoding in block_fp8.ENCODINGS:
            with self.subTest(encoding=encoding):
                path = self.folder / encoding
                make_checkpoints.write(path, block_fp8.deepseek_fp8(encoding))
                model = folder.Checkpoint(path)
                scales = [model[n] for n in model if n.endswith("_scale_inv")]
                scales = [(s.view(E8M0) if s.dtype == np.uint8 else s).astype(F32).ravel() for s in scales]
                everything = np.concatenate(scales)
                got = self.lines(path)[1]["scales"]
                self.assertEqual((got["tensors"], got["count"]), (len(scales), everything.size))
                self.assertEqual(
                    (F32.type(got["smallest"]), F32.type(got["largest"])),
                    (everything.min(), everything.max()),
                )
                middle = int(np.floor(np.log2(np.sort(everything)[(everything.size - 1) // 2])))
                text = run("inspect", path).stdout
                self.assertIn(f"median between 2^{middle} and 2^{middle + 1}", text)
                self.assertIn("block of 128 x 128", text)

    def test_scales_that_are_none(self):
        refused.compressed_tensors(self.source)
        path = self.source / "model.safetensors"
        shard = folder.Shard(path)
        arrays = {name: np.array(shard[name]) for name in shard}
        scale = arrays["model.layers.0.mlp.up_proj.weight_scale"]
        scale[0], scale[1], scale[2], scale[3], scale[4] = 0, -0.0, -1, np.inf, np.nan
        folder.write_shard(path, arrays, {"format": "pt"})
        got = self.lines(self.source)[1]["scales"]
        self.assertEqual((got["zero"], got["negative"], got["not_finite"]), (2, 1, 2))
        self.assertEqual((got["smallest"], got["largest"]), (0.5, 0.5))

    def test_a_file_by_itself(self):
        make_checkpoints.write(self.source, models.llama())
        text = run("inspect", "--tensors", self.source / "model.safetensors").stdout
        self.assertIn("unknown, there is no config.json", text)
        self.assertIn("model.layers.1.mlp.up_proj.weight", text)

    def test_groups_name_their_ranges(self):
        make_checkpoints.write(self.source, make_checkpoints.CONVERTIBLE["mixtral"]())
        text = run("inspect", self.source).stdout
        self.assertIn("model.layers.{0-1}.block_sparse_moe.experts.{0-3}.w1.weight", text)

    def test_names_every_format(self):
        for kind, (make, _, message) in refused.REFUSED.items():
            if message in ("AutoFP8", "ModelOpt", "GPTQ", "AWQ", "bitsandbytes", "MXFP4", "NVFP4"):
                with self.subTest(kind=kind):
                    make(self.folder / kind)
                    self.assertIn(message, run("inspect", self.folder / kind).stdout)

    def test_what_is_no_model(self):
        run("inspect", self.folder / "absent", code=3)
        run("inspect", code=2)


if __name__ == "__main__":
    ROWSCALE = sys.argv.pop(1)
    unittest.main()
