"""The stages of ./check, which describes the options. Python's standard library only.

A stage ends as `passed`, `failed` or `skipped`, with its reason, and counts as one; a stage that
runs tests counts each of them instead. What depends on a failed build is skipped and says so.
Logs of every command lie in build/check/.
"""

import argparse
import collections
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LOGS = os.path.join(ROOT, "build", "check")
JOBS = str(len(os.sched_getaffinity(0)))
FUZZ_SECONDS = 20
TAIL = 25  # lines of a log that a failed stage shows
TEST_HEAD = 10  # lines of output that a failing test shows
SHOWN = 8  # failing tests whose output is shown; all are named


class Failed(Exception):
    """Ends a stage: the reason, and the end of a log."""

    def __init__(self, reason, log=None):
        super().__init__(reason)
        self.log = log


class Skipped(Exception):
    """Ends a stage that this machine cannot run: the reason."""


class Tests:
    """What a stage that runs tests returns: names, and reasons of the skipped ones."""

    def __init__(self):
        self.passed, self.failed, self.skipped, self.note = 0, [], [], ""


def log_path(name):
    os.makedirs(LOGS, exist_ok=True)
    return os.path.join(LOGS, re.sub(r"[^\w.-]+", "_", name) + ".log")


def run(name, command, **keywords):
    """Runs a command with its output in a log; returns (exit status, path of the log)."""
    path = log_path(name)
    with open(path, "wb") as log:
        done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log,
                              stderr=subprocess.STDOUT, check=False, **keywords)
    return done.returncode, path


def output_of(command):
    done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def short(lines):
    """The lines that say something: no blank ones, no frame of GoogleTest or ninja, no endless one."""
    frame = re.compile(r"\[\d+/\d+\] |Running main|Note: Google Test filter|\[[-=]+\]|\[ RUN|\[  PASSED|"
                       r" ?\d+ FAILED TEST|\[  FAILED  \]")
    return [line.rstrip()[:200] for line in lines if line.strip() and not frame.match(line)]


def tail(path):
    with open(path, errors="replace") as log:
        return short(log)[-TAIL:]


def source_files(*endings):
    """Files of the repository, tracked or new, with one of the endings; sorted."""
    names = output_of(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"])
    if names:
        files = names.split("\0")
    else:  # no git checkout: everything but the builds
        files = [os.path.relpath(os.path.join(folder, file), ROOT)
                 for folder, _, inside in os.walk(ROOT) for file in inside]
        files = [file for file in files if not file.startswith(("build/", "."))]
    return sorted(file for file in set(files)
                  if file.endswith(endings) and os.path.isfile(os.path.join(ROOT, file)))


def shell_scripts():
    scripts = []
    for file in source_files(""):
        with open(os.path.join(ROOT, file), "rb") as stream:
            if re.match(rb"#!.*\b(bash|sh)\s*$", stream.readline()):
                scripts.append(file)
    return scripts


def tool(name):
    """The pinned tool of scripts/install-deps. A version of the system's own would judge otherwise."""
    folder = output_of([os.path.join(ROOT, "scripts", "install-deps"), "--tools-path"])
    path = os.path.join(folder, "bin", name)
    if not (folder and os.path.exists(os.path.join(folder, "complete")) and os.path.exists(path)):
        raise Skipped(f"{name} is not installed (scripts/install-deps)")
    return path


def nvcc():
    return shutil.which("nvcc") or next(iter(glob.glob("/usr/local/cuda/bin/nvcc")), None)


# Stages. Each returns None (passed), a note to print, or Tests.


def install():
    status, log = run("dependencies", [os.path.join(ROOT, "scripts", "install-deps")])
    if status != 0:
        reasons = [line for line in tail(log) if line.startswith("install-deps:")]
        raise Skipped(reasons[-1] if reasons else f"scripts/install-deps ended with {status}")


def check_format():
    files = source_files(".hpp", ".h", ".cpp", ".c", ".cu", ".cuh")
    status, log = run("format", [tool("clang-format"), "--dry-run", "-Werror", *files])
    if status != 0:
        with open(log, errors="replace") as stream:
            wrong = sorted(set(re.findall(r"^([^:\s]+):\d+:\d+: error", stream.read(), re.MULTILINE)))
        more = f" and {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else ""
        raise Failed(f"run scripts/format for {', '.join(wrong[:SHOWN])}{more}")
    return f"{len(files)} files"


def check_shell():
    scripts = shell_scripts()
    status, log = run("shell", [tool("shellcheck"), *scripts])
    if status != 0:
        raise Failed("shellcheck", log)
    return f"{len(scripts)} scripts"


def check_tidy():
    linter = tool("clang-tidy")
    database = os.path.join(ROOT, "build", "cpu", "compile_commands.json")
    if not os.path.exists(database):
        raise Skipped("no build/cpu/compile_commands.json: the CPU build was not configured")
    with open(database) as stream:
        compiled = {os.path.relpath(command["file"], ROOT) for command in json.load(stream)}
    files = sorted(file for file in compiled if file.startswith(("src/", "cli/", "examples/")))
    # One process a file, JOBS at a time.
    script = 'printf "%s\\0" "$@" | xargs -0 -n 1 -P "$JOBS" "$LINTER" --quiet -p build/cpu'
    environment = dict(os.environ, JOBS=JOBS, LINTER=linter)
    status, log = run("tidy", ["bash", "-c", script, "tidy", *files], env=environment)
    if status != 0:
        with open(log, errors="replace") as stream:
            findings = list(dict.fromkeys(line for line in stream if ": error: " in line))
        if findings:  # a finding in a header comes once a file that includes it
            log = log_path("tidy findings")
            with open(log, "w") as stream:
                stream.writelines(line.replace(ROOT + "/", "") for line in findings)
        raise Failed(f"{len(findings)} findings", log)
    return f"{len(files)} files"


def build(preset, *options):
    def stage():
        for command in ("cmake", "ninja"):
            if not shutil.which(command):
                raise Failed(f"{command} is not installed (scripts/install-deps)")
        configure = ["cmake", "--preset", preset, *options]
        if shutil.which("ccache"):
            # Another clone of the same sources finds what this one compiled.
            os.environ.update(CCACHE_BASEDIR=ROOT, CCACHE_NOHASHDIR="1")
            configure += [f"-DCMAKE_{language}_COMPILER_LAUNCHER=ccache"
                          for language in ("C", "CXX", "CUDA")]
        status, log = run(f"configure {preset}", configure)
        if status != 0:
            raise Failed("cmake failed", log)
        status, log = run(f"build {preset}", ["cmake", "--build", "--preset", preset, "-j", JOBS])
        if status != 0:
            raise Failed("the compiler or the linker failed", log)
    return stage


def build_cuda():
    compiler = nvcc()
    if compiler is None:
        raise Skipped("nvcc was not found; everything but the CUDA kernels was built")
    return build("cuda", f"-DCMAKE_CUDA_COMPILER={compiler}")()


def junit(path):
    """The results of a ctest run."""
    results = Tests()
    for case in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
        name, status = case.get("name").split("  # ")[0], case.get("status")  # not GoogleTest's bytes
        said = case.findtext("system-out") or ""
        message = "".join(skipped.get("message", "") for skipped in case.iter("skipped"))
        if status == "run":
            results.passed += 1
        elif status == "disabled":
            results.skipped.append((name, "disabled where it is defined"))
        elif status == "notrun" and message.startswith("SKIP_"):
            results.skipped.append((name, skip_reason(said) or "it gave no reason"))
        else:  # failed, or never started: the program is missing, or would not list its tests
            message += "".join(failure.get("message", "") for failure in case.iter("failure"))
            results.failed.append((name, f"{said}\n{message}"))
    return results


def skip_reason(said):
    """GTEST_SKIP() << reason, or a line `skipped: reason`."""
    found = re.search(r"^skipped: (.*)", said, re.MULTILINE)
    if not found:
        found = re.search(r": Skipped\n+(?!\[)(.*)", said)
    return found.group(1).strip() if found else ""


def tests(preset, exclude=(), only=()):
    def stage():
        path = os.path.join(LOGS, f"tests_{preset}.xml")
        if os.path.exists(path):
            os.remove(path)
        selection = []
        for option, labels in (("-LE", exclude), ("-L", only)):
            if labels:
                selection += [option, "^(" + "|".join(labels) + ")$"]
        status, log = run(f"tests {preset}",
                          ["ctest", "--test-dir", os.path.join("build", preset), "-j", JOBS,
                           "--output-junit", path, "--test-output-size-passed", "20000",
                           "--test-output-size-failed", "20000", *selection])
        if not os.path.exists(path):
            raise Failed(f"ctest ended with {status} and wrote no results", log)
        results = junit(path)
        if status != 0 and not results.failed:
            raise Failed(f"ctest ended with {status} and named no failing test", log)
        if not (results.passed or results.failed or results.skipped):
            if only:
                raise Skipped(f"no test in this build has the label {' or '.join(only)}")
            raise Failed("no tests were found", log)
        if exclude:
            results.note = "not selected: label " + ", ".join(exclude)
        return results
    return stage


def check_golden():
    # With the tools' Python: the models need numpy and ml_dtypes.
    for name, script in (("golden", ["tests/golden/make_golden.py", "--check"]),
                         ("casts", ["tests/checkpoint/check_casts.py"]),
                         ("corpus", ["tests/fuzz/make_corpus.py", "--check"])):
        status, log = run(name, [tool("python"), "-B", *script])
        if status != 0:
            raise Failed("the committed files are not what the model gives", log)


def mutations(*options):
    def stage():
        script = os.path.join("scripts", "matmul-mutations")
        status, log = run("mutations", [sys.executable, "-B", script, *options])
        if status != 0:
            raise Failed("a mutant passes its tests, or could not be judged", log)
        return tail(log)[-1]
    return stage


def fuzz():
    if not shutil.which("clang++"):
        raise Skipped("clang++ is not installed (scripts/install-deps): libFuzzer is part of it")
    build("fuzz")()
    # What a run finds worth keeping stays in build/; the seeds are only read.
    found = os.path.join(ROOT, "build", "fuzz", "corpus")
    os.makedirs(found, exist_ok=True)
    room = os.path.join("tests", "fuzz")
    status, log = run("fuzz", [os.path.join("build", "fuzz", "tests", "fuzz", "safetensors_fuzz"),
                               f"-max_total_time={FUZZ_SECONDS}", "-max_len=4096", "-timeout=10",
                               f"-dict={room}/safetensors.dict", "-artifact_prefix=build/fuzz/",
                               "-print_final_stats=1", found, f"{room}/corpus"])
    if status != 0:
        raise Failed("an input breaks the reader", log)
    with open(log, errors="replace") as stream:
        executed = re.search(r"number_of_executed_units: *(\d+)", stream.read())
    if not executed or int(executed.group(1)) < 1000:
        raise Failed("hardly any input was tried", log)
    return f"{executed.group(1)} inputs in {FUZZ_SECONDS} s"


class Report:
    def __init__(self):
        self.passed, self.failed, self.skipped = 0, 0, 0
        self.ended = {}  # stage -> passed, failed or skipped

    def stage(self, name, function, needs=()):
        begin = time.monotonic()
        detail, lines = "", []
        try:
            broken = [need for need in needs if self.ended.get(need) != "passed"]
            if broken:
                raise Skipped(f"needs: {', '.join(broken)}")
            result = function()
            self.ended[name] = "passed"
            if isinstance(result, Tests):
                detail, lines = self.count(name, result)
            else:
                self.passed += 1
                detail = "passed" + (f" ({result})" if result else "")
        except Skipped as reason:
            self.ended[name] = "skipped"
            self.skipped += 1
            detail = f"skipped: {reason}"
        except Failed as failure:
            self.ended[name] = "failed"
            self.failed += 1
            detail = f"FAILED: {failure}"
            if failure.log:
                lines = [f"  | {line}" for line in tail(failure.log)]
                lines.append(f"  all of it: {os.path.relpath(failure.log, ROOT)}")
        print(f"{name:<14}{time.monotonic() - begin:8.1f} s  {detail}")
        for line in lines:
            print(line)
        sys.stdout.flush()

    def count(self, name, results):
        self.passed += results.passed
        self.failed += len(results.failed)
        self.skipped += len(results.skipped)
        if results.failed:
            self.ended[name] = "failed"
        lines = []
        for position, (test, said) in enumerate(results.failed):
            lines.append(f"  failed: {test}")
            if position < SHOWN:
                shown = short(said.splitlines())[:TEST_HEAD] or ["it crashed, or was stopped, and said nothing"]
                lines += [f"  | {line}" for line in shown]
        reasons = collections.defaultdict(list)
        for test, reason in results.skipped:
            reasons[reason].append(test)
        for reason, names in reasons.items():
            lines.append(f"  skipped: {reason}: {', '.join(names)}")
        counts = f"{results.passed} passed, {len(results.failed)} failed, {len(results.skipped)} skipped"
        return counts + (f" ({results.note})" if results.note else ""), lines


def main():
    parser = argparse.ArgumentParser(prog="check", description="Checks everything that can be checked here.")
    depth = parser.add_mutually_exclusive_group()
    depth.add_argument("--quick", action="store_true", help="formatting, the CPU build, its quick tests")
    depth.add_argument("--long", action="store_true", help="with the tests labelled long and every mutation")
    parser.add_argument("--no-install", action="store_true", help="install nothing that is missing")
    arguments = parser.parse_args()

    report = Report()
    if not arguments.no_install:
        report.stage("dependencies", install)
    report.stage("format", check_format)
    if not arguments.quick:
        report.stage("shell", check_shell)
    report.stage("build cpu", build("cpu"))
    exclude = ("long", "slow") if arguments.quick else () if arguments.long else ("long",)
    report.stage("tests cpu", tests("cpu", exclude=exclude), needs=["build cpu"])
    if not arguments.quick:
        report.stage("mutations", mutations(*([] if arguments.long else ["--fast"])), needs=["build cpu"])
        report.stage("golden", check_golden)
        report.stage("tidy", check_tidy)
        report.stage("build asan", build("asan"))
        report.stage("tests asan", tests("asan", exclude=("long", "no_asan")), needs=["build asan"])
        report.stage("fuzz", fuzz)
        report.stage("build cuda", build_cuda)
        report.stage("tests cuda", tests("cuda", only=("cuda",)), needs=["build cuda"])
    print(f"{report.passed} passed, {report.failed} failed, {report.skipped} skipped")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
