"""Converts models with each scheme, has every reader load the results, and holds the tables of
docs/compatibility.md to what came. Run by scripts/check-readers, with the Python of the tools.

    compare.py --rowscale COMMAND --library LIBRARY --readers FOLDER [--vllm FOLDER] [--update]

FOLDER: as scripts/install-deps --readers-path and --vllm-path print them; without --vllm the table of vLLM
is left as it is. Exit: 0 the page has these tables and no reader has other weights; 1 otherwise.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass

from reading import WRONG

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PAGE = os.path.join(ROOT, "docs", "compatibility.md")
GENERATED = ["llama_even", "llama", "qwen2", "mixtral", "qwen3_moe_even"]
SCHEMES = ["fp8-dynamic", "fp8-block", "fp8-tensor"]
NUMERICS = ["compressed-tensors", "precise"]


@dataclass
class Reader:
    """One program in one environment: a column of a table."""

    packages: list[str]  # named with their versions in the column's head
    script: str
    arguments: list[str]
    path: list[str]  # folders that stand before the environment's own modules

    def run(self, python, *command):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(self.path)}
        return subprocess.run(
            [python, "-B", *command], env=environment, capture_output=True, text=True, check=False
        )

    def versions(self, python):
        script = "import importlib.metadata as m, sys; print(*(p + ' ' + m.version(p) for p in sys.argv[1:]), sep=', ')"
        done = self.run(python, "-c", script, *self.packages)
        if done.returncode != 0:
            raise SystemExit(f"check-readers: no versions of {self.packages}: {done.stderr.strip()}")
        return done.stdout.strip()

    def read(self, python, folders):
        """What the reader makes of each folder."""
        done = self.run(python, os.path.join(HERE, self.script), *self.arguments, *folders)
        lines = (line.split("\t", 1) for line in done.stdout.splitlines() if "\t" in line)
        said = {folder: result for folder, result in lines if folder in folders}
        last = (done.stderr.strip().splitlines() or [""])[-1]
        return {folder: said.get(folder, f"no result: {last}") for folder in folders}


def transformers_readers(library, folder):
    packages = ["transformers", "compressed-tensors", "torch"]
    paths = [[], [os.path.join(folder, "old")]]
    return [Reader(packages, "read_transformers.py", [library], path) for path in paths]


def vllm_readers(folder, readers):
    packages = ["vllm", "compressed-tensors", "transformers", "torch"]
    imports, old_readers = os.path.join(folder, "imports"), os.path.join(readers, "old")
    paths = [[os.path.join(folder, "new"), imports]]
    paths += [[os.path.join(folder, name), old_readers, imports] for name in ("old", "oldest")]
    return [Reader(packages, "read_vllm.py", [], path) for path in paths]


@dataclass
class Conversion:
    model: str
    scheme: str
    numerics: str
    folder: str
    refusal: str  # empty where there is a folder


def models(scratch):
    """Name in the table -> folder."""
    out = {}
    for kind in GENERATED:
        out[f"{kind}, generated"] = os.path.join(scratch, kind)
        make = os.path.join(ROOT, "tests", "checkpoint", "make_checkpoints.py")
        subprocess.run([sys.executable, "-B", make, kind, os.path.join(scratch, kind)], check=True)
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    published = os.path.join(cache, "rowscale", "demo", "all-MiniLM-L6-v2")
    if os.path.isdir(published):
        out["all-MiniLM-L6-v2, published"] = published
    else:
        print("check-readers: all-MiniLM-L6-v2 is left out: ./demo fetches it", file=sys.stderr)
    return out


def convert(command, sources, scratch):
    conversions = []
    for model, source in sources.items():
        for scheme in SCHEMES:
            for numerics in NUMERICS:
                folder = os.path.join(scratch, f"{os.path.basename(source)}-{scheme}-{numerics}")
                options = ["--scheme", scheme, "--numerics", numerics, "--quiet"]
                done = subprocess.run(
                    [command, "quantize", source, folder, *options], capture_output=True, text=True, check=False
                )
                refusal = "" if done.returncode == 0 else "not converted: " + done.stderr.strip().splitlines()[-1]
                conversions.append(Conversion(model, scheme, numerics, folder, refusal))
    return conversions


def table(conversions, readers, python):
    folders = [c.folder for c in conversions if not c.refusal]
    columns = [reader.read(python, folders) for reader in readers]
    lines = [row("model", "conversion", *(reader.versions(python) for reader in readers))]
    lines.append("|---" * (2 + len(readers)) + "|")
    rows = [[c.refusal or column[c.folder] for column in columns] for c in conversions]
    # The two numerics of a scheme follow each other, and are one row where the readers say the same.
    for first, second, cells, others in zip(conversions[::2], conversions[1::2], rows[::2], rows[1::2]):
        if cells == others:
            lines.append(row(first.model, f"{first.scheme}, either numerics", *cells))
        else:
            lines.append(row(first.model, f"{first.scheme}, {first.numerics}", *cells))
            lines.append(row(second.model, f"{second.scheme}, {second.numerics}", *others))
    return "\n".join(lines) + "\n"


def row(*cells):
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def hold_page(name, new, update):
    """Whether the page has this table now."""
    with open(PAGE, encoding="utf-8") as page:
        text = page.read()
    before, rest = text.split(f"<!-- check-readers: {name} -->\n")
    old, after = rest.split("<!-- end -->\n", 1)
    if update:
        with open(PAGE, "w", encoding="utf-8") as page:
            page.write(f"{before}<!-- check-readers: {name} -->\n{new}<!-- end -->\n{after}")
    elif old != new:
        print(f"check-readers: docs/compatibility.md has another table of {name}; --update writes this one")
    return update or old == new


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rowscale", required=True)
    parser.add_argument("--library", required=True)
    parser.add_argument("--readers", required=True)
    parser.add_argument("--vllm")
    parser.add_argument("--update", action="store_true")
    arguments = parser.parse_args()

    kinds = {"transformers": transformers_readers(arguments.library, arguments.readers)}
    if arguments.vllm:
        kinds["vLLM"] = vllm_readers(arguments.vllm, arguments.readers)
    python = os.path.join(arguments.readers, "bin", "python")
    good = True
    with tempfile.TemporaryDirectory() as scratch:
        conversions = convert(arguments.rowscale, models(scratch), scratch)
        for name, readers in kinds.items():
            text = table(conversions, readers, python)
            print(text, flush=True)
            good = hold_page(name, text, arguments.update) and WRONG not in text and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
