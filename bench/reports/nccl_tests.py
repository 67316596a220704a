"""`cinch bench` and the patches for nccl-tests, checked now: every size on the emulator, 2 and 4 ranks,
ranks of its own and Open MPI's, plain and under Cinch; the patches as text; the page of results."""

import json
import os
import subprocess
import sys
import tempfile

import jsonschema
import results_page

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PATCHES = os.path.join(ROOT, "nccl-tests-patches")
for folder in (PATCHES, os.path.join(ROOT, "tests", "support")):
    sys.path.insert(0, folder)

from insertions import count_context_lines, count_hunks, faults  # noqa: E402
from ranks import mpirun  # noqa: E402

BUILD = os.path.join(ROOT, "build")
SCHEMA = os.path.join(ROOT, "tools", "cinch", "bench", "schema.json")
TARGETS = "cinch_tool cinch cinch_codec_host cinch_emulator_nccl cinch_emulator_cudart"
PREPARE = f"""
. tools/setup.sh
set_up
cmake --preset release
cmake --build --preset release --target {TARGETS}
"""
SWEEP = "all_reduce -b 8 -e 64M -f 2 -c 1 --emulator".split()
ROWS = 24  # of the sweep
RANKS = (2, 4)
# Each rank is a host of its own, or Cinch would leave the calls of one host alone.
CINCH = {"LD_PRELOAD": os.path.join(BUILD, "lib", "libcinch.so"), "CINCH_CODEC": "q4"}


def say(text):
    print(text, file=sys.stderr, flush=True)


def run_sweep(ranks, launcher, under_cinch):
    """What the JSON file holds of one call; valid, or an exception is raised."""
    with tempfile.TemporaryDirectory(prefix="nt") as folder:
        command = [os.path.join(BUILD, "bin", "cinch"), "bench", *SWEEP, "-J", f"{folder}/out.json"]
        command += ["--hosts", str(ranks)] * under_cinch
        command += ["--ranks", str(ranks)] * (launcher == "own")
        settings = dict(os.environ, NCCL_SOCKET_IFNAME="lo", TMPDIR=folder)
        if launcher == "mpirun":
            command = [*mpirun(ranks), *command]
        settings |= CINCH if under_cinch else {}
        done = subprocess.run(command, env=settings, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode not in (0, 1):
            sys.exit(f"bench/report: {' '.join(command)} ended with {done.returncode}")
        with open(f"{folder}/out.json", encoding="utf-8") as file:
            results = json.load(file)
    with open(SCHEMA, encoding="utf-8") as file:
        jsonschema.validate(results, json.load(file))
    return results


def wrong_values(results):
    return sum(
        row[half]["wrong"] for row in results["results"] for half in ("out_of_place", "in_place")
    )


def compressed_rows(results):
    return sum(row["out_of_place"]["path"] == "compressed" for row in results["results"])


def measure_bench():
    figures = {"bench_rows": 0, "bench_wrong": 0, "mpirun": True}
    for ranks in RANKS:
        for launcher in ("own", "mpirun"):
            for under_cinch in (False, True):
                results = run_sweep(ranks, launcher, under_cinch)
                rows, wrong = len(results["results"]), wrong_values(results)
                compressed = compressed_rows(results)
                say(
                    f"== {ranks} ranks, {launcher}, {'under Cinch' if under_cinch else 'plain'}: "
                    f"{rows} rows, {compressed} compressed, {wrong} values wrong"
                )
                figures["bench_rows"] += rows
                figures["bench_wrong"] += wrong
                complete = rows == ROWS and results["ranks"] == ranks
                complete = complete and (compressed > 0) == under_cinch
                figures["mpirun"] &= complete or launcher != "mpirun"
                figures["complete"] = figures.get("complete", True) and complete
    return figures


def read_patches():
    """{name: lines}"""
    patches = {}
    for name in sorted(os.listdir(PATCHES)):
        if name.endswith(".patch"):
            with open(os.path.join(PATCHES, name), encoding="utf-8") as file:
                patches[name] = file.read().splitlines()
    return patches


def measure():
    subprocess.run(
        ["bash", "-euo", "pipefail", "-c", PREPARE], cwd=ROOT, check=True, stdout=sys.stderr
    )
    figures = measure_bench()
    patches = read_patches()
    figures["patch_hunks"] = sum(map(count_hunks, patches.values()))
    figures["patch_context_lines"] = sum(map(count_context_lines, patches.values()))
    figures["results_regenerated"] = results_page.main(["--check"]) == 0
    for name, lines in patches.items():
        for fault in faults(lines):
            say(f"== {name}: {fault}")
    passed = (
        figures.pop("complete")
        and figures["bench_wrong"] == 0
        and not any(map(faults, patches.values()))
        and figures["results_regenerated"]
    )
    return figures, passed
