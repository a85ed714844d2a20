#!/usr/bin/env python3
"""Runs the tests on mutants: each must fail, and the program without a mutation must pass before.

In a folder that scripts/matmul-mutations filled:

    FOLDER/run OUT.csv

prints a line a mutant and writes OUT.csv. Exit: 0 all were killed; 1 one survived or could not be judged; 2 bad
argument; 5 nothing could be run here. Python's standard library only.
"""

import argparse
import csv
import json
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass

LIST = "mutants.json"
ORIGINAL = "unmutated"  # beside the mutants, which have their mutation's name
SECONDS = 300  # that a program may take
KILLED, SURVIVED, SKIPPED, BROKEN = "killed", "SURVIVED", "skipped", "BROKEN"


@dataclass(frozen=True)
class Verdict:
    state: str
    why: str = ""  # the first failing test, or the reason


def run_tests(program, tests):
    """(exit status, output); the status is None where the time was up."""
    try:
        done = subprocess.run([program, f"--gtest_filter={tests}", "--gtest_fail_fast", "--gtest_color=no"],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=SECONDS, check=False, text=True, errors="replace")
    except subprocess.TimeoutExpired:
        return None, ""
    except OSError as error:
        return 127, str(error)
    return done.returncode, done.stdout


def last_line(output):
    lines = output.strip().splitlines()
    return lines[-1][:200] if lines else "no output"


def judge_original(program, tests):
    """None where a mutant's failure means something: the same tests pass without a mutation. Else why not."""
    status, output = run_tests(program, tests)
    if status is None:
        return Verdict(BROKEN, f"without a mutation {tests} takes more than {SECONDS} s")
    if status != 0:
        return Verdict(BROKEN, f"without a mutation {tests} fails too: {last_line(output)}")
    if re.search(r"^\[       OK \]", output, re.MULTILINE):
        return None
    reason = re.search(r": Skipped\n+(?!\[)(.*)", output)
    if reason:
        return Verdict(SKIPPED, reason.group(1).strip())
    return Verdict(BROKEN, f"{tests} selects no test of {os.path.basename(program)}")


def judge(program, tests):
    """Of a mutant. A failure that no test names is none: the program may not have begun."""
    status, output = run_tests(program, tests)
    if status is None:
        return Verdict(BROKEN, f"did not end within {SECONDS} s")
    if status == 0:
        return Verdict(SURVIVED, f"{tests} passes")
    failed = re.search(r"^\[  FAILED  \] ([^\s,]+)", output, re.MULTILINE)
    if failed:
        return Verdict(KILLED, failed.group(1))
    begun = re.findall(r"^\[ RUN      \] (\S+)", output, re.MULTILINE)
    if begun and status < 0:
        return Verdict(KILLED, f"{begun[-1]}, by signal {-status}")
    return Verdict(BROKEN, f"exit {status}: {last_line(output)}")


class Report:
    """Prints a line a mutant, then the counts."""

    def __init__(self):
        self.rows = []

    def add(self, name, verdict, begin):
        self.rows.append((name, verdict.state, verdict.why, f"{time.monotonic() - begin:.1f}"))
        print(f"{verdict.state:<9} {name}" + (f"  ({verdict.why})" if verdict.why else ""), flush=True)

    def write(self, path):
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["mutation", "state", "why", "seconds"])
            writer.writerows(self.rows)

    def end(self):
        """The exit status."""
        count = {state: sum(row[1] == state for row in self.rows) for state in (KILLED, SURVIVED, SKIPPED, BROKEN)}
        more = "".join(f", {count[state]} {state.lower()}" for state in (SKIPPED, BROKEN) if count[state])
        print(f"{count[KILLED]} killed, {count[SURVIVED]} survived{more}")
        if count[SURVIVED] or count[BROKEN]:
            return 1
        return 0 if count[KILLED] else 5


def main():
    parser = argparse.ArgumentParser(prog="run", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", metavar="OUT.csv")
    arguments = parser.parse_args()
    here = os.path.dirname(os.path.abspath(__file__))
    try:
        with open(os.path.join(here, LIST), encoding="utf-8") as file:
            mutants = json.load(file)
    except OSError as error:
        parser.error(f"no list of mutants beside this script: {error}")
    report, originals = Report(), {}
    for mutant in mutants:
        begin, tests = time.monotonic(), mutant["tests"]
        if tests not in originals:
            originals[tests] = judge_original(os.path.join(here, ORIGINAL), tests)
        verdict = originals[tests] or judge(os.path.join(here, mutant["name"]), tests)
        report.add(mutant["name"], verdict, begin)
    report.write(arguments.out)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
