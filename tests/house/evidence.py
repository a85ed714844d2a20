"""README claims nothing without a row in docs/evidence.md, and each row names what exists.

README: every list item, every row of a table and every other paragraph with a number and a unit
carries a mark [E1], unless its section opens with `<!-- no claims: reason -->`. Fenced code is
exempt. Every mark has a row, and every row is marked in README.

docs/evidence.md: | id | claim | shown by | compared with | machine | date | state |. `shown by`
holds, in backticks, tests (Suite.Name, * allowed) and paths; state is `shown`, `partly` or
`not shown`, the last one with nothing to show. What a claim is compared with is not left empty.
"""

import re
import sys

import house

EVIDENCE = "docs/evidence.md"
COLUMNS = ["id", "claim", "shown by", "compared with", "machine", "date", "state"]
MEASURE = re.compile(r"\d\s*(%|x\b|×|GB/s|GiB|MiB|MB|ms\b|ns\b|us\b|times\b|ulp\b)")


def rows():
    found, header = [], False
    for number, line in house.prose(EVIDENCE):
        cells = house.table_cells(line)
        if cells == COLUMNS:
            header = True
        elif cells and header:
            found.append((number, cells))
        elif not line.startswith("|"):
            header = False
    return found


def defined_tests():
    """Names of the tests in sources that a CMakeLists.txt names: GoogleTest's and add_test's."""
    names, lists = set(), {path: house.read(path) for path in house.files("CMakeLists.txt")}
    built = "\n".join(lists.values())
    for path in house.files("_test.cpp", "_test.cu"):
        if path.rsplit("/", 1)[-1] in built:
            for suite, name in re.findall(r"\bTEST(?:_F|_P)?\(\s*(\w+)\s*,\s*(\w+)\s*\)", house.read(path)):
                names.add(f"{suite}.{name}")
            for suite, name in re.findall(r"\bTYPED_TEST(?:_P)?\(\s*(\w+)\s*,\s*(\w+)\s*\)", house.read(path)):
                names.add(f"{suite}.{name}")
            for prefix, suite in re.findall(r"\bINSTANTIATE_TEST_SUITE_P\(\s*(\w*)\s*,\s*(\w+)", house.read(path)):
                names.add(f"{prefix}/{suite}.")
    for path, text in lists.items():
        names.update(re.findall(r"add_test\(\s*NAME\s+([\w.]+)", text))
        for room in ("house", "checkpoint"):  # functions of a room, in its own CMakeLists.txt
            if path == f"tests/{room}/CMakeLists.txt":
                calls = re.findall(rf"^\s*{room}_test\((\w+)", text, re.MULTILINE)
                names.update(f"{room}." + name for name in calls)
    return names


def shown(item, tests):
    if "/" in item or house.exists(item):
        return house.exists(item)
    pattern = re.compile(re.escape(item).replace(r"\*", ".*"))
    return any(pattern.fullmatch(test) for test in tests)


def check_rows(problems):
    tests, ids = defined_tests(), []
    for number, cells in rows():
        where = f"{EVIDENCE}:{number}"
        if len(cells) != len(COLUMNS):
            problems.append(f"{where}: {len(cells)} cells, expected {len(COLUMNS)}")
            continue
        row = dict(zip(COLUMNS, cells))
        ids.append(row["id"])
        if not re.fullmatch(r"E\d+", row["id"]):
            problems.append(f"{where}: id {row['id']!r}, expected E and a number")
        items = re.findall(r"`([^`]+)`", row["shown by"])
        if row["state"] not in ("shown", "partly", "not shown"):
            problems.append(f"{where}: state {row['state']!r}")
        if (row["state"] == "not shown") == bool(items):
            problems.append(f"{where}: {row['state']}, but `shown by` names {len(items)} things")
        if not row["compared with"]:
            problems.append(f"{where}: compared with what?")
        if row["state"] != "not shown" and not re.fullmatch(r"\d{4}-\d\d-\d\d|each run", row["date"]):
            problems.append(f"{where}: date {row['date']!r}, expected YYYY-MM-DD, or `each run` of ./check")
        problems.extend(f"{where}: {item} does not exist" for item in items if not shown(item, tests))
    problems.extend(f"{EVIDENCE}: {name} stands twice" for name in set(ids) if ids.count(name) > 1)
    return set(ids)


def readme_units():
    """(line number, text): a row of a table, or a list item or paragraph with all its lines."""
    units, open_unit = [], False
    for number, line in house.prose("README.md"):
        alone = not line.strip() or line.startswith(("#", "|", "<!--"))
        if open_unit and not alone and not re.match(r"\s*[-*] ", line):
            units[-1] = (units[-1][0], units[-1][1] + " " + line.strip())
        else:
            units.append((number, line))
        open_unit = not alone
    return units


def check_readme(problems, ids):
    marked, exempt, table = set(), False, 0
    for number, text in readme_units():
        if text.startswith("#"):
            exempt = False
        exempt = exempt or text.startswith("<!-- no claims:")
        marks = re.findall(r"\[(E\d+)\](?!:)", text)
        marked.update(marks)
        table = table + 1 if text.startswith("|") else 0
        claim = table > 2 or re.match(r"\s*[-*] ", text) or (not table and MEASURE.search(text))
        if claim and not marks and not exempt:
            problems.append(f"README.md:{number}: a claim without a row in {EVIDENCE}: {text[:80]}")
    problems.extend(f"README.md: [{name}] has no row in {EVIDENCE}" for name in sorted(marked - ids))
    problems.extend(f"{EVIDENCE}: {name} is claimed nowhere in README.md" for name in sorted(ids - marked))


def main():
    problems = []
    ids = check_rows(problems)
    if not ids:
        problems.append(f"{EVIDENCE}: no rows found")
    check_readme(problems, ids)
    house.finish(problems)


if __name__ == "__main__":
    sys.exit(main())
