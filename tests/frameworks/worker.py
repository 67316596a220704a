"""Runs jobs on the emulator, or on CPU tensors over gloo, each rank forked from this process.

    python worker.py VARIANT FOLDER PATTERN ...

session.py starts it with the variant's environment; the variant "observe" has Cinch only write down the calls, on a
GPU (tests/gpu/check) or the emulator; "cinch-unset" leaves Cinch all its defaults. It prints a line of JSON for each
job as soon as it has ended; the ranks' files are in FOLDER/JOB.
"""
import contextlib
import hashlib
import json
import os
import sys
import time

import ranks
import registry
import truth


@contextlib.contextmanager
def gpus_not_counted():
    """Frameworks ask for GPUs when they are imported. An answer from CUDA would initialise it in this
    process, and then no forked one could use it."""
    import torch

    asked = torch.cuda.device_count, torch.cuda.is_available
    there = "CINCH_TORCH_OPERATORS" in os.environ  # the emulator's
    torch.cuda.device_count, torch.cuda.is_available = lambda: int(there), lambda: there
    try:
        yield
    finally:
        torch.cuda.device_count, torch.cuda.is_available = asked


def digest(tensors):
    """Of the tensors' bytes, in their order."""
    import torch

    whole = hashlib.sha256()
    for tensor in tensors:
        local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
        whole.update(local.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return whole.hexdigest()[:16]


def prepare_torch(device):
    """What makes two runs equal, and one on CPU tensors equal to one on the emulator: one thread, and the
    attention that both have."""
    import torch
    from jobs.workloads import seed

    torch.set_num_threads(1)
    torch.backends.cuda.enable_flash_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    torch.manual_seed(seed())
    if device == "cuda":
        torch.cuda.set_device(0)


def run_job(job, device):
    """The rank's part of the job."""
    import torch
    import torch.distributed as dist

    prepare_torch(device)
    if not job.makes_group:
        dist.init_process_group("nccl" if device == "cuda" else "gloo",
                                device_id=torch.device("cuda", 0) if device == "cuda" else None)
    result = job.function(device)
    ended = {"process": os.getpid(), "loss": result.loss, "losses": result.losses, "intact": result.intact,
             "parameters": digest(result.tensors), "figures": result.figures}
    if dist.is_initialized():
        dist.destroy_process_group()
    return ended


def environment_of(job, variant, folder):
    files = {"JOB_MARKS": f"{folder}/%p.marks.jsonl", "CINCH_STATS": f"{folder}/%p",
             "CINCH_CALL_LOG": f"{folder}/%p"}
    of_variants = {"cinch": files | {"CINCH_WHEN": "always"}, "observe": files | {"CINCH_MODE": "observe"},
                   # The log of calls would slow them down, and Cinch compares times.
                   "cinch-unset": {"CINCH_STATS": files["CINCH_STATS"]}}
    return {
        "TORCH_DIST_USE_NCCL2": "0" if variant.endswith("-old") else "1",
        **of_variants.get(variant.removesuffix("-old"), {}),
        **job.environment,
    }


def reason_to_skip(job, variant):
    if variant == "gloo":
        return job.not_on_gloo
    if variant.endswith("-old") and not job.back_ends_differ:
        return "the older back end makes the same large calls; other jobs cover its small ones"
    return ""


def run(job, variant, folder):
    device = "cpu" if variant == "gloo" else "cuda"
    os.makedirs(folder, exist_ok=True)
    begun = time.monotonic()
    outcomes = ranks.run_ranks(lambda rank: run_job(job, device), job.ranks, timeout=job.timeout,
                               environment=environment_of(job, variant, folder), hosts=ranks.hosts_from(os.environ))
    for outcome in outcomes:
        with open(f"{folder}/rank{outcome.rank}.log", "w", encoding="utf-8") as log:
            log.write(outcome.output + outcome.error)
    results = [outcome.result for outcome in outcomes]
    line = {"seconds": round(time.monotonic() - begun, 1), "ranks": results,
            "errors": [outcome.error for outcome in outcomes if not outcome.ok]}
    if variant.startswith("cinch"):
        logs = [truth.read_process(folder, result["process"]) for result in results if result]
        if job.ranks == 2 == len(logs) and all(logs):
            line["beside"] = truth.sums_beside(logs, job.truth)
        for result in filter(None, results):
            process = result.pop("process")
            result["carried"] = truth.of_process(folder, process, job.truth)
            result["reported"] = truth.reported_share(folder, process)
    return line


def main(variant, folder, *patterns):
    jobs = registry.chosen(patterns)
    with gpus_not_counted():
        ranks.import_early(sorted({module for job in jobs for module in job.imports}))
    for job in jobs:
        facts = {"job": job.name, "family": job.family, "replicated": job.replicated,
                 "compressible": job.compressible, "indistinct": job.indistinct, "late": job.late}
        if reason := reason_to_skip(job, variant):
            line = {"skipped": reason}
        else:
            line = run(job, variant, os.path.join(folder, job.name))
        print(json.dumps(facts | line), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
