"""An outside project finds the installed package, builds the C and the C++ example, and runs them.

The package is moved after its installation: nothing in it may know where it was built or put.
"""

import argparse
import os
import re
import shutil
import subprocess
import tempfile

import house


def run(command, problems, **keywords):
    """What the command printed; a failure becomes a problem, and None."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          stdin=subprocess.DEVNULL, check=False, **keywords)
    if done.returncode != 0:
        problems.append(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout}")
        return None
    return done.stdout


def build_and_run(arguments, folder, problems):
    staged, prefix = os.path.join(folder, "staged"), os.path.join(folder, "moved here")
    if run([arguments.cmake, "--install", arguments.build, "--prefix", staged], problems) is None:
        return
    os.rename(staged, prefix)
    project, build = os.path.join(folder, "project"), os.path.join(folder, "build")
    shutil.copytree(os.path.join(house.ROOT, "examples"), project)
    configure = [arguments.cmake, "-S", project, "-B", build, "-G", arguments.generator,
                 "-DCMAKE_PREFIX_PATH=" + prefix, "-DCMAKE_C_COMPILER=" + arguments.cc,
                 "-DCMAKE_CXX_COMPILER=" + arguments.cxx]
    if run(configure, problems) is None or run([arguments.cmake, "--build", build], problems) is None:
        return
    for example in ("quantize_c", "quantize_cpp", "attention_output", "norm_and_activation", "matmul",
                    "linear"):
        said = run([os.path.join(build, example)], problems)
        if said is not None and not re.search(r"^largest error of a value: \d", said, re.MULTILINE):
            problems.append(f"{example} printed\n{said}")
    command = os.path.join(prefix, "bin", "rowscale")
    if os.path.exists(command):
        said = run([command, "--version"], problems)
        version = re.search(r"project\(rowscale VERSION (\S+)", house.read("CMakeLists.txt")).group(1)
        if said is not None and version not in said:
            problems.append(f"rowscale --version printed {said!r}, expected {version}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("cmake", "build", "generator", "cc", "cxx"):
        parser.add_argument("--" + name, required=True)
    problems = []
    with tempfile.TemporaryDirectory(prefix="rowscale-outside-") as folder:
        build_and_run(parser.parse_args(), folder, problems)
    house.finish(problems)


if __name__ == "__main__":
    main()
