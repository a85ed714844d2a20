"""How much memory rowscale takes, whatever the size of the model, of a tensor, of a header.

memory_test.py ROWSCALE [unittest arguments]
"""

import json
import pathlib
import resource
import struct
import subprocess
import sys
import time
import unittest

import make_checkpoints
import models
from disturbed import MIB, SCHEMES, Case, files_of


class Memory(Case):
    def peak(self, source, *options, limit=None):
        """The largest resident set in bytes, mapped pages included."""
        arguments = self.command(source, *options)

        def restrict():
            if limit:
                resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

        process = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True, preexec_fn=restrict)
        peak = 0
        # Not from the process's end: what wait() tells includes Python's own pages before the exec.
        while process.poll() is None:
            try:
                status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
                name = pathlib.Path(f"/proc/{process.pid}/comm").read_text()
            except OSError:
                continue
            for line in status.splitlines():
                if line.startswith("VmHWM:") and name.startswith("rowscale"):
                    peak = max(peak, int(line.split()[1]) * 1024)
            time.sleep(0.001)
        said = process.stderr.read()
        process.stderr.close()
        self.assertEqual(process.returncode, 0, said)
        self.assertGreater(peak, 0)
        return peak

    def test_in_an_address_space_of_512_mib(self):
        for scheme in SCHEMES:
            self.out = self.folder / scheme
            self.peak(self.single, "--scheme", scheme, limit=512 * MIB)
            self.assertEqual(files_of(self.out), self.wanted(self.single, scheme))

    def test_max_memory_holds_and_changes_no_byte(self):
        peak = self.peak(self.single, "--scheme", "fp8-dynamic", "--max-memory", "64M", "--threads", "2")
        self.assertLess(peak, 64 * MIB)
        self.assert_complete(self.single, "fp8-dynamic")

    def test_the_largest_header(self):
        """98 MB of header, a million tensors."""
        model = self.folder / "model"
        model.mkdir()
        count, entries, at = 1_000_000, [], 0
        entries.append('"l.weight":{"dtype":"BF16","shape":[128,128],"data_offsets":[0,32768]}')
        at = 32768
        for i in range(count):
            entries.append(
                f'"model.layers.{i:07d}.some.bias":{{"dtype":"U8","shape":[8],"data_offsets":[{at},{at + 8}]}}'
            )
            at += 8
        header = ("{" + ",".join(entries) + "}").encode()
        self.assertLess(len(header), 100_000_000)
        with open(model / "model.safetensors", "wb") as stream:
            stream.write(struct.pack("<Q", len(header)) + header + bytes(at))
        del entries, header
        (model / "config.json").write_text(json.dumps({"model_type": "llama"}))
        peak = self.peak(model, "--scheme", "fp8-dynamic")
        self.assertLess(peak, 512 * MIB)

    def test_a_tensor_of_very_long_rows(self):
        """Rows longer than a strip, blocks of them too: cut by columns, with the same scales."""
        import cast_model
        import expected
        import folder
        import weights

        model = models.Model({"model_type": "llama", "torch_dtype": "bfloat16"})
        model.linear("model.layers.0.mlp.up_proj", 130, 70000)
        del weights
        source = self.folder / "model"
        make_checkpoints.write(source, model, {})
        for scheme in SCHEMES:
            for numerics in cast_model.CASTS:
                self.out = self.folder / f"{scheme}-{numerics}"
                self.peak(source, "--scheme", scheme, "--numerics", numerics, "--max-memory", "48M")
                got = folder.Checkpoint(self.out)
                for name, array in expected.tensors(model, scheme, numerics).items():
                    self.assertEqual(got[name].tobytes(), array.tobytes(), f"{name} {scheme} {numerics}")


if __name__ == "__main__":
    Case.rowscale = sys.argv.pop(1)
    unittest.main(verbosity=1)
