"""rowscale quantize, disturbed: kills, signals, a full disk, limits, changed files.

Whatever happens, OUT is complete or not there, and --resume ends with the bytes of an undisturbed run.
publish_test.py stops it at every single step.

interrupt_test.py ROWSCALE [unittest arguments]
"""

import json
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
import unittest

import make_checkpoints
import models
from command import SCHEMES
from disturbed import MIB, Case


class Kills(Case):
    def test_kill_at_random_moments(self):
        """One file: continued behind the last finished tensor."""
        source = self.single
        draw = random.Random(7)
        for scheme in SCHEMES:
            begin = time.monotonic()
            self.wanted(source, scheme)
            usual = time.monotonic() - begin
            kills = 0
            for _ in range(8):
                if self.out.exists():
                    shutil.rmtree(self.out)
                options = ("--scheme", scheme, "--threads", "1")
                for attempt in range(50):
                    process = self.start(source, *options, *(["--resume"] if attempt else []))
                    time.sleep(draw.random() * usual)
                    process.kill()
                    process.communicate()
                    kills += process.returncode != 0
                    if self.out.exists():  # complete, even where the kill came before the end
                        if any(name.startswith(".rowscale") for name in os.listdir(self.out)):
                            self.run_to(0, source, *options, "--resume")  # takes the marks away
                        break
                else:
                    self.run_to(0, source, *options, "--resume")
                self.assert_complete(source, scheme)
            self.assertGreater(kills, 0)

    def test_stop_signals_print_the_command_that_resumes(self):
        source = self.single
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            stopped = False
            for delay in (0.02, 0.01, 0.005, 0.04, 0.002):
                process = self.start(source, "--scheme", "fp8-block")
                work = self.folder / ".out.rowscale" / ".rowscale-part"
                while process.poll() is None and not work.exists():
                    pass
                time.sleep(delay)
                process.send_signal(number)
                _, said = process.communicate()
                if process.returncode == 0:  # it was quicker
                    shutil.rmtree(self.out)
                    continue
                self.assertEqual(process.returncode, 128 + number, said)
                self.assertFalse(self.out.exists())
                command = said.strip().splitlines()[-1].partition("To continue: ")[2].split()
                self.assertEqual(command[:2], ["rowscale", "quantize"])
                again = subprocess.run(
                    [self.rowscale, *command[1:]], capture_output=True, text=True, check=False
                )
                self.assertEqual(again.returncode, 0, again.stderr)
                self.assert_complete(source, "fp8-block")
                shutil.rmtree(self.out)
                stopped = True
                break
            self.assertTrue(stopped, f"{number}: every run was quicker than the signal")

    def test_signals_in_the_background_of_a_script(self):
        """A shell without job control starts "command &" with SIGINT ignored: it stays so; SIGTERM stops."""
        command = self.command(self.single, "--scheme", "fp8-tensor", "--threads", "1")
        shell = ["sh", "-c", '"$@" & echo $!; wait $!', "sh", *command]
        part = self.folder / ".out.rowscale" / ".rowscale-part"
        with subprocess.Popen(shell, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            pid = int(process.stdout.readline())
            while process.poll() is None and not part.exists():
                pass
            os.kill(pid, signal.SIGSTOP)  # both signals wait together, so the order is not left to chance
            os.kill(pid, signal.SIGINT)
            os.kill(pid, signal.SIGTERM)
            os.kill(pid, signal.SIGCONT)
            _, said = process.communicate()
        self.assertEqual(process.returncode, 128 + signal.SIGTERM, said)
        self.assertIn("stopped. To continue: ", said)
        self.assertFalse(self.out.exists())
        self.run_to(0, self.single, "--scheme", "fp8-tensor", "--resume")
        self.assert_complete(self.single, "fp8-tensor")

    def stop_early(self, source, *options):
        """Leaves an unfinished conversion: killed once its journal has a finished tensor or file."""
        process = self.start(source, *options)
        journal = self.folder / ".out.rowscale" / ".rowscale-journal"
        while process.poll() is None:
            if journal.exists() and journal.read_bytes().count(b"\n") >= 2:
                process.kill()
        process.communicate()
        self.assertFalse(self.out.exists(), "it was quicker than the kill")

    def test_resume_refuses_another_conversion(self):
        source = self.folder / "model"
        shutil.copytree(self.single, source)
        self.stop_early(source, "--scheme", "fp8-tensor")
        self.run_to(2, source, "--scheme", "fp8-tensor")  # without --resume: in the way
        for options, word in (
            (("--scheme", "fp8-block"), '--scheme was "fp8-tensor", is "fp8-block"'),
            (
                ("--scheme", "fp8-tensor", "--numerics", "precise"),
                '--numerics was "compressed-tensors", is "precise"',
            ),
            (
                ("--scheme", "fp8-tensor", "--ignore", "re:.*down_proj", "--ignore", "re:.*o_proj"),
                '--ignore was not given, is "re:.*down_proj", "re:.*o_proj"',
            ),
            (("--scheme", "fp8-tensor", "--card"), "--card was not given, is given"),
            (
                ("--scheme", "fp8-tensor", "--base-model", "owner/name"),
                '--base-model was not given, is "owner/name"',
            ),
        ):
            said = self.run_to(2, source, *options, "--resume").stderr
            self.assertIn(f"another one: {word}. --force without --resume starts anew", said)

    def test_resume_says_what_became_of_the_model(self):
        """In words, a time as a calendar has it; the first difference alone."""
        source = self.folder / "model"
        shutil.copytree(self.single, source)
        for name in ("model.safetensors", "notes.txt"):
            (source / name).touch()
            os.utime(source / name, ns=(0, 1_700_000_000_250_000_000))
        self.stop_early(source, "--scheme", "fp8-tensor")

        def refused():
            return self.run_to(2, source, "--scheme", "fp8-tensor", "--resume").stderr

        for name in ("notes.txt", "model.safetensors"):
            os.utime(source / name, ns=(0, 1_700_003_600_000_000_001))
            self.assertIn(
                f'MODEL: "{name}" was of 2023-11-14 22:13:20.250000000 UTC, '
                "is of 2023-11-14 23:13:20.000000001 UTC",
                refused(),
            )
        os.utime(source / "model.safetensors", ns=(0, 1_700_000_000_250_000_000))
        (source / "notes.txt").write_text("four")
        self.assertIn('MODEL: "notes.txt" had 0 bytes, has 4', refused())
        (source / "notes.txt").unlink()
        self.assertIn('MODEL: "notes.txt" is gone', refused())
        (source / "more.txt").touch()
        self.assertIn('MODEL: "more.txt" was not there', refused())
        (source / "config.json").write_bytes((source / "config.json").read_bytes() + b"\n")
        self.assertIn('MODEL: "config.json" has other contents', refused())

    def test_nothing_to_resume_is_said(self):
        said = "rowscale: warning: --resume: nothing unfinished is there: it begins at the start\n"
        done = self.run_to(0, self.shards, "--scheme", "fp8-dynamic", "--resume")
        self.assertEqual(done.stderr, said)
        self.assert_complete(self.shards, "fp8-dynamic")
        done = self.run_to(2, self.shards, "--scheme", "fp8-dynamic", "--resume")
        self.assertIn(f"{self.out} is complete, --resume has nothing left to do: --force makes it anew", done.stderr)
        self.assert_complete(self.shards, "fp8-dynamic")
        shutil.rmtree(self.out)
        done = self.run_to(0, self.shards, "--scheme", "fp8-dynamic", "--resume", "--json")
        warnings = [x for x in map(json.loads, done.stdout.splitlines()) if x["event"] == "warning"]
        self.assertEqual([x["message"] for x in warnings], [said.removeprefix("rowscale: warning: ").strip()])
        shutil.rmtree(self.out)
        self.stop_early(self.single, "--scheme", "fp8-tensor")
        done = self.run_to(0, self.single, "--scheme", "fp8-tensor", "--resume")
        self.assertEqual(done.stderr, "")

    def test_a_damaged_part_is_made_anew(self):
        """As after a power failure that lost what the journal promised."""
        source = self.single
        self.stop_early(source, "--scheme", "fp8-dynamic")
        part = self.folder / ".out.rowscale" / ".rowscale-part"
        with open(part, "r+b") as stream:
            stream.seek(part.stat().st_size // 64)
            stream.write(b"\xa5" * 4096)
        self.run_to(0, source, "--scheme", "fp8-dynamic", "--resume")
        self.assert_complete(source, "fp8-dynamic")

    def test_force_starts_anew(self):
        self.stop_early(self.single, "--scheme", "fp8-tensor")
        self.run_to(0, self.single, "--scheme", "fp8-block", "--force")
        self.assert_complete(self.single, "fp8-block")


class Finished(Case):
    """Stopped behind the last shard: what an earlier run finished is looked at again."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.large = cls.root / "large"
        make_checkpoints.write(cls.large, models.llama(shards=3))
        with open(cls.large / "large.txt", "wb") as stream:  # larger than any shard
            stream.truncate(4 * MIB)

    def setUp(self):
        super().setUp()
        self.work = self.folder / ".out.rowscale"

    def stop_behind_the_shards(self, source):
        limit = 2 * MIB
        done = self.run_to(
            4,
            source,
            "--scheme",
            "fp8-dynamic",
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
        )
        self.assertIn("large.txt", done.stderr)
        shards = sorted(self.work.glob("*.safetensors"))
        self.assertEqual(len(shards), 3)
        return shards

    def resume(self):
        self.run_to(0, self.large, "--scheme", "fp8-dynamic", "--resume")
        self.assert_complete(self.large, "fp8-dynamic")
        verify = [self.rowscale, "verify", str(self.out), "--against", str(self.large)]
        done = subprocess.run(verify, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_a_damaged_shard_is_made_anew(self):
        def flip(shard):
            data = bytearray(shard.read_bytes())
            data[-100] ^= 1
            shard.write_bytes(data)

        for damage in (flip, lambda shard: os.truncate(shard, 1000), os.remove):
            damage(self.stop_behind_the_shards(self.large)[1])
            self.resume()
            shutil.rmtree(self.out)

    def test_a_changed_side_file_of_equal_size(self):
        source = self.folder / "model"
        shutil.copytree(self.large, source)
        self.stop_behind_the_shards(source)
        changed = source / "tokenizer.json"
        changed.write_bytes(bytes(changed.stat().st_size))
        done = self.run_to(2, source, "--scheme", "fp8-dynamic", "--resume")
        self.assertIn('MODEL: "tokenizer.json" was of ', done.stderr)
        self.assertFalse(self.out.exists())

    def test_a_damaged_journal(self):
        self.stop_behind_the_shards(self.large)
        journal = self.work / ".rowscale-journal"
        before = journal.read_text()
        for line in ('{"file":5}', '{"file":"a","bytes":"b","sha256":"c"}', '{"part":[]}', "{}", "5", "{"):
            journal.write_text(before + line + "\n")
            done = self.run_to(2, self.large, "--scheme", "fp8-dynamic", "--resume")
            self.assertIn("damaged", done.stderr)
        journal.write_text(before)
        self.resume()

    def test_a_journal_with_more_tensors_than_the_shard(self):
        shard = self.stop_behind_the_shards(self.large)[0]
        shard.rename(self.work / ".rowscale-part")
        journal = self.work / ".rowscale-journal"
        line = {"part": shard.name, "tensors": 4_000_000_000, "cursor": 0, "prefix": "", "tail": ""}
        header = journal.read_text().partition("\n")[0]
        journal.write_text(f"{header}\n{json.dumps(line)}\n")
        self.resume()


class Sources(Case):
    def test_a_shard_that_changes_while_it_is_read(self):
        model = self.folder / "model"
        shutil.copytree(self.single, model)
        shard = model / "model.safetensors"
        process = self.start(model, "--scheme", "fp8-tensor")
        part = self.folder / ".out.rowscale" / ".rowscale-part"
        while process.poll() is None and not part.exists():
            pass
        os.kill(process.pid, signal.SIGSTOP)
        os.truncate(shard, shard.stat().st_size // 2)
        os.kill(process.pid, signal.SIGCONT)
        _, said = process.communicate()
        self.assertEqual(process.returncode, 3, said)
        self.assertRegex(said, "shrank|was changed")
        self.assertFalse(self.out.exists())


class Room(Case):
    def test_a_file_size_limit(self):
        """As a quota: the write fails, not the process."""
        limit = 4 * MIB
        done = self.run_to(
            4,
            self.single,
            "--scheme",
            "fp8-dynamic",
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
        )
        self.assertIn("File too large", done.stderr)
        self.assertIn("To continue: rowscale quantize", done.stderr)
        self.run_to(0, self.single, "--scheme", "fp8-dynamic", "--resume")
        self.assert_complete(self.single, "fp8-dynamic")

    def test_a_full_disk(self):
        """A small file system of its own: refused before work, and filled up during work."""
        inside = os.environ.get("ROWSCALE_SMALL_DISK")
        if not inside:
            disk = self.folder / "disk"
            disk.mkdir()
            script = f'mount -t tmpfs -o size=48m none "{disk}" && exec "$@"'
            test = "Room.test_a_full_disk"
            mounted = subprocess.run(
                ["unshare", "-rm", "sh", "-c", script, "sh", "true"], capture_output=True, check=False
            )
            if mounted.returncode != 0:
                self.skipTest("no file system can be mounted in a namespace of its own here")
            done = subprocess.run(
                ["unshare", "-rm", "sh", "-c", script, "sh"]
                + [sys.executable, "-B", __file__, self.rowscale, test],
                env={**os.environ, "ROWSCALE_SMALL_DISK": str(disk)},
                capture_output=True,
                text=True,
                check=False,
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            return
        disk = pathlib.Path(inside)
        self.folder, self.out = disk, disk / "out"
        filler = disk / "filler"
        filler.write_bytes(bytes(30 * MIB))
        done = self.run_to(4, self.single, "--scheme", "fp8-dynamic")
        self.assertIn("expected room for", done.stderr)
        self.assertEqual(os.listdir(disk), ["filler"])
        filler.unlink()

        process = self.start(self.single, "--scheme", "fp8-tensor")
        journal = disk / ".out.rowscale" / ".rowscale-journal"
        while process.poll() is None and not journal.exists():
            pass
        os.kill(process.pid, signal.SIGSTOP)
        try:
            with open(filler, "wb") as stream:
                while True:
                    stream.write(bytes(4096))
                    stream.flush()
        except OSError:
            pass
        os.kill(process.pid, signal.SIGCONT)
        _, said = process.communicate()
        if process.returncode != 0:  # its room may have been taken before the disk was full
            self.assertEqual(process.returncode, 4, said)
            self.assertIn("No space left", said)
            self.assertFalse(self.out.exists())
            filler.unlink()
            self.run_to(0, self.single, "--scheme", "fp8-tensor", "--resume")
        else:
            filler.unlink()
        self.assert_complete(self.single, "fp8-tensor")


if __name__ == "__main__":
    Case.rowscale = sys.argv.pop(1)
    unittest.main(verbosity=1)
