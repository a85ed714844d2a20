"""The lists of mutations fit the code and the tests, and judge.py tells a killed mutant from others.

Each mutation's old text is in its file exactly once, and differs from the new one; names are those of files and
stand once; each part of a filter is a test that some program has. The judgement is held to small programs
that end and print as a test program of GoogleTest would.
"""

import os
import sys
import tempfile

import house
from evidence import defined_tests, shown

sys.path.insert(0, os.path.join(house.ROOT, "scripts", "mutations"))

import judge
import matmul_cpu
import matmul_cuda
from mutation import Moved

RUN, OK, FAILED = "[ RUN      ] S.A", "[       OK ] S.A (1 ms)", "[  FAILED  ] S.A (1 ms)"
SKIP = "t.cpp:7: Skipped\nno CUDA device\n\n[  SKIPPED ] S.A (0 ms)"
# What a mutant prints and how it ends; what is made of it.
MUTANTS = [
    (f"{RUN}\n{FAILED}", "exit 1", judge.Verdict(judge.KILLED, "S.A")),
    (f"{RUN}\n{OK}", "exit 0", judge.Verdict(judge.SURVIVED, "S.*")),
    (RUN, "kill -SEGV $$", judge.Verdict(judge.KILLED, "S.A, by signal 11")),
    ("", "kill -SEGV $$", judge.Verdict(judge.BROKEN, "exit -11")),
    ("cannot open shared object file", "exit 127", judge.Verdict(judge.BROKEN, "exit 127")),
]
# The same of the program without a mutation; None: it may be compared with.
ORIGINALS = [
    (f"{RUN}\n{OK}", "exit 0", None),
    (f"{RUN}\n{FAILED}", "exit 1", judge.BROKEN),
    (f"{RUN}\n{SKIP}", "exit 0", judge.SKIPPED),
    ("[  PASSED  ] 0 tests.", "exit 0", judge.BROKEN),
]


def check_lists(problems):
    mutations = matmul_cpu.MUTATIONS + matmul_cuda.MUTATIONS
    names, tests = [mutation.name for mutation in mutations], defined_tests()
    problems += [f"{name} stands twice" for name in sorted(set(names)) if names.count(name) > 1]
    problems += [f"matmul_cpu.FAST: {name} is no mutation" for name in matmul_cpu.FAST if name not in names]
    for mutation in mutations:
        if not mutation.name.replace("-", "").replace("_", "").isalnum():
            problems.append(f"{mutation.name}: expected letters, digits, - and _")
        try:
            text = house.read(mutation.file)
            if mutation.of(text) == text:
                problems.append(f"{mutation.name}: changes nothing")
        except (Moved, OSError) as problem:
            problems.append(f"{problem}")
        problems += [f"{mutation.name}: no test is called {part}"
                     for part in mutation.tests.split(":") if not shown(part, tests)]


def program(folder, said, end):
    path = os.path.join(folder, "program")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"#!/bin/sh\ncat <<'END'\n{said}\nEND\n{end}\n")
    os.chmod(path, 0o755)
    return path


def check_judgement(problems):
    with tempfile.TemporaryDirectory() as folder:
        for said, end, expected in MUTANTS:
            got = judge.judge(program(folder, said, end), "S.*")
            if got.state != expected.state or not got.why.startswith(expected.why):
                problems.append(f"judge: {said!r}, {end}: expected {expected}, got {got}")
        for said, end, expected in ORIGINALS:
            got = judge.judge_original(program(folder, said, end), "S.*")
            if (got and got.state) != expected:
                problems.append(f"judge_original: {said!r}, {end}: expected {expected}, got {got}")


def main():
    problems = []
    check_lists(problems)
    check_judgement(problems)
    house.finish(problems)


if __name__ == "__main__":
    main()
