"""The comparison of ./quickstart, and what a passed call costs."""

import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ROW = ("step_ms", "comm_ms", "wire_bytes", "loss")
CODEC_ROW = ROW + ("nmse", "nmse_expected")
FIGURES = ("fp32_vs_bound", "q4_vs_bound", "loss_first", "ranks_identical", "first_row_s")


def select(results, passthrough_ns):
    """What is reported of everything in build/quickstart.json."""
    rows = {"fp32": ROW, "bf16": ROW, "q8": CODEC_ROW, "q4": CODEC_ROW, "auto": CODEC_ROW}
    figures = {name: {key: results[name][key] for key in keys} for name, keys in rows.items()}
    figures |= {name: results[name] for name in FIGURES}
    return figures | {"passthrough_ns": passthrough_ns}


def measure_passthrough():
    subprocess.run(
        ["cmake", "--build", "--preset", "release", "--target", "passthrough_bench"],
        cwd=ROOT,
        check=True,
        stdout=sys.stderr,
    )
    done = subprocess.run(
        [os.path.join(ROOT, "build", "bin", "passthrough_bench")],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.strip().splitlines()[-1])["passthrough_ns"]


def measure():
    path = os.path.join(ROOT, "build", "quickstart.json")
    # A run that fails before its end must not leave us with the figures of another.
    if os.path.exists(path):
        os.remove(path)
    # At full length, where the losses are judged too.
    status = subprocess.run([os.path.join(ROOT, "quickstart"), "--full"]).returncode
    if not os.path.exists(path):
        sys.exit("bench/report: ./quickstart gave no figures")
    with open(path) as file:
        results = json.load(file)
    return select(results, measure_passthrough()), status == 0
