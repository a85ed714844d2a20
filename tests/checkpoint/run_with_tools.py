"""Runs a script of this folder with the Python of scripts/install-deps, which has numpy.

    run_with_tools.py SCRIPT ARGUMENT...

Exit 77 and a reason where that Python is not installed.
"""

import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
INSTALL = os.path.join(HERE, "..", "..", "scripts", "install-deps")


def main():
    tools = subprocess.run(
        [INSTALL, "--tools-path"], capture_output=True, text=True, check=True
    ).stdout.strip()
    if not os.path.exists(os.path.join(tools, "complete")):
        print("skipped: the Python tools are not installed (scripts/install-deps)")
        return 77
    script = os.path.join(HERE, sys.argv[1])
    return subprocess.run(
        [os.path.join(tools, "bin", "python"), "-B", script, *sys.argv[2:]], check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
