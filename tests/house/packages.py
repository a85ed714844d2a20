"""scripts/install-deps names each package once, and is the only place that names any."""

import re

import house

SCRIPT = "scripts/install-deps"


def array(name):
    body = re.search(rf"^{name}=\(\n(.*?)^\)", house.read(SCRIPT), re.DOTALL | re.MULTILINE).group(1)
    return re.sub(r"#.*", "", body).split()


def main():
    problems = []
    names = array("packages") + array("tools")
    # Environments of their own: may name one again.
    environments = ("readers", "old_readers", "vllm", "old_vllm", "oldest_vllm", "vllm_imports")
    readers = [pin for name in environments for pin in array(name)]
    problems += [f"{SCRIPT}: {name} stands twice" for name in set(names) if names.count(name) > 1]
    problems += [f"{SCRIPT}: {tool} has no version" for tool in array("tools") + readers if "==" not in tool]

    # An install command anywhere else would be a second list.
    command = re.compile(r"\b(?:apt-get|apt|aptitude|dnf|pip3?)\s+(?:-\S+\s+)*install\b|\bpip3?\s+install\b")
    for path in house.files(".md", ".txt", ".cmake", ".sh", ".py", ".yml", ".in", "check", "demo", "/run"):
        if path == "tests/house/packages.py":
            continue
        for number, line in enumerate(house.read(path).splitlines(), 1):
            if command.search(line):
                problems.append(f"{path}:{number}: installs by itself; {SCRIPT} does that: {line.strip()}")

    # Debian's development packages are named nowhere else, so no list can fall behind.
    for path in house.files(".md", ".txt", ".cmake"):
        for number, line in enumerate(house.read(path).splitlines(), 1):
            for package in re.findall(r"\b(?:lib[a-z0-9]+|nlohmann-json3)-dev\b", line):
                if package not in names:
                    problems.append(f"{path}:{number}: {package} is not in {SCRIPT}")
    house.finish(problems)


if __name__ == "__main__":
    main()
