"""The shared library exports the symbols of exported_symbols.txt, all of them rs_* or rowscale::*.

    python3 exported_symbols.py LIBRARY            compares
    python3 exported_symbols.py LIBRARY --update   writes the file: a new symbol is a promise
"""

import os
import subprocess
import sys

import house

LIST = os.path.join("tests", "house", "exported_symbols.txt")


def exported(library):
    """Demangled names, sorted. Versions of binutils differ in how they space closing brackets."""
    lines = subprocess.run(["nm", "-D", "--defined-only", "--demangle", library], capture_output=True,
                           text=True, check=True, env=dict(os.environ, LC_ALL="C")).stdout.splitlines()
    names = {line.split(" ", 2)[2] for line in lines}
    return sorted(name.replace("> >", ">>").replace("> >", ">>") for name in names)


def main():
    library = sys.argv[1]
    if not library.endswith(".so") and ".so." not in library:
        house.skip("this build has no shared library")
    names = exported(library)
    problems = [f"{name}: exported, but neither rs_* nor rowscale::*"
                for name in names if not name.startswith(("rs_", "rowscale::"))]
    if "--update" in sys.argv and not problems:
        with open(os.path.join(house.ROOT, LIST), "w", encoding="utf-8") as file:
            file.writelines(name + "\n" for name in names)
        return
    expected = house.read(LIST).splitlines() if house.exists(LIST) else []
    problems += [f"{name}: in {LIST}, but no longer exported" for name in expected if name not in names]
    problems += [f"{name}: exported, but not in {LIST} (add it with --update)"
                 for name in names if name not in expected]
    if not names:
        problems.append(f"{library} exports nothing")
    house.finish(problems)


if __name__ == "__main__":
    main()
