"""How much of NCCL's calling surface is tested, by running those tests now: every function of the
table, random programs, the ways to be bound to NCCL, and NCCL's releases."""

import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, "build")
PRELOAD = os.path.join(BUILD, "lib", "libcinch.so")
FUZZ_PROGRAMS = 300
SKIPPED = 77  # exit status of the check of NCCL's releases where none can be had

PREPARE = """
. tools/setup.sh
set_up
cmake --preset release
cmake --build --preset release
"""


def build():
    shell = ["bash", "-euo", "pipefail", "-c", PREPARE]
    subprocess.run(shell, cwd=ROOT, check=True, stdout=sys.stderr)


def run_test(path, *arguments):
    """(the object in the last line of the output of a test, its exit status)"""
    command = [sys.executable, "-B", os.path.join(ROOT, "tests", path), *arguments]
    print("==", *command, file=sys.stderr, flush=True)
    last = ""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            sys.stderr.write(line)
            last = line
    try:
        return json.loads(last), process.returncode
    except json.JSONDecodeError:
        sys.exit(f"bench/report: tests/{path} gave no figures (exit status {process.returncode})")


def select(functions, fuzz, loader, releases):
    """What is reported of everything that the tests print."""
    return {
        "api_functions": functions["functions"],
        "api_functions_tested": functions["passed"],
        "fuzz_programs": fuzz["programs"],
        "fuzz_failures": fuzz["failures"],
        "loader_rows": loader["loader_rows"],
        "loader_rows_passed": loader["loader_rows_passed"],
        "nccl_releases_checked": [
            f"{release['version']} ({release['package']})"
            for release in releases["releases"]
            if not release["problems"]
        ],
    }


def measure():
    build()
    functions, status = run_test("surface/transparency.py", BUILD, PRELOAD)
    rank = os.path.join(BUILD, "tests", "fuzz_rank")
    fuzz_options = ["--programs", str(FUZZ_PROGRAMS), "--rank", rank, "--preload", PRELOAD]
    fuzz, fuzz_status = run_test("fuzz/fuzz_driver.py", *fuzz_options)
    loader, loader_status = run_test("loader/loader_rows.py", "--json", BUILD)
    releases, releases_status = run_test("wheels/nccl_releases.py", BUILD)
    passed = status == fuzz_status == loader_status == 0 and releases_status in (0, SKIPPED)
    return select(functions, fuzz, loader, releases), passed
