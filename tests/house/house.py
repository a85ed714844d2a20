"""What the tests of the house share."""

import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def exists(path):
    return os.path.exists(os.path.join(ROOT, path))


def files(*endings):
    """Files of the repository, tracked or new, with one of the endings; sorted."""
    try:
        listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                                cwd=ROOT, capture_output=True, text=True, check=True).stdout
        names = [name for name in listed.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):  # no checkout: an unpacked archive
        names = [os.path.relpath(os.path.join(folder, name), ROOT)
                 for folder, _, inside in os.walk(ROOT) for name in inside]
        names = [name for name in names if not name.startswith(("build/", ".git/"))]
    return sorted(name for name in set(names) if name.endswith(endings) and exists(name))


def prose(path):
    """(line number, line) of a Markdown file, without its fenced code."""
    fenced = False
    for number, line in enumerate(read(path).splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield number, line


def table_cells(line):
    """The cells of a Markdown table's row; none for its ruler and for other lines."""
    if not line.startswith("|") or re.fullmatch(r"[|\s:-]+", line):
        return []
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def finish(problems):
    """Prints each problem and ends the test."""
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)
