"""Writes the golden files, or with --check compares them with what the model gives now.

python make_golden.py            write data/*.safetensors
python make_golden.py --check    exit 1 and name every file that differs
"""

import argparse
import os
import sys

import cases_bugs
import cases_other
import cases_producers
import cases_quantize
import cases_vllm
import check_model
import check_reports
from case_builder import Builder
from container import serialize

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")


def generate():
    """File name -> bytes, for every case."""
    builder = Builder()
    for family in (cases_quantize, cases_bugs, cases_other, cases_producers, cases_vllm):
        family.build(builder)
    return {c.name + ".safetensors": serialize(c.tensors, c.metadata) for c in builder.cases.values()}


def committed():
    if not os.path.isdir(DATA):
        return {}
    files = {}
    for name in os.listdir(DATA):
        with open(os.path.join(DATA, name), "rb") as file:
            files[name] = file.read()
    return files


def write(files):
    os.makedirs(DATA, exist_ok=True)
    for name in set(os.listdir(DATA)) - set(files):
        os.remove(os.path.join(DATA, name))
    for name, data in files.items():
        with open(os.path.join(DATA, name), "wb") as file:
            file.write(data)


def differences(expected, found):
    for name in sorted(expected.keys() | found.keys()):
        if name not in found:
            yield f"{name}: missing"
        elif name not in expected:
            yield f"{name}: no such case"
        elif expected[name] != found[name]:
            yield f"{name}: differs"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--check", action="store_true", help="compare with the files in data/ and write nothing"
    )
    check = parser.parse_args().check
    check_model.run()
    check_reports.run()
    files = generate()
    print(f"{len(files)} cases, {sum(map(len, files.values()))} bytes")
    if not check:
        write(files)
        return 0
    wrong = list(differences(files, committed()))
    print("\n".join(wrong) if wrong else "all files agree")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
