"""The checks of whole PyTorch and JAX jobs (jobs/*.py, which know nothing of Cinch): each runs once plain and
once with Cinch under it, and a judge compares what the two left behind. A job that does not even run plain is
skipped."""

import functools
import json
import os
import statistics
import sys
import tempfile

from check_items import EXACT_LIMITS, NMSE_LIMITS
from check_support import MISSING, RANKS, Failure, Outcome, Skip, run, run_on_one_gpu, run_ranks, tail

JOBS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "jobs")
JOB_SECONDS = 150
# What all jobs can be compared under: the shortest of them end, or are captured, before their step is learned.
NEAR_LOSSLESS = {"CINCH_CODEC": "q8", "CINCH_SLOTS": "signature"}
# XLA reduces the loss with the gradients, which q8 does not survive (docs/support.md); auto's guard sees it some twenty
# calls on.
EXAMINED = {"CINCH_WHEN": "always", "CINCH_SLOTS": "signature"}
# Between a plain job and a compressed one, the relative difference of the mean loss of the last ten steps.
LOSS_BOUND = 0.02
LAST_STEPS = 10
# PyTorch's watchdog may wait a minute for the group's timeout and another for its own dumps.
ABORT_SECONDS = 200

SEES_GPU = {"torch": "import torch; assert torch.cuda.is_available()",
            "jax": "import jax; assert jax.default_backend() == 'gpu'"}
FRAMEWORK_ENVIRONMENT = {"torch": {}, "jax": {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}}


# --- judges: pure -----------------------------------------------------------------------------------------

def compressed_calls(report, kind):
    """How many calls of a kind ("AllReduce") a process's report counts as compressed."""
    return sum(slot["calls"] for communicator in report["communicators"] for slot in communicator["slots"]
               if slot["name"].split()[0] == kind)


def why_passed(report):
    """What a report says of calls that were not compressed, in words."""
    return "; ".join(f"{communicator['name']}: {communicator['verdict']}, passed {communicator['passed']}"
                     for communicator in report["communicators"]) or "no communicators"


def judge_reports(reports, kind):
    """The compressed calls of one rank; all must have compressed equally many."""
    counts = [compressed_calls(report, kind) for report in reports]
    if 0 in counts:
        rank = counts.index(0)
        raise Failure(f"rank {rank} compressed no {kind}: {why_passed(reports[rank])}")
    if len(set(counts)) != 1:
        raise Failure(f"the ranks compressed different numbers of {kind}s: {counts}")
    return counts[0]


def last_loss(result):
    return statistics.mean(result["losses"][-LAST_STEPS:])


def judge_training(plain, compressed):
    """The two losses; the ranks must agree, and compression must show in the weights but not in the loss."""
    for name, results in (("plain", plain), ("compressed", compressed)):
        if len({result["weights"] for result in results}) != 1:
            raise Failure(f"{name}: the ranks' weights differ")
    if compressed[0]["weights"] == plain[0]["weights"]:
        raise Failure("the same weights as without compression")
    losses = {"plain": last_loss(plain[0]), "compressed": last_loss(compressed[0])}
    if not abs(losses["compressed"] - losses["plain"]) <= LOSS_BOUND * losses["plain"]:
        raise Failure(f"loss {losses['compressed']} against {losses['plain']}")
    return Outcome("pass", "loss {plain:.4f} plain, {compressed:.4f} compressed".format(**losses), losses)


def judge_replays(plain, compressed):
    """Each replay must give the sum of that replay's inputs, the same bits on all ranks."""
    low, high = NMSE_LIMITS["q8"]
    for name, results, least, most in (("plain", plain, 0, EXACT_LIMITS["fp32"]), ("q8", compressed, low, high)):
        for number, replays in enumerate(zip(*(result["replays"] for result in results), strict=True)):
            if not all(least <= replay["nmse"] <= most for replay in replays):
                raise Failure(f"{name}: replay {number} has error {replays[0]['nmse']}, expected {least} to {most}")
            if len({replay["checksum"] for replay in replays}) != 1:
                raise Failure(f"{name}: the ranks differ in replay {number}")
    errors = [replay["nmse"] for replay in compressed[0]["replays"]]
    if not errors:
        raise Failure("nothing was replayed")
    return Outcome("pass", f"{len(errors)} replays, NMSE at most {max(errors):.2e}", {"nmse": max(errors)})


def judge_abort(outcomes):
    """The last rank has aborted and ended well; the others must have been ended by what they saw of it."""
    hung = [rank for rank, outcome in enumerate(outcomes) if outcome.status is None]
    if hung:
        raise Failure(f"rank {hung[0]} hung: {tail(outcomes[hung[0]].output)}")
    if outcomes[-1].status != 0:
        raise Failure(f"the rank that aborts ended with {outcomes[-1].status}: {tail(outcomes[-1].output)}")
    unaware = [rank for rank, outcome in enumerate(outcomes[:-1]) if outcome.status == 0]
    if unaware:
        raise Failure(f"rank {unaware[0]} did not notice that another had aborted")


# --- runs -------------------------------------------------------------------------------------------------

@functools.cache
def lacks(framework):
    """Why jobs of a framework cannot run here; empty where they can."""
    status, output = run([sys.executable, "-c", SEES_GPU[framework]], 120, **FRAMEWORK_ENVIRONMENT[framework])
    return "" if status == 0 else f"{sys.executable} has no {framework} that sees the GPU: {tail(output, 1)}"


def command_of(script):
    return [sys.executable, os.path.join(JOBS, script)]


def report_environment(folder):
    """By rank, where its report goes."""
    return {rank: {"CINCH_STATS": os.path.join(folder, f"report-{rank}")} for rank in range(RANKS)}


def read_reports(folder):
    reports = []
    for rank in range(RANKS):
        path = os.path.join(folder, f"report-{rank}.json")
        if not os.path.exists(path):
            raise Failure(f"rank {rank} wrote no report: its calls did not reach Cinch")
        with open(path, encoding="utf-8") as file:
            reports.append(json.load(file))
    return reports


def run_plain(job):
    """What job() returns; a job that fails without Cinch says nothing about it."""
    try:
        return job()
    except Failure as failure:
        raise Skip(f"it fails without Cinch, too: {failure}") from None


def job_item(script, framework, kind, judge, environment=None, settings=NEAR_LOSSLESS):
    """An item that runs a script plain and under Cinch, and has the judge compare the results by rank."""
    def item(context):
        if lacks(framework):
            raise Skip(lacks(framework))
        base = {**FRAMEWORK_ENVIRONMENT[framework], **(environment or {})}
        with tempfile.TemporaryDirectory() as folder:
            preload = context.preload(**settings, **base)
            plain = run_plain(lambda: run_on_one_gpu(context, command_of(script), base, JOB_SECONDS))
            compressed = run_on_one_gpu(context, command_of(script), preload, JOB_SECONDS,
                                        report_environment(folder))
            calls = judge_reports(read_reports(folder), kind)
        outcome = judge(plain, compressed)
        outcome.note += f", {calls} {kind}s compressed"
        outcome.figures.update(calls=calls, framework=plain[0][framework])
        return outcome
    return item


def run_abort(context, environment, rank_env=None):
    # Not under MPS, whose other clients a process that ends in the middle of a kernel may take with it.
    alone = {**dict.fromkeys(context.mps.environment), "CUDA_MPS_PIPE_DIRECTORY": None}
    outcomes = run_ranks(command_of("abort.py"), RANKS, env={**alone, **environment}, rank_env=rank_env,
                         deadline=ABORT_SECONDS)
    for outcome in outcomes:
        if outcome.status == MISSING:
            raise Skip(tail(outcome.output, 1))
    judge_abort(outcomes)


def abort_item(context):
    if lacks("torch"):
        raise Skip(lacks("torch"))
    with tempfile.TemporaryDirectory() as folder:
        preload = context.preload(**NEAR_LOSSLESS)
        run_plain(lambda: run_abort(context, {}))
        run_abort(context, preload, report_environment(folder))
        calls = compressed_calls(read_reports(folder)[-1], "AllReduce")
    if calls == 0:
        raise Failure("nothing had been compressed before the abort")
    return Outcome("pass", f"all ended, after {calls} compressed AllReduces", {"calls": calls})


def judge_overlap(runs):
    """What each run took, slowest rank first: {"25%": results of Cinch with that share of the SMs, "plain": ...}. Whichever of
    them there was time for."""
    figures = {f"{name} {what}_ms": max(result["ms"][what] for result in results)
               for name, results in runs.items() for what in ("products", "reduce", "both")}
    note = "; ".join(f"{name}: " + ", ".join(f"{what} {figures[f'{name} {what}_ms']:.2f} ms" for what in ("products", "reduce", "both"))
                     for name in runs)
    return Outcome("pass", note, figures)


def overlap_item(context):
    if lacks("torch"):
        raise Skip(lacks("torch"))
    command, runs = command_of("overlap.py"), {}
    for percent in ("25", "100"):
        with tempfile.TemporaryDirectory() as folder:
            preload = context.preload(CINCH_WHEN="always", CINCH_SLOTS="signature", CINCH_SM_PERCENT=percent)
            runs[f"{percent}%"] = run_on_one_gpu(context, command, preload, JOB_SECONDS, report_environment(folder))
            judge_reports(read_reports(folder), "AllReduce")
    try:
        runs["plain"] = run_on_one_gpu(context, command, {}, JOB_SECONDS)
    except Failure:  # the time is over: the others are what is wanted most
        pass
    return judge_overlap(runs)


ITEMS = (
    ("PyTorch DDP, plain and q8", job_item("ddp.py", "torch", "AllReduce", judge_training)),
    ("PyTorch DDP, nothing set", job_item("ddp.py", "torch", "AllReduce", judge_training, settings={})),
    ("PyTorch FSDP2", job_item("fsdp2.py", "torch", "ReduceScatter", judge_training)),
    ("PyTorch coalesced AllReduces", job_item("coalesced.py", "torch", "AllReduce", judge_training)),
    ("PyTorch ZeRO", job_item("zero.py", "torch", "ReduceScatter", judge_training)),
    ("PyTorch DDP, non-blocking", job_item("ddp.py", "torch", "AllReduce", judge_training,
                                           {"TORCH_NCCL_USE_COMM_NONBLOCKING": "1"})),
    ("PyTorch CUDA graph", job_item("graph.py", "torch", "AllReduce", judge_replays)),
    ("JAX data parallel", job_item("jax_data_parallel.py", "jax", "AllReduce", judge_training)),
    ("JAX data parallel, auto", job_item("jax_data_parallel.py", "jax", "AllReduce", judge_training, settings=EXAMINED)),
    ("PyTorch beside matrix products", overlap_item),
    ("PyTorch abort in the middle", abort_item),
)
