"""Where rowscale quantize puts its result, and what a kill at any step leaves.

publish_test.py ROWSCALE LIBRARY [unittest arguments]

LIBRARY (stop_at_step.c) ends a run before its N-th call that changes a name or waits for the disk. Each
test goes through all N: afterwards OUT is complete or not there, --resume ends with the bytes of an
undisturbed run, and so does a new run, if need be after it said what it found and was told --force.
"""

import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import numpy as np

import make_checkpoints
import models
from disturbed import Case
from folder import files_of

WORKING = (".rowscale-journal", ".rowscale-lock", ".rowscale-part", ".rowscale-work")
SCHEME = ("--scheme", "fp8-dynamic")
BEFORE = ("--scheme", "fp8-block")  # of an output that is replaced


def tiny(poison=False):
    model = models.llama(hidden_size=64, intermediate_size=64, num_hidden_layers=1, vocab_size=64, shards=2)
    if poison:
        last = model.tensors[-3]  # down_proj: the last that is quantized
        make = last.make

        def with_nan():
            array = make()
            array[1, 2] = np.nan
            return array

        last.make = with_nan
    return model


SIDE_FILES = {
    "tokenizer.json": b"{}",
    "a/deep/file": b"text",
    "a/b/c": b"",
    "README.md": b"---\nlicense: mit\n",
}


class Steps(Case):
    library = ""

    @classmethod
    def setUpClass(cls):
        cls.root = pathlib.Path(tempfile.mkdtemp(prefix="rowscale-publish-"))
        cls.addClassCleanup(shutil.rmtree, cls.root)
        cls.undisturbed = {}
        # The sanitizers would be first in the list of libraries.
        loaded = {"LD_PRELOAD": cls.library, "ASAN_OPTIONS": "verify_asan_link_order=0"}
        cls.enterClassContext(unittest.mock.patch.dict(os.environ, loaded))
        cls.source = cls.root / "model"
        make_checkpoints.write(cls.source, tiny(), SIDE_FILES)

    def run_until(self, step, *options, source=None, environment=()):
        """The exit status of a run that is killed before its step-th step."""
        return subprocess.run(
            self.command(source or self.source, *options, "--threads", "1"),
            env={**os.environ, "ROWSCALE_STOP_AT": str(step), **dict(environment)},
            capture_output=True,
            text=True,
            check=False,
        ).returncode

    def run_any(self, *options, source=None):
        return subprocess.run(
            self.command(source or self.source, *options), capture_output=True, text=True, check=False
        )

    def output(self):
        """The files in OUT without those that rowscale works with; None: it is not there."""
        if not self.out.exists():
            return None
        files = files_of(self.out)
        return {name: data for name, data in files.items() if name.split("/")[0] not in WORKING}

    def is_marked(self):
        return any((self.out / name).exists() for name in WORKING)

    def states(self, prepare, *options, environment=(), source=None):
        """Runs that are killed at one step after the other, each in a fresh folder that prepare() fills."""
        step = 0
        while True:
            step += 1
            shutil.rmtree(self.folder)
            self.folder.mkdir()
            prepare()
            status = self.run_until(step, *options, environment=environment, source=source)
            if status != -signal.SIGKILL:
                break
            yield step
        self.assertGreater(step, 10, "the library does not see the steps")

    def saved(self):
        copy = self.root / "saved"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.folder, copy, symlinks=True)

        def put_back():
            shutil.rmtree(self.folder)
            shutil.copytree(copy, self.folder, symlinks=True)

        return put_back

    def check_recoveries(self, *options):
        if self.output() == self.wanted(self.source, "fp8-dynamic") and not self.is_marked():
            self.assert_complete(self.source, "fp8-dynamic")  # nothing is left to do
            return
        put_back = self.saved()
        done = self.run_any(*SCHEME, "--resume", *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assert_complete(self.source, "fp8-dynamic")
        put_back()
        done = self.run_any(*SCHEME, *options)
        if done.returncode != 0 and not options:
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertRegex(done.stderr, "--resume.*--force|is there: --force replaces it")
            done = self.run_any(*SCHEME, "--force")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assert_complete(self.source, "fp8-dynamic")

    def test_where_nothing_is(self):
        wanted = self.wanted(self.source, "fp8-dynamic")
        for step in self.states(lambda: None, *SCHEME):
            with self.subTest(step=step):
                self.assertIn(self.output(), (None, wanted))
                self.check_recoveries()

    def test_into_an_empty_folder(self):
        """The files come one by one, what makes it a model last."""
        wanted = self.wanted(self.source, "fp8-dynamic")
        for step in self.states(self.out.mkdir, *SCHEME):
            with self.subTest(step=step):
                found = self.output()
                if "config.json" in found:
                    self.assertEqual(found, wanted)
                self.check_recoveries()

    def prepare_replaced(self):
        self.run_to(0, self.source, *BEFORE)

    def test_over_an_output(self):
        wanted = self.wanted(self.source, "fp8-dynamic")
        before = self.wanted(self.source, "fp8-block")
        for step in self.states(self.prepare_replaced, *SCHEME, "--force"):
            with self.subTest(step=step):
                self.assertIn(self.output(), (before, wanted))
                self.check_recoveries("--force")

    def test_over_an_output_where_folders_cannot_be_exchanged(self):
        wanted = self.wanted(self.source, "fp8-dynamic")
        before = self.wanted(self.source, "fp8-block")
        environment = {"ROWSCALE_NO_EXCHANGE": "1"}.items()
        absent = 0
        for step in self.states(self.prepare_replaced, *SCHEME, "--force", environment=environment):
            with self.subTest(step=step):
                absent += self.output() is None
                self.assertIn(self.output(), (None, before, wanted))
                self.check_recoveries("--force")
        self.assertEqual(absent, 1)

    def test_a_resumed_run_is_killed_too(self):
        draw = random.Random(3)
        for prepare, options in (
            (lambda: None, ()),
            (self.out.mkdir, ()),
            (self.prepare_replaced, ("--force",)),
        ):
            for _ in range(12):
                shutil.rmtree(self.folder)
                self.folder.mkdir()
                prepare()
                resume = ()
                for _ in range(6):
                    if self.run_until(draw.randrange(1, 90), *SCHEME, *options, *resume) == 0:
                        break
                    resume = ("--resume",)
                else:
                    self.run_to(0, self.source, *SCHEME, *options, "--resume")
                self.assert_complete(self.source, "fp8-dynamic")

    def test_another_conversion_over_one_that_was_killed(self):
        """Killed at any step, then replaced by another one, which is killed too, then resumed."""
        draw = random.Random(5)
        for prepare in (lambda: None, self.out.mkdir):
            for step in self.states(prepare, *BEFORE):
                with self.subTest(step=step):
                    status = self.run_until(draw.randrange(1, 90), *SCHEME, "--force")
                    self.assertIn(status, (0, -signal.SIGKILL))
                    done = self.run_any(*SCHEME, "--force", "--resume")
                    if done.returncode != 0:  # the second one had not begun
                        self.assertIn('--scheme was "fp8-block", is "fp8-dynamic"', done.stderr)
                        self.run_to(0, self.source, *SCHEME, "--force")
                    self.assert_complete(self.source, "fp8-dynamic")

    def test_while_what_failed_is_removed(self):
        """A weight that no run can convert: what is there is removed, and what is left of that is ours."""
        source = self.root / "poisoned"
        make_checkpoints.write(source, tiny(poison=True), SIDE_FILES)
        for prepare in (lambda: None, self.out.mkdir):
            for step in self.states(prepare, *SCHEME, source=source):
                with self.subTest(step=step):
                    put_back = self.saved()
                    for options in ((), ("--resume",), ("--force",)):
                        put_back()
                        done = self.run_any(*SCHEME, *options, source=source)
                        if options == () and done.returncode == 2:
                            self.assertIn("--resume continues it, --force starts anew", done.stderr)
                            continue
                        self.assertEqual(done.returncode, 3, done.stderr)
                        self.assertIn("expected finite numbers", done.stderr)
                        self.assertEqual(files_of(self.folder), {})


class Targets(Case):
    def test_a_second_run_is_refused(self):
        first = self.start(self.single, "--scheme", "fp8-tensor")
        lock = self.folder / ".out.rowscale" / ".rowscale-journal"
        while first.poll() is None and not lock.exists():
            pass
        os.kill(first.pid, signal.SIGSTOP)
        try:
            for option in ("--resume", "--force"):
                done = self.run_to(2, self.single, "--scheme", "fp8-tensor", option)
                self.assertIn("another run", done.stderr)
        finally:
            os.kill(first.pid, signal.SIGCONT)
        _, said = first.communicate()
        self.assertEqual(first.returncode, 0, said)
        self.assert_complete(self.single, "fp8-tensor")

    def test_into_an_empty_folder(self):
        self.out.mkdir()
        self.run_to(0, self.shards, "--scheme", "fp8-dynamic")
        self.assert_complete(self.shards, "fp8-dynamic")

    def test_into_an_empty_folder_with_kills(self):
        self.out.mkdir()
        process = self.start(self.single, "--scheme", "fp8-dynamic")
        work = self.out / ".rowscale-work" / ".rowscale-journal"
        while process.poll() is None and not work.exists():
            pass
        process.kill()
        process.communicate()
        self.assertEqual(os.listdir(self.out), [".rowscale-work"])
        self.run_to(0, self.single, "--scheme", "fp8-dynamic", "--resume")
        self.assert_complete(self.single, "fp8-dynamic")

    def test_out_and_model_apart(self):
        model = self.folder / "model"
        shutil.copytree(self.shards, model)
        (self.folder / "link").symlink_to(model)
        before = files_of(model)
        for out in (model, model / "sub", self.folder, self.folder / "link", self.folder / "link" / "x"):
            for options in ((), ("--force",)):
                self.run_to(2, model, "--scheme", "fp8-dynamic", *options, out=out)
        self.assertEqual(files_of(model), before)

    def test_model_where_the_work_would_be(self):
        """At the working folder's name, or with a link of that name to it."""
        model, work = self.folder / "model", self.folder / ".out.rowscale"
        shutil.copytree(self.shards, model)
        before = files_of(model)

        def refuse(source):
            for options in ((), ("--resume",), ("--force",), ("--dry-run",)):
                done = self.run_to(2, source, "--scheme", "fp8-dynamic", *options)
                self.assertIn("MODEL is", done.stderr)
                self.assertEqual(files_of(work), before)
                self.assertFalse(os.path.lexists(self.out))

        work.symlink_to(model)
        refuse(model)
        refuse(work)
        work.unlink()
        model.rename(work)
        refuse(work)

    def test_a_working_folder_of_others(self):
        work = self.folder / ".out.rowscale"
        work.mkdir()
        (work / "notes.txt").write_text("mine")
        for options in ((), ("--resume",), ("--force",)):
            done = self.run_to(2, self.shards, "--scheme", "fp8-dynamic", *options)
            self.assertIn("rowscale did not write", done.stderr)
            self.assertEqual(files_of(work), {"notes.txt": b"mine"})
        (work / "notes.txt").unlink()  # an empty one is in nobody's way
        self.run_to(0, self.shards, "--scheme", "fp8-dynamic")
        self.assert_complete(self.shards, "fp8-dynamic")

    def test_a_name_too_long_for_the_working_folder(self):
        """".NAME.rowscale" must be a name too: 255 bytes on the file systems of Linux."""
        for length in (246, 255, 300):
            done = self.run_to(2, self.shards, "--scheme", "fp8-dynamic", out=self.folder / ("y" * length))
            self.assertIn(f"at most 245 bytes, got {length}", done.stderr)
        self.assertEqual(os.listdir(self.folder), [])
        self.run_to(0, self.shards, "--scheme", "fp8-dynamic", out=self.folder / ("y" * 245))
        # An output that is replaced may have to be set aside under a name of 4 bytes more.
        for length in (242, 245):
            out = self.folder / ("y" * length)
            if length != 245:
                self.run_to(0, self.shards, "--scheme", "fp8-dynamic", out=out)
            done = self.run_to(2, self.shards, "--scheme", "fp8-dynamic", "--force", out=out)
            self.assertIn(f"at most 241 bytes to replace, got {length}", done.stderr)
        (self.folder / ("z" * 255)).mkdir()  # there the work is done inside
        self.run_to(0, self.shards, "--scheme", "fp8-dynamic", out=self.folder / ("z" * 255))

    def test_force_over_a_damaged_record(self):
        self.out.mkdir()
        (self.out / "notes.txt").write_text("mine")
        for record in ('{"files":[{"name":1}]}', '{"files":[5]}', '{"files":{}}', "[]", "{", ""):
            (self.out / "rowscale.json").write_text(record)
            done = self.run_to(2, self.shards, "--scheme", "fp8-dynamic", "--force")
            self.assertIn("notes.txt", done.stderr)
        self.assertEqual(files_of(self.out), {"notes.txt": b"mine", "rowscale.json": b""})

    def test_force_spares_what_others_wrote(self):
        self.run_to(0, self.shards, "--scheme", "fp8-dynamic")
        (self.out / "notes.txt").write_text("mine")
        done = self.run_to(2, self.shards, "--scheme", "fp8-block", "--force")
        self.assertIn("notes.txt", done.stderr)
        (self.out / "notes.txt").unlink()
        self.run_to(0, self.shards, "--scheme", "fp8-block", "--force")
        self.assert_complete(self.shards, "fp8-block")

    def test_a_folder_that_came_meanwhile(self):
        """An empty one is no reason to begin anew; one with files is in the way, and the work is kept."""
        process = self.start(self.single, *SCHEME)
        journal = self.folder / ".out.rowscale" / ".rowscale-journal"
        while process.poll() is None and not journal.exists():
            pass
        process.kill()
        process.communicate()
        self.out.mkdir()
        done = self.run_to(2, self.single, *SCHEME)
        self.assertIn("--resume continues it, --force starts anew", done.stderr)
        (self.out / "notes.txt").write_text("mine")
        self.run_to(2, self.single, *SCHEME, "--resume")
        (self.out / "notes.txt").unlink()
        self.run_to(0, self.single, *SCHEME, "--resume")
        self.assert_complete(self.single, "fp8-dynamic")


if __name__ == "__main__":
    Case.rowscale, Steps.library = sys.argv.pop(1), sys.argv.pop(1)
    unittest.main(verbosity=1)
