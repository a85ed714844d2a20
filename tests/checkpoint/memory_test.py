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

import cast_model
import expected
import folder
import make_checkpoints
import models
from command import SCHEMES
from disturbed import MIB, Case
from folder import files_of

LARGEST_HEADER = 100_000_000


class Measured(Case):
    def peak(self, *command, code=0, limit=None, wanted=""):
        """The largest resident set in bytes, mapped pages included."""

        def restrict():
            if limit:
                resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

        with open(self.folder / "said", "w+") as said:
            process = subprocess.Popen(
                [self.rowscale, *map(str, command)], stdout=subprocess.DEVNULL, stderr=said, preexec_fn=restrict
            )
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
                time.sleep(0.005)
            said.seek(0)
            text = said.read(100_000)
        self.assertEqual(process.returncode, code, text)
        self.assertIn(wanted, text)
        if code == 0:  # what is refused may be over before it is seen; its limits tell
            self.assertGreater(peak, 0)
        return peak

    def quantize(self, source, *options, **keywords):
        return self.peak("quantize", source, self.out, "--quiet", *options, **keywords)


class Models(Measured):
    def test_in_an_address_space_of_512_mib(self):
        for scheme in SCHEMES:
            self.out = self.folder / scheme
            self.quantize(self.single, "--scheme", scheme, limit=512 * MIB)
            self.assertEqual(files_of(self.out), self.wanted(self.single, scheme))

    def test_max_memory_holds_and_changes_no_byte(self):
        peak = self.quantize(
            self.single, "--scheme", "fp8-dynamic", "--max-memory", "64M", "--threads", "2"
        )
        self.assertLess(peak, 64 * MIB)
        self.assertEqual(files_of(self.out), self.wanted(self.single, "fp8-dynamic"))

    def test_a_tensor_of_very_long_rows(self):
        """Rows longer than a strip, blocks of them too: cut by columns, with the same scales."""
        model = models.Model({"model_type": "llama", "torch_dtype": "bfloat16"})
        model.linear("model.layers.0.mlp.up_proj", 130, 70000)
        source = self.folder / "model"
        make_checkpoints.write(source, model, {})
        for scheme in SCHEMES:
            for numerics in cast_model.CASTS:
                self.out = self.folder / f"{scheme}-{numerics}"
                self.quantize(source, "--scheme", scheme, "--numerics", numerics, "--max-memory", "48M")
                got = folder.Checkpoint(self.out)
                for name, array in expected.tensors(model, scheme, numerics).items():
                    self.assertEqual(got[name].tobytes(), array.tobytes(), f"{name} {scheme} {numerics}")


WEIGHT = '"l.weight":{"dtype":"BF16","shape":[128,128],"data_offsets":[0,32768]}'


class Headers(Measured):
    """Headers as long as the format allows; quantize, inspect and verify alike."""

    def setUp(self):
        super().setUp()
        self.source = self.folder / "model"
        self.source.mkdir()
        (self.source / "config.json").write_text(json.dumps({"model_type": "llama"}))

    def write(self, parts, data):
        """A shard with the header that `parts` make, and as much data."""
        path = self.source / "model.safetensors"
        with open(path, "wb") as stream:
            stream.write(bytes(8))
            for part in parts:
                stream.write(part)
            length = stream.tell() - 8
            self.assertLessEqual(length, LARGEST_HEADER)
            self.assertGreater(length, 0.9 * LARGEST_HEADER)
            stream.seek(0)
            stream.write(struct.pack("<Q", length))
            stream.truncate(8 + length + data)

    def refuse(self, header, wanted):
        self.write([header], 32768)
        for limit in (None, 400 * MIB):
            for command in (
                ("quantize", self.source, self.out, "--scheme", "fp8-dynamic"),
                ("inspect", self.source),
                ("inspect", self.source / "model.safetensors"),
            ):
                peak = self.peak(*command, code=3, limit=limit, wanted=wanted)
                self.assertLess(peak, 256 * MIB)
            peak = self.peak("verify", self.source, code=1, limit=limit)
            self.assertLess(peak, 256 * MIB)

    def test_one_long_name(self):
        name = b"n" * (LARGEST_HEADER - 200)
        self.refuse(
            b'{"' + name + b'":{"dtype":"U8","shape":[32768],"data_offsets":[0,32768]}}', "texts and numbers"
        )

    def test_a_name_a_little_too_long(self):
        space = b" " * (16 * MIB - 100)
        header = b'{"' + b"n" * 4097 + b'":{"dtype":"U8",' + b",".join([b'"x":' + space + b"0"] * 5)
        space = b" " * (LARGEST_HEADER - len(header) - 300)
        self.refuse(
            header + b',"shape":[32768],' + space[: 15 * MIB] + b'"data_offsets":[0,32768]}}',
            "expected a name of at most 4096 bytes, got 4097",
        )

    def test_a_long_text_in_the_metadata(self):
        text = b"m" * (LARGEST_HEADER - 300)
        self.refuse(b'{"__metadata__":{"a":"' + text + b'"},' + WEIGHT.encode() + b"}", "texts and numbers")

    def test_a_long_number(self):
        number = b"1" * (LARGEST_HEADER - 200)
        self.refuse(b'{"a":{"dtype":"U8","shape":[' + number + b"]}}", "texts and numbers")

    def test_many_dimensions(self):
        dimensions = b"1," * (LARGEST_HEADER // 2 - 200)
        self.refuse(b'{"a":{"dtype":"U8","shape":[' + dimensions + b"1]}}", "at most 64 dimensions")

    def inspect(self):
        for options in ((), ("--tensors",)):
            with self.subTest(options=options):
                self.assertLess(self.peak("inspect", *options, self.source), 512 * MIB)

    def convert_and_verify(self):
        for command in (
            ("quantize", self.source, self.out, "--scheme", "fp8-dynamic", "--dry-run"),
            ("quantize", self.source, self.out, "--scheme", "fp8-dynamic", "--quiet"),
            ("verify", self.out, "--against", self.source),
        ):
            with self.subTest(command=command[:2]):
                self.assertLess(self.peak(*command), 512 * MIB)

    def tensors(self, name, count, size):
        yield b"{" + WEIGHT.encode()
        at = 32768
        for i in range(count):
            entry = f',"{name(i)}":{{"dtype":"U8","shape":[{size}],"data_offsets":[{at},{at + size}]}}'
            yield entry.encode()
            at += size
        yield b"}"

    def test_a_million_names_that_are_alike(self):
        """inspect makes one line of them. The other commands know nothing of that: for them the next model,
        with as many tensors and an index too, is the harder one."""
        count = 1_000_000
        self.write(self.tensors(lambda i: f"model.layers.{i:07d}.some.bias", count, 8), 32768 + 8 * count)
        self.inspect()

    def test_a_million_names_that_are_not_alike(self):
        count = 1_000_000
        letters = "abcdefghij"

        def name(i):
            return "model.layer_" + "".join(letters[int(digit)] for digit in f"{i:07d}") + ".some.bias"

        self.write(self.tensors(name, count, 8), 32768 + 8 * count)
        files = dict.fromkeys(["l.weight", *map(name, range(count))], "model.safetensors")
        (self.source / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))
        del files
        self.inspect()
        self.convert_and_verify()

    def test_the_longest_names(self):
        count = 24_000
        self.write(self.tensors(lambda i: f"{i:08d}" + "n" * 4000 + ".bias", count, 8), 32768 + 8 * count)
        self.inspect()
        self.convert_and_verify()


if __name__ == "__main__":
    Case.rowscale = sys.argv.pop(1)
    unittest.main(verbosity=1)
