"""Runs both batches of tests/gpu/check where the emulator stands in for the GPU, with three items planted: one hangs, one
crashes, one fails. All the others pass or are skipped, whatever these do, and what everybody printed is kept.

check_rehearsal.py BUILD
"""

import os
import sys
import tarfile
import tempfile
import time
import types

import batches
import codec_items
import surface_items
from batches_test import CRASHES, FAILS, HANGS, check, program
from check_support import Context

PLANTED = {"planted, hangs": (HANGS, "about to hang"), "planted, crashes": (CRASHES, "about to crash"),
           "planted, fails": (FAILS, "about to fail")}
PLANTED_SECONDS = 5
# By their names on a machine with a GPU.
PROGRAMS = {"tests/codec_gpu_test": "tests/codec_gpu_rehearsal_test", "bin/codec_gpu_bench": "tests/codec_gpu_bench_rehearsal",
            "bin/net_ranks": "tests/net_ranks_rehearsal", "tests/surface_rank": "tests/surface_rank", "bin/cinch": "bin/cinch", "lib": "lib", "emulator": "emulator"}
# What has to pass here; jobs of frameworks, and programs that need CUDA's own headers, are left to a GPU.
MUST_PASS = {"codec smoke", "codec bandwidth", "codec equals the scalar core", "surface, lazy loading", "surface, eager loading"}
# NCCL's own network, plugins' speed and its tuner are not the emulator's.
LEFT_OUT = r"^(?!net plugin|tuner|cinch tune|train_lm|PyTorch|JAX)"


def link_programs(build, folder):
    for name, target in PROGRAMS.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.symlink(os.path.join(build, target), path)


def items():
    found = {item.name: item for item in check.ITEMS + check.DIAGNOSES}
    found["codec bandwidth"].check = lambda context: codec_items.bandwidth(context.program("codec_gpu_bench"), "1")
    for name, (text, _) in PLANTED.items():
        found[name] = batches.Item(name, program(text), ())
    return found


def rehearse(number, run, wanted):
    stages = batches.plan(number, {name for name in wanted if check.re.search(LEFT_OUT, name)})
    stages.insert(1, batches.Planned(batches.Stage(PLANTED_SECONDS, "planted", *PLANTED), set(PLANTED), set()))
    begin = time.monotonic()
    check.run_stages(run, stages, wanted, begin)
    took = time.monotonic() - begin
    print(f"batch {number}: {took:.0f} s")
    assert took < batches.LIMITS[number] + PLANTED_SECONDS, took
    return {name for stage in stages for name in stage.names}


def outputs(folder):
    archive = next(name for name in os.listdir(folder) if name.endswith(".tar.gz"))
    with tarfile.open(os.path.join(folder, archive)) as file:
        return {os.path.basename(each.name): file.extractfile(each).read().decode() for each in file if each.isfile()}


def judge(rows, planned, logs):
    states = {row["name"]: row["state"] for row in rows}
    assert set(states) == planned, planned - set(states)
    for name, (_, text) in PLANTED.items():
        assert states[name] == "fail", name
        assert any(text in log for file, log in logs.items() if file.startswith(name.replace(", ", "-"))), name
    unexpected = {name: state for name, state in states.items() if name not in PLANTED and state == "fail"}
    assert not unexpected, [row for row in rows if row["name"] in unexpected]
    missed = {name for name in MUST_PASS & planned if states[name] != "pass"}
    assert not missed, [row for row in rows if row["name"] in missed]


def main(build):
    codec_items.SHARES = 2
    os.environ |= {"CINCH_GPU_TEST_ROUNDS": "1", "GTEST_FILTER": "CudaCodec.*-*Refuses*"}
    surface_items.library_path = lambda: os.path.join(build, "emulator")
    surface_items.emulated = lambda *_: []
    gpu = types.SimpleNamespace(name="the emulator", capability=90, driver="13.0", slug=lambda: "emulator")
    mps = types.SimpleNamespace(environment={}, reason=None)
    with tempfile.TemporaryDirectory() as folder:
        link_programs(os.path.abspath(build), folder)
        context = Context(check.ROOT, folder, gpu, mps, [])
        context.not_built = {"two_ranks": "the emulator's CUDA has no 16-bit types"}
        for number in batches.LIMITS:
            with tempfile.TemporaryDirectory() as kept:
                results = check.Results(gpu, kept, {})
                run = check.Run(context, results.write, results.logs.name, lambda folders: "")
                planned = rehearse(number, run, items())
                judge(run.rows, planned, outputs(kept))
                results.logs.cleanup()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
