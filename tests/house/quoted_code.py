"""Code quoted in Markdown equals the marked region of the example it names.

A quotation is a fenced block right below `<!-- quote: examples/quantize.c [quantize] -->`; the region
stands between `// [quantize]` and `// [/quantize]`, and common indentation is removed. Every C and C++
block is a quotation, so that no shown code is never compiled. --update rewrites the blocks.
"""

import re
import sys
import textwrap

import house

QUOTATION = re.compile(r"<!-- quote: (?P<file>\S+) \[(?P<mark>\w+)\] -->\n```\w+\n(?P<code>.*?)^```$",
                       re.DOTALL | re.MULTILINE)
BLOCK = re.compile(r"^```(?:c|cpp|c\+\+|cuda)\n", re.MULTILINE)


def region(file, mark):
    if not house.exists(file):
        return None
    found = re.search(rf"^[^\n]*// \[{mark}\]\n(.*?)^[^\n]*// \[/{mark}\]$", house.read(file),
                      re.DOTALL | re.MULTILINE)
    return textwrap.dedent(found.group(1)) if found else None


def main():
    update, problems = "--update" in sys.argv, []
    for path in house.files(".md"):
        text = house.read(path)
        starts = {quotation.end("mark"): quotation for quotation in QUOTATION.finditer(text)}
        quoted = [(quotation.start(), quotation.end()) for quotation in starts.values()]
        for block in BLOCK.finditer(text):
            if not any(start < block.start() < end for start, end in quoted):
                line = text.count("\n", 0, block.start()) + 1
                problems.append(f"{path}:{line}: code that quotes no example")
        for quotation in reversed(list(starts.values())):
            code = region(quotation["file"], quotation["mark"])
            line = text.count("\n", 0, quotation.start()) + 1
            if code is None:
                problems.append(f"{path}:{line}: {quotation['file']} has no region [{quotation['mark']}]")
            elif code != quotation["code"] and update:
                text = text[:quotation.start("code")] + code + text[quotation.end("code"):]
            elif code != quotation["code"]:
                problems.append(f"{path}:{line}: differs from {quotation['file']} [{quotation['mark']}]: "
                                "run tests/house/quoted_code.py --update")
        if update and text != house.read(path):
            with open(f"{house.ROOT}/{path}", "w", encoding="utf-8") as file:
                file.write(text)
    house.finish(problems)


if __name__ == "__main__":
    main()
