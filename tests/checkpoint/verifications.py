"""Runs of rowscale verify, on results that are sound and on such that were changed."""

import json
import shutil

import numpy as np

import command
import folder
import make_checkpoints
import models

LAYER = "model.layers.1.mlp.up_proj"


class Case(command.Case):
    def make(self, model, scheme="fp8-dynamic", numerics="compressed-tensors"):
        shutil.rmtree(self.out, ignore_errors=True)
        if not self.source.exists():
            make_checkpoints.write(self.source, model)
        done = command.run("quantize", self.source, self.out, "--scheme", scheme, "--numerics", numerics, "--quiet")
        self.assertEqual(done.returncode, 0, done.stderr)

    def verify(self, *options, code=0):
        """(checks by name, layers by module)"""
        done = command.run("verify", self.out, "--json", *options)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(lines[-1], {"rowscale_json": 1, "event": "verdict", "holds": code == 0})
        checks = {x["name"]: x for x in lines if x["event"] == "check"}
        return checks, {x["module"]: x for x in lines if x["event"] == "layer"}

    def assert_fails(self, *names, against=False):
        """Exactly these checks fail."""
        checks, _ = self.verify(*(["--against", self.source] if against else []), code=1)
        failing = {name for name, check in checks.items() if check["problems"]}
        self.assertEqual(failing, set(names), json.dumps(checks, indent=1))

    def edit(self, change, shard=None):
        """Rewrites the shard that holds LAYER, or another, after change(tensors); the record goes, so
        that hashes do not tell of it first."""
        (self.out / "rowscale.json").unlink(missing_ok=True)
        path = self.out / (shard or folder.Checkpoint(self.out).files[LAYER + ".weight"])
        file = folder.Shard(path)
        tensors = {name: np.array(file[name]) for name in file}
        change(tensors)
        folder.write_shard(path, tensors, {"format": "pt"})


class Changed(Case):
    """A result of two shards, to be changed."""

    def setUp(self):
        super().setUp()
        self.make(models.llama(shards=2))

    def config(self, change):
        (self.out / "rowscale.json").unlink(missing_ok=True)
        path = self.out / "config.json"
        config = json.loads(path.read_text())
        change(config["quantization_config"])
        path.write_text(json.dumps(config))

    def put_back(self, record):
        """The record that edit() took away, without files."""
        data = json.loads(record)
        data["files"] = []  # hashes of what was edited would tell at once
        (self.out / "rowscale.json").write_text(json.dumps(data))
