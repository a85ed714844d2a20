"""Runs of rowscale quantize that are disturbed: what the tests of interruptions share."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import make_checkpoints
import models
from folder import files_of

MIB = 1 << 20


class Case(unittest.TestCase):
    rowscale = ""  # the command: set by the program

    @classmethod
    def setUpClass(cls):
        cls.root = pathlib.Path(tempfile.mkdtemp(prefix="rowscale-interrupt-"))
        cls.addClassCleanup(shutil.rmtree, cls.root)
        cls.shards, cls.single = cls.root / "shards", cls.root / "single"
        make_checkpoints.write(cls.shards, models.llama(shards=3))
        make_checkpoints.write(cls.single, models.llama_of(6e7), {})
        cls.undisturbed = {}

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=self.root))
        self.out = self.folder / "out"

    def command(self, source, *options, out=None):
        return [self.rowscale, "quantize", str(source), str(out or self.out), "--quiet", *options]

    def run_to(self, code, source, *options, **keywords):
        out = keywords.pop("out", None)
        done = subprocess.run(
            self.command(source, *options, out=out), capture_output=True, text=True, check=False, **keywords
        )
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def start(self, source, *options, **keywords):
        return subprocess.Popen(
            self.command(source, *options),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **keywords,
        )

    def wanted(self, source, scheme):
        key = (source, scheme)
        if key not in self.undisturbed:
            out = self.root / f"wanted-{source.name}-{scheme}"
            self.run_to(0, source, "--scheme", scheme, out=out)
            type(self).undisturbed[key] = files_of(out)
        return self.undisturbed[key]

    def assert_complete(self, source, scheme):
        self.assertEqual(files_of(self.out), self.wanted(source, scheme))
        self.assertEqual(sorted(os.listdir(self.folder)), ["out"])
