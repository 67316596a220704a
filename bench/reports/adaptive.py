"""Slots, layers, adaptive precision, and what is learned with it: replays of recorded jobs, layers
from PyTorch DDP's own messages, bytes at equal error on gradients recorded now, training runs with
and without Cinch, and a part of the study of error feedback. Takes about a quarter of an hour on
two cores."""

import json
import os
import subprocess
import sys
import tempfile

from lab.machine import NUMPY_PYTHON

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, "build")

PREPARE = """
. tools/setup.sh
set_up
cmake --preset release
cmake --build --preset release --target all nightly_programs
"""

# The parts of the study that fit into some minutes; bench/feedback/matrix.py has all.
STUDIED = ("2 bits", "3 and 4 bits", "attention", "convolution")

# What a training run may cost: percent of fp32's held-out loss, and bits per value.
WITHIN, BITS = 0.5, 3.3


def run(*command, check=True):
    """What a command prints; it is shown, too."""
    print("==", *command, file=sys.stderr, flush=True)
    done = subprocess.run(command, cwd=ROOT, check=check, stdout=subprocess.PIPE, text=True)
    sys.stderr.write(done.stdout)
    return done.stdout, done.returncode


def recorded(program, test):
    """(what a test records beside passing, whether it passed)"""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "result.json")
        _, status = run(
            os.path.join(BUILD, "tests", program),
            f"--gtest_filter={test}",
            f"--gtest_output=json:{path}",
            check=False,
        )
        with open(path, encoding="utf-8") as file:
            (suite,) = json.load(file)["testsuites"]
    return suite["testsuite"][0], status == 0


def traces():
    entry, passed = recorded("sequence_test", "Traces.NoResidualIsEverOnAWrongSlot")
    found = {}
    for key, value in entry.items():
        name, dot, figure = key.partition(".")
        if dot:
            found.setdefault(name, {})[figure] = float(value)
    wrong = int(sum(trace.pop("wrong") for trace in found.values()))
    return wrong, found, passed


def boundaries():
    entry, passed = recorded("layers_test", "DdpLayout.EveryModelIsReadExactly")
    return {key: value == "true" for key, value in entry.items() if value in ("true", "false")}, passed


def saving():
    """Bytes at q4's squared error, with the codecs and segments of CINCH_CODEC=auto."""
    text, _ = run(NUMPY_PYTHON, "-B", "bench/adaptive/measure.py", BUILD)
    rows = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    (row,) = [
        row
        for row in rows
        if (row["errors"], row["codecs"], row["segments"]) == ("plain", "h q5-8", "64 Ki")
    ]
    return row["earlier"]["bytes"]


def solve_time():
    text, _ = run(os.path.join(BUILD, "bin", "solve_time"))
    return json.loads(text)["median_ms"]


def training():
    text, status = run(
        NUMPY_PYTHON,
        "-B",
        "bench/training/compare.py",
        BUILD,
        "--codec=auto",
        f"--within={WITHIN}",
        f"--bits={BITS}",
        check=False,
    )
    return json.loads(text.splitlines()[-1]), status == 0


def feedback():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "runs.jsonl")
        run(NUMPY_PYTHON, "-B", "bench/feedback/study.py", BUILD, path, *STUDIED)
        text, _ = run(NUMPY_PYTHON, "-B", "bench/feedback/summary.py", path)
    return json.loads(text.splitlines()[-1])


def measure():
    run("bash", "-euo", "pipefail", "-c", PREPARE)
    wrong, found, right = traces()
    exact, read = boundaries()
    trained, learned = training()
    figures = {
        "wrong_slots": wrong,
        "traces": found,
        "boundaries": exact,
        "bytes_vs_q4_at_equal_error": saving(),
        "solve_ms_500": solve_time(),
        "training": trained,
        "feedback": feedback(),
    }
    return figures, right and read and learned
