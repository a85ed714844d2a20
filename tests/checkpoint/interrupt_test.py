"""rowscale quantize, disturbed: kills, signals, a full disk, limits, two runs at once, changed files.

Whatever happens, OUT is complete or not there, and --resume ends with the bytes of an undisturbed run.

interrupt_test.py ROWSCALE [unittest arguments]
"""

import json
import os
import pathlib
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import make_checkpoints
import models

ROWSCALE = ""
MIB = 1 << 20
SCHEMES = ("fp8-dynamic", "fp8-block", "fp8-tensor")


def files_of(path):
    return {str(p.relative_to(path)): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}


class Case(unittest.TestCase):
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
        return [ROWSCALE, "quantize", str(source), str(out or self.out), "--quiet", *options]

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
                work = self.folder / ".out.rowscale" / "model.safetensors.rowscale-part"
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
                again = subprocess.run([ROWSCALE, *command[1:]], capture_output=True, text=True, check=False)
                self.assertEqual(again.returncode, 0, again.stderr)
                self.assert_complete(source, "fp8-block")
                shutil.rmtree(self.out)
                stopped = True
                break
            self.assertTrue(stopped, f"{number}: every run was quicker than the signal")

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
            (("--scheme", "fp8-block"), 'scheme: was "fp8-tensor", is "fp8-block"'),
            (("--scheme", "fp8-tensor", "--numerics", "precise"), "numerics"),
            (("--scheme", "fp8-tensor", "--ignore", "re:.*down_proj"), "ignore"),
            (("--scheme", "fp8-tensor", "--card"), "card"),
        ):
            self.assertIn(word, self.run_to(2, source, *options, "--resume").stderr)
        shard = source / "model.safetensors"
        os.utime(shard, ns=(1, 1))
        self.assertIn(
            "source.model.safetensors", self.run_to(2, source, "--scheme", "fp8-tensor", "--resume").stderr
        )

    def test_a_damaged_part_is_made_anew(self):
        """As after a power failure that lost what the journal promised."""
        source = self.single
        self.stop_early(source, "--scheme", "fp8-dynamic")
        part = self.folder / ".out.rowscale" / "model.safetensors.rowscale-part"
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
        verify = [ROWSCALE, "verify", str(self.out), "--against", str(self.large)]
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
        self.assertIn("source.tokenizer.json", done.stderr)
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
        shard.rename(f"{shard}.rowscale-part")
        journal = self.work / ".rowscale-journal"
        line = {"part": shard.name, "tensors": 4_000_000_000, "cursor": 0, "prefix": "", "tail": ""}
        header = journal.read_text().partition("\n")[0]
        journal.write_text(f"{header}\n{json.dumps(line)}\n")
        self.resume()


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

    def test_a_shard_that_changes_while_it_is_read(self):
        model = self.folder / "model"
        shutil.copytree(self.single, model)
        shard = model / "model.safetensors"
        process = self.start(model, "--scheme", "fp8-tensor")
        part = self.folder / ".out.rowscale" / "model.safetensors.rowscale-part"
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
                ["unshare", "-rm", "sh", "-c", script, "sh", sys.executable, "-B", __file__, ROWSCALE, test],
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
    ROWSCALE = sys.argv.pop(1)
    unittest.main(verbosity=1)
