"""What a command refuses before it works: a GPU that is not there, with exit code 5, one line on stderr and no
output; bad options; for a benchmark memory and files that it cannot have."""

import glob
import os
import subprocess
import sys
import tempfile

DEVICE_COMMANDS = (["bench", "quantize", "--device", "cuda"], ["bench", "dequantize", "--device", "cuda"],
                   ["bench", "quantize", "--device", "cuda", "--calls"], ["bench", "fused", "--device", "cuda"],
                   ["bench", "matmul", "--device", "cuda"],
                   ["quantize", "no-model", "no-output", "--scheme", "fp8-dynamic", "--device", "cuda"])
USAGE_COMMANDS = (["bench", "quantize", "--tokens", "4"], ["bench", "quantize", "--hidden", "64,128"],
                  ["bench", "quantize", "--device", "tpu"], ["bench", "fused", "--dtype", "bf16,f16"],
                  ["bench", "fused", "--source", "softmax"], ["bench", "fused", "--tokens", "4"],
                  ["bench", "matmul", "--shapes", "4096"], ["bench", "matmul", "--scales", "row"],
                  ["bench", "matmul", "--parts", "calls"], ["bench", "matmul", "--top-k", "2"],
                  ["bench", "matmul", "--backend", "cutlass"])


# Of a GPU, with an option that only the CPU knows: what is complained of first.
CPU_OPTIONS = ["--threads", "2"], ["--mib", "4"], ["--target", "best"]
BENCHES = "quantize", "dequantize", "fused"


def run(command, *arguments):
    return subprocess.run([command, *arguments], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)


def too_large(command, bench):
    """A tensor of 1 TiB is refused before memory is taken for it, in one line."""
    if os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") > 1 << 40:
        return []  # a machine that has it
    done = run(command, "bench", bench, "--mib", str(1 << 20))
    if done.returncode != 4 or done.stderr.count("\n") != 1 or "MiB of memory are needed" not in done.stderr:
        return [f"bench {bench} of 1 TiB: exit {done.returncode}: {done.stderr}"]
    return []


def files_first(command, bench):
    """A file that cannot be written ends a benchmark before it prints or measures."""
    problems = []
    with tempfile.TemporaryDirectory(prefix="rowscale-bench-") as folder:
        for path in folder, os.path.join(folder, "none", "file"), os.path.join(sys.argv[1], "file"):
            for option in "--csv", "--svg":
                done = run(command, "bench", bench, "--mib", "1", "--repeat", "1", option, path)
                if done.returncode != 4 or done.stdout or f"{path}: cannot be written" not in done.stderr:
                    problems.append(f"bench {bench} {option} {path}: exit {done.returncode}: {done.stderr}")
        wanted = os.path.join(folder, "wanted.csv")
        done = run(command, "bench", bench, "--mib", "1", "--repeat", "1", "--csv", wanted)
        if done.returncode != 0 or not os.path.getsize(wanted):
            problems.append(f"bench {bench} --csv: exit {done.returncode}: {done.stderr}")
    return problems


def main():
    command, problems = sys.argv[1], []
    has_kernels = "cuda compiler: none" not in run(command, "--version").stdout
    for arguments in USAGE_COMMANDS:
        done = run(command, *arguments)
        if done.returncode != 2:
            problems.append(f"{arguments}: exit {done.returncode}, expected 2: {done.stderr}")
    for bench in BENCHES:
        for option in CPU_OPTIONS:
            done = run(command, "bench", bench, "--device", "cuda", *option)
            said = f"{option[0]}: only with --device cpu" if has_kernels else "no CUDA kernels"
            if done.returncode != (2 if has_kernels else 5) or said not in done.stderr:
                problems.append(f"bench {bench} {option}: exit {done.returncode}: {done.stderr}")
        problems += too_large(command, bench) + files_first(command, bench)
    listed = run(command, "list-kernels")
    if listed.returncode != (0 if has_kernels else 5) or bool(listed.stdout) != has_kernels:
        problems.append(f"list-kernels: exit {listed.returncode}: {listed.stdout}{listed.stderr}")
    for arguments in DEVICE_COMMANDS if not glob.glob("/dev/nvidia[0-9]*") else ():
        done = run(command, *arguments)
        if done.returncode != 5 or done.stdout or done.stderr.count("\n") != 1 or "cuda" not in done.stderr:
            problems.append(f"{arguments}: exit {done.returncode}, {done.stdout!r}, {done.stderr!r}")
    print("\n".join(problems))
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
