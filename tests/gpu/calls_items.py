"""The check that the emulator shows what a GPU does: jobs of tests/frameworks make the same NCCL calls on both, call by
call. Both runs have the PyTorch that is here, and Cinch under it only writes the calls down."""

import glob
import json
import os
import sys
import tempfile

from check_support import Failure, Outcome, Skip, run
from job_items import lacks

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
WORKER = os.path.join(ROOT, "tests", "frameworks", "worker.py")
JOBS = ("ddp_plain", "ddp_accumulation", "ddp_find_unused_parameters", "fsdp2_units", "zero_redundancy_optimizer")
SECONDS = 200
# What has to be equal. Addresses, streams and times are each run's own, and so are values: a GPU adds in another order.
FIELDS = ("kind", "op", "type", "count", "root", "rank", "ranks", "captured", "thread")


# --- judge: pure ------------------------------------------------------------------------------------------

def by_communicator(lines):
    """{communicator: its calls in order} of a call log; threads of other communicators may come between."""
    found = {}
    for line in lines:
        call = json.loads(line)
        found.setdefault(call["comm"], []).append(tuple(call[field] for field in FIELDS))
    return found


def words(call):
    return "no call" if call is None else ", ".join(f"{field} {value}" for field, value in zip(FIELDS, call))


def compare(name, gpu, emulator):
    """The number of calls of a job's rank; they must be the same ones."""
    for comm in sorted(gpu.keys() | emulator.keys()):
        ours, theirs = emulator.get(comm, []), gpu.get(comm, [])
        for i in range(max(len(ours), len(theirs))):
            left = theirs[i] if i < len(theirs) else None
            right = ours[i] if i < len(ours) else None
            if left != right:
                raise Failure(f"{name}, communicator {comm}, call {i + 1}: on the GPU {words(left)}; "
                              f"on the emulator {words(right)}")
    return sum(map(len, gpu.values()))


def logs(folder, job):
    """The call logs of a job, by rank."""
    found = {}
    for path in glob.glob(os.path.join(folder, job, "*.calls.jsonl")):
        with open(path, encoding="utf-8") as file:
            lines = [line for line in file if line.endswith("\n")]
        if lines:
            found[json.loads(lines[0])["rank"]] = by_communicator(lines)
    return found


def compare_jobs(gpu_folder, emulator_folder):
    figures = {}
    for job in JOBS:
        gpu, emulator = logs(gpu_folder, job), logs(emulator_folder, job)
        if not gpu or gpu.keys() != emulator.keys():
            raise Failure(f"{job}: call logs of ranks {sorted(gpu)} on the GPU and {sorted(emulator)} on the emulator")
        figures[job] = sum(compare(f"{job}, rank {rank}", gpu[rank], emulator[rank]) for rank in sorted(gpu))
    return figures


# --- runs -------------------------------------------------------------------------------------------------

def run_jobs(variant, folder, environment):
    status, output = run([sys.executable, "-B", WORKER, variant, folder, *JOBS], SECONDS, **environment)
    results = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    for result in results:
        if result["errors"]:
            raise Failure(f"{variant}: {result['job']}: {result['errors'][0].strip().splitlines()[-1]}")
    if status != 0 or len(results) != len(JOBS):
        raise Failure(f"{variant}: {len(results)} of {len(JOBS)} jobs ran: {output[-300:]}")


def prepare_emulator(context):
    """The variables of the emulator, with the operators built for the PyTorch that is here."""
    sys.path.append(os.path.join(ROOT, "emulator", "torch"))
    import environment  # pylint: disable=import-outside-toplevel  # of a folder that is not always needed
    from errors import Unusable  # pylint: disable=import-outside-toplevel

    try:
        return environment.prepare(python=sys.executable, build=context.build).variables(cinch=True)
    except Unusable as reason:
        raise Skip(str(reason)) from None


def calls_item(context):
    if lacks("torch"):
        raise Skip(lacks("torch"))
    context.library("cinch", "libcinch.so")
    emulated = prepare_emulator(context)
    # Ranks are forked from a process that must not have asked CUDA for anything.
    common = {"PYTORCH_NVML_BASED_CUDA_CHECK": "1", "NCCL_SOCKET_IFNAME": "lo"}
    with tempfile.TemporaryDirectory() as gpu_folder, tempfile.TemporaryDirectory() as emulator_folder:
        run_jobs("observe", gpu_folder, {**common, **context.mps.environment, **context.preload()})
        run_jobs("observe", emulator_folder, {**common, **emulated})
        figures = compare_jobs(gpu_folder, emulator_folder)
    return Outcome("pass", f"{len(figures)} jobs, {sum(figures.values())} calls equal", figures)


ITEMS = (("PyTorch's calls on the emulator", calls_item),)
