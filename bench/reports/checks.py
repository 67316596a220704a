"""How long a change waits for its check, and a stranger for a figure: .ci/run on a clone of this commit, with an
empty compiler cache and with a warm one, then ./quickstart on another clone. Some 40 minutes, on a machine that has nothing else
to do; PyTorch's environment is made before, and not counted."""

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


def holds(figures):
    limits = {"ci_cold_s": COLD_SECONDS, "ci_warm_s": WARM_SECONDS, "build_s": BUILD_SECONDS,
              "first_row_s": FIRST_ROW_SECONDS, "quickstart_s": QUICKSTART_SECONDS}
    return all(figures[name] is not None and figures[name] <= limit for name, limit in limits.items())


def measure():
    with tempfile.TemporaryDirectory(prefix="cinch-checks-") as folder:
        figures, checked = check_times(folder)
        started, ended_well = quickstart_times(folder)
    # Of faults that are switched on one by one, and of a whole night, nothing is measured yet.
    unmeasured = dict.fromkeys(("faults_presubmit", "faults_nightly", "nightly_s"))
    figures = figures | started | unmeasured
    return figures, checked and ended_well and holds(figures)
