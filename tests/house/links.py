"""Links in Markdown files lead to files and headings that exist. Links to the web are not followed."""

import os
import re

import house


def anchors(path):
    """GitHub's anchors of a file's headings, and the explicit ones."""
    found = set()
    for _, line in house.prose(path):
        heading = re.match(r"#+\s+(.*)", line)
        if heading:
            text = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading.group(1)).strip().lower()
            found.add(re.sub(r"[^\w\- ]", "", text).replace(" ", "-"))
        found.update(re.findall(r"<a id=\"([^\"]+)\"", line))
    return found


def targets(line):
    line = re.sub(r"`[^`]*`", "", line)
    yield from re.findall(r"\]\(([^)\s]+)\)", line)
    yield from re.findall(r"^\[[^\]]+\]:\s+(\S+)", line)
    yield from re.findall(r"<img[^>]* src=\"([^\"]+)\"", line)


def main():
    problems = []
    for path in house.files(".md"):
        for number, line in house.prose(path):
            for target in targets(line):
                if re.match(r"[a-z]+:", target):
                    continue
                file, _, anchor = target.partition("#")
                full = os.path.normpath(os.path.join(os.path.dirname(path), file)) if file else path
                if not house.exists(full):
                    problems.append(f"{path}:{number}: {target}: no such file")
                elif anchor and full.endswith(".md") and anchor not in anchors(full):
                    problems.append(f"{path}:{number}: {target}: no such heading")
    house.finish(problems)


if __name__ == "__main__":
    main()
