"""How long a change waits for its check, and a stranger for a figure: .ci/run on a clone of this commit, with an empty
compiler cache and with a warm one, then ./quickstart on another clone; and how many of thirty mistakes the tests find.
Two hours, on a machine that has nothing else to do; PyTorch's environment is made before, and not counted. With
CHECKS_NIGHT=1 a whole night (.ci/nightly), which takes hours more; without, its time is null."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COLD_SECONDS, WARM_SECONDS = 18 * 60, 8 * 60
BUILD_SECONDS, FIRST_ROW_SECONDS, QUICKSTART_SECONDS = 5 * 60, 7 * 60, 15 * 60
FAULTS, LEAST_FOUND = 30, 27


def clone(folder):
    subprocess.run(["git", "clone", "--quiet", ROOT, folder], check=True)
    return folder


def timed(command, folder, **environment):
    """(seconds, exit status, output), which goes on to standard error as it comes."""
    begin, lines = time.monotonic(), []
    with subprocess.Popen(command, cwd=folder, env=dict(os.environ, **environment), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace") as process:
        for line in process.stdout:
            sys.stderr.write(line)
            lines.append(line)
    return round(time.monotonic() - begin, 1), process.returncode, "".join(lines)


def slowest_file(output):
    """Of what tools/slowest.py prints: seconds, null without a build."""
    found = re.search(r"Compiled files, slowest first:\n +([0-9.]+) s", output)
    return float(found[1]) if found else None


def check_times(folder):
    """The same clone each time: a cache knows files by their paths."""
    subprocess.run([sys.executable, os.path.join(ROOT, "emulator", "torch", "environment.py")], stdout=sys.stderr, check=False)
    figures, passed = {}, True
    cache = os.path.join(folder, "cache")
    for name in ("ci_cold_s", "ci_warm_s"):
        tree = clone(os.path.join(folder, "tree"))
        seconds, status, output = timed([".ci/run"], tree, CCACHE_DIR=cache)
        figures[name] = seconds if status == 0 else None
        passed = passed and status == 0
        if name == "ci_cold_s":
            figures["slowest_unit_s"] = slowest_file(output)
        shutil.rmtree(tree)
    return figures, passed


def quickstart_times(folder):
    tree = clone(os.path.join(folder, "quickstart"))
    seconds, status, _ = timed(["./quickstart"], tree, CCACHE_DISABLE="1")
    try:
        with open(os.path.join(tree, "build", "quickstart.json"), encoding="utf-8") as file:
            results = json.load(file)
    except FileNotFoundError:
        return {"build_s": None, "first_row_s": None, "quickstart_s": None}, False
    return {"build_s": results["setup_s"], "first_row_s": results["first_row_s"], "quickstart_s": seconds}, status == 0


def fault_finds(folder):
    """How many mistakes the tests of a change find, and all tests of a night but the sanitizers'."""
    tree = clone(os.path.join(folder, "faults"))
    command = ["tests/faults/run", "--night", "--folder", os.path.join(folder, "faulty")]
    _, status, output = timed(command, tree, CCACHE_DIR=os.path.join(folder, "cache"))
    if status != 0:
        return {"faults_presubmit": None, "faults_nightly": None}, False
    found = json.loads(output.splitlines()[-1])
    return {"faults_presubmit": found["presubmit"], "faults_nightly": found["night"]}, True


def night_time(folder):
    if os.environ.get("CHECKS_NIGHT") != "1":
        return {"nightly_s": None}, True
    seconds, status, _ = timed([".ci/nightly"], clone(os.path.join(folder, "night")))
    return {"nightly_s": seconds if status == 0 else None}, status == 0


def holds(figures):
    limits = {"ci_cold_s": COLD_SECONDS, "ci_warm_s": WARM_SECONDS, "build_s": BUILD_SECONDS,
              "first_row_s": FIRST_ROW_SECONDS, "quickstart_s": QUICKSTART_SECONDS}
    return (all(figures[name] is not None and figures[name] <= limit for name, limit in limits.items())
            and (figures["faults_presubmit"] or 0) >= LEAST_FOUND and figures["faults_nightly"] == FAULTS)


def measure():
    figures, ended_well = {}, True
    with tempfile.TemporaryDirectory(prefix="cinch-checks-") as folder:
        for take in (check_times, quickstart_times, fault_finds, night_time):
            taken, well = take(folder)
            figures |= taken
            ended_well = ended_well and well
    return figures, ended_well and holds(figures)
