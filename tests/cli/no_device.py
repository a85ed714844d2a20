"""Where there is no GPU, what needs one ends with exit code 5, one line on stderr and no output."""

import glob
import subprocess
import sys

DEVICE_COMMANDS = (["bench", "quantize", "--device", "cuda"], ["bench", "dequantize", "--device", "cuda"],
                   ["bench", "quantize", "--device", "cuda", "--calls"], ["bench", "fused", "--device", "cuda"],
                   ["bench", "matmul", "--device", "cuda"],
                   ["quantize", "no-model", "no-output", "--scheme", "fp8-dynamic", "--device", "cuda"])
USAGE_COMMANDS = (["bench", "quantize", "--tokens", "4"], ["bench", "quantize", "--hidden", "64,128"],
                  ["bench", "quantize", "--device", "cuda", "--threads", "2"], ["bench", "quantize", "--device", "tpu"],
                  ["bench", "fused", "--source", "softmax"], ["bench", "fused", "--tokens", "4"],
                  ["bench", "matmul", "--shapes", "4096"], ["bench", "matmul", "--scales", "row"],
                  ["bench", "matmul", "--parts", "calls"], ["bench", "matmul", "--top-k", "2"],
                  ["bench", "matmul", "--backend", "cutlass"])


def run(command, *arguments):
    return subprocess.run([command, *arguments], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)


def main():
    command, problems = sys.argv[1], []
    has_kernels = "cuda compiler: none" not in run(command, "--version").stdout
    for arguments in USAGE_COMMANDS:
        done = run(command, *arguments)
        if done.returncode != 2:
            problems.append(f"{arguments}: exit {done.returncode}, expected 2: {done.stderr}")
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
