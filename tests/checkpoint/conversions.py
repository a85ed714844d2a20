"""Runs of rowscale quantize that are to end, and their results against the models of the casts."""

import numpy as np

import command
import folder


class Case(command.Case):
    def convert(self, *options, code=0, source=None, out=None):
        done = command.run("quantize", source or self.source, out or self.out, *options)
        self.assertEqual(done.returncode, code, f"{options}\n{done.stdout}\n{done.stderr}")
        return done

    def assert_tensors(self, wanted, out=None):
        got = folder.Checkpoint(out or self.out)
        self.assertEqual(sorted(wanted), sorted(got))
        for name, array in wanted.items():
            found = got[name]
            self.assertEqual((found.dtype, found.shape), (array.dtype, array.shape), name)
            a, b = np.frombuffer(found.tobytes(), np.uint8), np.frombuffer(array.tobytes(), np.uint8)
            different = np.flatnonzero(a != b)
            self.assertEqual(
                different.size,
                0,
                f"{name} {array.dtype}: {different.size} bytes differ, first at {different[:1]}",
            )
