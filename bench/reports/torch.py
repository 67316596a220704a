"""PyTorch itself on the emulator: whether its operators, the jobs of tests/frameworks and its own distributed
tests come out right, plain and under Cinch. Makes an environment of its own, so that its cost is measured."""

import contextlib
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
FRAMEWORKS = os.path.join(ROOT, "tests", "frameworks")
sys.path.append(os.path.join(ROOT, "emulator", "torch"))

import environment  # noqa: E402

BACK_ENDS = ("old", "new")


def folder_gb(folder):
    found = subprocess.run(["du", "-s", "-B1", folder], capture_output=True, text=True, check=True)
    return int(found.stdout.split()[0]) / 1e9


@contextlib.contextmanager
def new_environment():
    """(Prepared, seconds, GB) of an environment that is made for this report and gone after it."""
    cache = tempfile.mkdtemp(prefix="cinch-report-", dir=os.environ.get("TMPDIR", "/var/tmp"))
    before = os.environ.get("XDG_CACHE_HOME")
    os.environ["XDG_CACHE_HOME"] = cache
    try:
        begun = time.monotonic()
        python = environment.make()
        seconds = time.monotonic() - begun
        yield environment.prepare(python), round(seconds), round(folder_gb(environment.environment_folder()), 1)
    finally:
        if before is None:
            del os.environ["XDG_CACHE_HOME"]
        else:
            os.environ["XDG_CACHE_HOME"] = before
        shutil.rmtree(cache, ignore_errors=True)


def run_json(command, environ=None):
    """(What a program writes with --json, whether it ended well). Its own lines go to standard error."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "result.json")
        status = subprocess.run([*command, "--json", path], env=os.environ | (environ or {}), stdout=sys.stderr,
                                check=False).returncode
        if not os.path.exists(path):
            return None, False
        with open(path, encoding="utf-8") as file:
            return json.load(file), status == 0


def script(prepared, name, *arguments, cinch=False, **settings):
    """A script of tests/frameworks that runs inside the environment."""
    environ = prepared.variables(cinch=cinch) | settings
    return run_json([prepared.python, "-B", os.path.join(FRAMEWORKS, name), *arguments], environ)


def operators(prepared):
    found, passed = script(prepared, "operators.py")
    return found and {"equal": found["equal"], "of": found["of"]}, passed


def jobs(prepared):
    return run_json([sys.executable, "-B", os.path.join(FRAMEWORKS, "session.py"), "--python", prepared.python,
                     "--build", prepared.build, "--variants", "plain,cinch,gloo,plain-old,cinch-old", "*"])


def passed_tests(found):
    return {name for name, test in found["tests"].items() if test["result"] == "passed"} if found else set()


def distributed_tests(prepared):
    """({back end: {ran, plain, cinch}}, whether all came out as expected). `cinch` counts those of plain's."""
    figures, all_passed = {}, True
    for back_end in BACK_ENDS:
        runs = [script(prepared, "distributed_tests.py", "--implementation", back_end, cinch=cinch)
                for cinch in (False, True)]
        (plain, plain_passed), (cinch, cinch_passed) = runs
        all_passed = all_passed and plain_passed and cinch_passed
        good = passed_tests(plain)
        figures[back_end] = {"ran": plain and plain["ran"], "plain": len(good),
                             "cinch": len(good & passed_tests(cinch))}
    return figures, all_passed


def streams(prepared):
    """How many streams of calls could be recorded from the jobs, with both back ends where they differ."""
    with tempfile.TemporaryDirectory() as folder:
        for back_end in ((), ("--old",)):
            subprocess.run([prepared.python, "-B", os.path.join(FRAMEWORKS, "recording.py"), "--build", prepared.build,
                            "--to", folder, *back_end, "*"], stdout=sys.stderr, check=False)
        return len(glob.glob(os.path.join(folder, "*.csv")))


def set_up():
    """What apt has to install for the build."""
    subprocess.run(["bash", "-euo", "pipefail", "-c", ". tools/setup.sh; set_up_tests"], cwd=ROOT, check=True,
                   stdout=sys.stderr)


def measure():
    set_up()
    with new_environment() as (prepared, seconds, gigabytes):
        operators_found, operators_passed = operators(prepared)
        jobs_found, jobs_passed = jobs(prepared)
        tests_found, tests_passed = distributed_tests(prepared)
        recorded = streams(prepared)
    totals = {name: sum(figures[name] or 0 for figures in tests_found.values()) for name in ("ran", "plain", "cinch")}
    summary = (jobs_found or {}).get("summary", {})
    figures = {
        "torch": (jobs_found or {}).get("torch"),
        "environment_s": seconds,
        "environment_gb": gigabytes,
        "operators": operators_found,
        "jobs": summary.get("rows"),
        "jobs_run": summary.get("rows_run"),
        "gloo_equal": summary.get("gloo_equal"),
        "distributed_tests": totals | tests_found,
        "known_failures": summary.get("known_failures"),
        "streams": recorded,
        # Measured by tests/gpu/check, where there is a GPU.
        "calls_vs_gpu": None,
    }
    return figures, operators_passed and jobs_passed and tests_passed
