"""The version stands in CMakeLists.txt; CHANGELOG.md opens with it."""

import re

import house


def main():
    version = re.search(r"project\(rowscale VERSION (\S+)", house.read("CMakeLists.txt")).group(1)
    newest = re.search(r"^## (\S+)", house.read("CHANGELOG.md"), re.MULTILINE).group(1)
    house.finish([] if newest == version else [f"CHANGELOG.md opens with {newest}, the project is {version}"])


if __name__ == "__main__":
    main()
