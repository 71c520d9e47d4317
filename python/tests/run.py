#!/usr/bin/env python3
"""Runs the tests of the Python package with the package of a toolkit: run.py --toolkit DIST [--one | --quick | --rest].

They run on the oldest and the newest Python that is installed, and on the newest that has NumPy: each with NumPy, where it has
it, and without. --quick: each once, and the tests of SLOW in one run only. --one: one run, the one that has most, without the
tests of SLOW. --rest: --quick without what --one does. --driver: on another driver than the software device, without the tests of
ONLY_SOFT.

One line for each run, and all the output of those that fail; then what was skipped because something is missing. In CI, where
CI is set, one run must have had NumPy; that run also fails if it misses a tool.
"""

import argparse
import concurrent.futures
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple, Tuple

OLDEST = (3, 9)  # that the package supports
SLOW = ("test_examples", "test_jupyter", "test_wheel")  # they prove little more on another Python
ONLY_SOFT = {
    "test_cases": "it breaks rules about memory that other drivers do not map and share",
    "test_check": "the checker watches pages of the software device",
    "test_check_frames": "the checker watches pages of the software device",
    "test_check_pytest": "the checker watches pages of the software device",
    "test_ipc": "other drivers do not share memory between processes",
    "test_jupyter": "it is about notebooks and uses hardly a device",
    "test_kernels": "its kernels are for a CPU",
    "test_memory": "other drivers do not map, share and manage memory",
    "test_wheel": "it builds a wheel and uses hardly a device",
}
HANG = 900  # seconds after which a run hangs
TESTS = os.path.dirname(os.path.abspath(__file__))
ASK = """import importlib.util, json, sys
print(json.dumps([sys.version_info[:3], importlib.util.find_spec("numpy") is not None]))"""


class Python(NamedTuple):
    version: Tuple[int, ...]
    path: str
    numpy: bool


class Run(NamedTuple):
    python: Python
    numpy: bool

    def __str__(self):
        version = ".".join(map(str, self.python.version))
        return f"Python {version:7} {'NumPy' if self.numpy else 'no NumPy'}"


def candidates():
    """Every file that may be a Python: in PATH, and in pyenv, whose shims stand for the chosen version only."""
    folders = os.environ.get("PATH", "").split(os.pathsep)
    if shutil.which("pyenv"):
        root = subprocess.run(["pyenv", "root"], stdout=subprocess.PIPE, universal_newlines=True).stdout.strip()
        folders = [folder for folder in folders if folder != os.path.join(root, "shims")]
        folders += glob.glob(os.path.join(root, "versions", "*", "bin"))
    files = set()
    for folder in folders:
        files.update(map(os.path.realpath, glob.glob(os.path.join(folder, "python3*"))))
    files = {file for file in files if re.fullmatch(r"python3(\.\d+)?", os.path.basename(file))}
    environment = sys.prefix != sys.base_prefix  # which is lost when its links are followed
    files.add(sys.executable if environment else os.path.realpath(sys.executable))
    return files


def ask(path):
    """What a candidate is, None if it is no Python that we support, or does not run."""
    try:
        done = subprocess.run([path, "-c", ASK], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60)
        version, numpy = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return Python(tuple(version), path, numpy) if tuple(version[:2]) >= OLDEST else None


def installed():
    """The Pythons that really run, oldest first."""
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        return sorted(filter(None, pool.map(ask, candidates())))


def plan(pythons, quick):
    """The runs: see above. The one that has most comes first."""
    with_numpy = [python for python in pythons if python.numpy]
    chosen = dict.fromkeys([pythons[-1], pythons[0], *with_numpy[-1:]])
    runs = []
    for python in chosen:
        runs.append(Run(python, python.numpy))
        if python.numpy and not quick:
            runs.append(Run(python, False))
    if all(run.numpy for run in runs):
        runs.append(Run(pythons[-1], False))
    return sorted(runs, key=lambda run: run.numpy, reverse=True)


def count_missing(output, counts):
    """Adds the tests that were skipped because something is missing, by what."""
    for reason in re.findall(r"^.* \.\.\. skipped ['\"](.* is missing.*)['\"]$", output, re.MULTILINE):
        counts[reason] = counts.get(reason, 0) + 1


def perform(run, modules, toolkit, hidden):
    """Runs the tests of modules; returns whether they passed, what to say of it, and the output."""
    path = [os.path.join(toolkit, "python", "site-packages")]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    if not run.numpy:
        path.insert(0, hidden)
        environment.pop("CI", None)  # tests may miss NumPy here
    environment["PYTHONPATH"] = os.pathsep.join(path)
    start = time.monotonic()
    process = subprocess.Popen(
        [run.python.path, "-m", "unittest", "-v", *modules],
        cwd=TESTS,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        universal_newlines=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=HANG)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output = process.communicate()[0] + f"\nkilled after {HANG} s\n"
    ran = re.search(r"^Ran (\d+) tests? in", output, re.MULTILINE)
    skipped = re.search(r"skipped=(\d+)", output)
    passed = process.returncode == 0 and ran is not None and int(ran.group(1)) > 0
    got = f"{'ok  ' if passed else 'FAIL'} {run}: {ran.group(1) if ran else 'no'} tests"
    if skipped:
        got += f", {skipped.group(1)} skipped"
    return passed, f"{got}, {time.monotonic() - start:.1f} s", output


def main():
    parser = argparse.ArgumentParser(description="Runs the tests of the Python package.")
    parser.add_argument("--toolkit", required=True, help="what 'make dist' wrote")
    parser.add_argument("--one", action="store_true", help="one combination, without the slow tests")
    parser.add_argument("--quick", action="store_true", help="fewer combinations")
    parser.add_argument("--rest", action="store_true", help="what --one leaves out of --quick")
    parser.add_argument("--driver", help="on which the tests run (default: the software device)")
    parser.add_argument("--jobs", type=int, default=4, help="runs at the same time (default 4: they wait a lot)")
    given = parser.parse_args()
    toolkit = os.path.abspath(given.toolkit)
    if not os.path.isdir(os.path.join(toolkit, "python", "site-packages", "acl")):
        sys.exit(f"run.py: {toolkit} has no Python package; run 'make dist'")
    pythons = installed()
    if not pythons:
        sys.exit("run.py: there is no Python of version %d.%d or later" % OLDEST)
    given.quick = given.quick or given.rest or given.one
    runs = plan(pythons, given.quick)
    if given.one:
        runs = runs[:1]
    complete = failed = False
    skipped = {}
    with tempfile.TemporaryDirectory() as hidden, concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
        with open(os.path.join(hidden, "numpy.py"), "w") as file:
            file.write("raise ModuleNotFoundError(\"No module named 'numpy'\", name='numpy')\n")
        modules = sorted(name[:-3] for name in os.listdir(TESTS) if re.fullmatch(r"test_\w+\.py", name))
        if given.driver:
            os.environ.update(ROPEWAY_DRIVER=given.driver, ROPEWAY_DEVICES="8")  # as many as without it
            modules = [name for name in modules if name not in ONLY_SOFT]
            for name, why in ONLY_SOFT.items():
                print(f"left out {name}: {why}", flush=True)
        most = [name for name in modules if name not in SLOW or not given.quick]
        first = most if given.one else [name for name in modules if name in SLOW or not given.rest]
        futures = [pool.submit(perform, run, most if i else first, toolkit, hidden) for i, run in enumerate(runs)]
        for run, future in zip(runs, futures):
            passed, got, output = future.result()
            print(got, flush=True)
            if run.numpy or not any(other.numpy for other in runs):  # without NumPy on purpose
                count_missing(output, skipped)
            if not passed:
                print(output, flush=True)
            failed = failed or not passed
            complete = complete or (passed and run.numpy)
    for reason, count in skipped.items():
        print(f"skipped: {count} Python tests ({reason})", flush=True)
    if os.environ.get("CI") and not complete:
        print("FAIL no run had NumPy (Debian: apt-get install python3-numpy)", flush=True)
        failed = True
    sys.exit(failed)


if __name__ == "__main__":
    main()
