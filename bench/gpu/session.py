"""What the programs that time rowscale beside others share: options, set-up, progress, files, verdict."""

import argparse
import gc
import os
import sys
import time

import torch

from baselines import Baselines
from cold_graphs import Timer
from records import HEADER, machine, write_csv
from rowscale_c import Library

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def read_arguments(text, tokens, hidden, sections):
    """text: of the help; the others: what is measured where nothing is asked for."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", default=os.path.join(ROOT, "build/cuda/src/librowscale.so"))
    parser.add_argument("--baselines", default=os.path.join(ROOT, "build/cuda/bench/gpu/librowscale_baselines.so"))
    parser.add_argument("--out", required=True, help="folder of the CSV files")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--tokens", type=int, nargs="+", default=tokens)
    parser.add_argument("--hidden", type=int, nargs="+", default=hidden)
    parser.add_argument("--only", nargs="+", choices=sections, default=sections)
    return parser.parse_args()


class Session:
    """The library, a timer, and what is said and written of the measurement."""

    def __init__(self, arguments):
        self.arguments, self.begin = arguments, time.monotonic()
        gc.disable()  # nothing may be freed while a graph is captured
        torch.manual_seed(20240229)
        self.library = Library(arguments.library)
        self.timer = Timer(Baselines(arguments.baselines), arguments.rounds)

    def wants(self, section):
        return section in self.arguments.only

    def progress(self, section):
        print(f"{section}: done at {time.monotonic() - self.begin:.0f} s", file=sys.stderr, flush=True)

    def machine(self):
        """Asked for behind work, because the clock should be that of a GPU at work."""
        return machine(self.library)

    def write(self, about, rows_file, rows, goals_file, verdicts):
        out = self.arguments.out
        os.makedirs(out, exist_ok=True)
        write_csv(os.path.join(out, rows_file), about, HEADER, rows)
        write_csv(os.path.join(out, goals_file), about, ["goal", "figure", "sign", "bound", "where", "verdict"],
                  [[v.goal, f"{v.figure:.4f}", v.sign, v.bound, v.where, v.word] for v in verdicts])
        print("; ".join(f"{title} {value}" for title, value in about.items()))


def status_of(verdicts):
    """The exit status: 1 where a goal was missed."""
    return 0 if all(verdict.reached for verdict in verdicts) else 1
