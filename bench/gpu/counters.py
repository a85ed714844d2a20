#!/usr/bin/env python3
"""Reads a GPU's hardware counters for some calls, with Nsight Compute; its caches are emptied before each kernel.

    counters.py --rowscale PROGRAM --out DIR

Writes DIR/gpu-counters.csv: a line a metric of each kernel. The calls are those whose time says least by itself:
few tokens, scales in single bytes, one scale for a tensor, each beside one that reaches its goal.

Exit: 0 done; 1 ncu failed; 5 there is no ncu, or it may not read counters here. Python's standard library only.
"""

import argparse
import csv
import glob
import os
import re
import shutil
import subprocess
import sys

# tokens, hidden, recipe
CASES = (
    (1, 7168, "per_group(128)"),
    (1, 8192, "per_token"),
    (16, 2048, "per_group(128)"),
    (512, 7168, "per_group(128)"),
    (512, 7168, "per_token"),
    (4096, 7168, "per_group(128)"),
    (4096, 7168, "per_group(128) encoding=ue8m0_packed"),
    (4096, 7168, "per_group(128) encoding=ue8m0 layout=column_major_tma"),
    (4096, 7168, "per_tensor"),
)
SECTIONS = ("SpeedOfLight", "LaunchStats", "Occupancy", "SchedulerStats", "WarpStateStats", "MemoryWorkloadAnalysis",
            "InstructionStats")
COLUMNS = ("tokens", "hidden", "recipe", "kernel", "section", "metric", "unit", "value")
REFUSED = re.compile(r"ERR_NVGPUCTRPERM|LibraryNotLoaded|[Ff]ailed to initialize the profiler|not supported")


def find_ncu():
    places = [shutil.which("ncu"), "/usr/local/cuda/bin/ncu", *sorted(glob.glob("/opt/nvidia/nsight-compute/*/ncu"))]
    return next((path for path in places if path and os.path.exists(path)), None)


def stop(status, text):
    print(f"counters: {text}")
    sys.exit(status)


def profile(ncu, rowscale, tokens, hidden, recipe):
    """Rows of the last call of a warm program: (kernel, section, metric, unit, value)."""
    kernels = 2 if recipe == "per_tensor" else 1
    command = [ncu, "--clock-control", "none", "--csv", "--page", "details", "--kernel-name", "regex:quantize|absmax",
               "--launch-skip", str(4 * kernels), "--launch-count", str(kernels)]
    for section in SECTIONS:
        command += ["--section", section]
    command += [rowscale, "bench", "quantize", "--device", "cuda", "--tokens", str(tokens), "--hidden",
                str(hidden), "--recipe", recipe, "--repeat", "1"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith('"')]
    if done.returncode != 0 or not lines:
        said = " ".join(done.stdout.split())[-400:]
        stop(5 if REFUSED.search(done.stdout) else 1, f"{tokens} x {hidden} {recipe}: ncu ended with {done.returncode}: {said}")
    return [(row["Kernel Name"], row["Section Name"], row["Metric Name"], row["Metric Unit"], row["Metric Value"])
            for row in csv.DictReader(lines) if row.get("Metric Name")]


def main():
    parser = argparse.ArgumentParser(prog="counters.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rowscale", required=True, metavar="PROGRAM")
    parser.add_argument("--out", required=True, metavar="DIR")
    arguments = parser.parse_args()
    ncu = find_ncu()
    if ncu is None:
        stop(5, "ncu was not found")
    lines = 0
    with open(os.path.join(arguments.out, "gpu-counters.csv"), "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for tokens, hidden, recipe in CASES:
            for row in profile(ncu, arguments.rowscale, tokens, hidden, recipe):
                writer.writerow((tokens, hidden, recipe, *row))
                lines += 1
            file.flush()
    print(f"{len(CASES)} calls, {lines} lines in gpu-counters.csv")


if __name__ == "__main__":
    main()
