"""Words that no file of the repository holds: paths of one machine, package servers, unfinished work."""

import re

import house

FORBIDDEN = {
    "a path of one machine": r"(?<![\w.}])/(?:work|root|home|Users)/|/tmp/\w+/",
    "a package server": r"(?i)\b(?:pypi|pythonhosted|deb\.debian|security\.debian|snapshot\.debian)\.org\b",
    "unfinished work": r"\b(?:TODO|FIXME|XXX|HACK)\b",
    "code that is switched off": r"^\s*#\s*if\s+0\b",
    "a stop for a debugger": r"\bbreakpoint\(\)|\bpdb\.set_trace",
    "an unresolved merge": r"^(?:<{7}|>{7}) ",
    "praise": r"(?i)\b(?:blazing|seamless|cutting-edge|state-of-the-art|world-class|effortless)",
}


def main():
    problems = []
    patterns = {reason: re.compile(pattern) for reason, pattern in FORBIDDEN.items()}
    for path in house.files(""):
        if path == "tests/house/words.py" or path.endswith((".safetensors", ".png", ".bin")):
            continue
        try:
            lines = house.read(path).splitlines()
        except UnicodeDecodeError:
            problems.append(f"{path}: not UTF-8 text")
            continue
        for number, line in enumerate(lines, 1):
            for reason, pattern in patterns.items():
                if pattern.search(line):
                    problems.append(f"{path}:{number}: {reason}: {line.strip()[:100]}")
            if line != line.rstrip() and path.endswith((".py", ".hpp", ".h", ".cpp", ".c", ".cmake", ".txt")):
                problems.append(f"{path}:{number}: white space at the end of the line")
    house.finish(problems)


if __name__ == "__main__":
    main()
