"""The command under test, as the tests of its sub-commands run it.

A test program's first argument is the command; main() takes it.
"""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SCHEMES = ("fp8-dynamic", "fp8-block", "fp8-tensor")
path = ""


def main():
    global path
    path = sys.argv.pop(1)
    unittest.main(verbosity=1)


def run(*arguments, **keywords):
    return subprocess.run([path, *map(str, arguments)], capture_output=True, text=True, check=False, **keywords)


def lines_of(done):
    """Of --json: one object a line, with the version of the form in front."""
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert all(list(line)[:2] == ["rowscale_json", "event"] and line["rowscale_json"] == 1 for line in lines)
    return lines


class Case(unittest.TestCase):
    """A folder of its own, for a model and what is made of it."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="rowscale-test-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.source, self.out = self.folder / "model", self.folder / "out"
