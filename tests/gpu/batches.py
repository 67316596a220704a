"""What runs when time on a GPU is short: two batches of stages, most wanted first. Items of a stage run side by side, and
end when the stage does. Pure.

A loan is 15 minutes, of which starting a machine and taking files there and back leave some 12: both batches fit into one.
"""

import hashlib
import json
import os

# At most so many seconds, all stages of a batch together.
LIMITS = {1: 480, 2: 240}

# What items are of, and what checks them: one that has passed need not run again until a file of these has changed.
CODEC = ("kernels", "common", "tests/gpu", "tests/unit/kernels", "tests/golden")
CINCH = ("kernels", "interpose", "common", "tests/gpu", "tests/multiproc/surface", "tests/frameworks", "bench/training")
NET = ("net_plugin", "common", "tests/gpu")
TUNER = ("tuner_plugin", "common", "tests/gpu")


class Item:
    def __init__(self, name, check, of):
        self.name = name
        self.check = check  # from a Context to an Outcome
        self.of = of        # folders


class Stage:
    """Items by name, side by side, and the seconds that they have. `why`: what it shows."""

    def __init__(self, seconds, why, *names):
        self.seconds = seconds
        self.why = why
        self.names = names


BATCHES = {
    1: (Stage(20, "every codec once: is anything right at all", "codec smoke"),
        Stage(65, "the GPU alone: how fast", "codec bandwidth"),
        Stage(110, "random and hostile data, seeds dealt out", "codec equals the scalar core"),
        Stage(100, "accesses beyond memory, and what was never written", "codec under compute-sanitizer"),
        Stage(100, "jobs as users run them", "PyTorch DDP, nothing set", "PyTorch CUDA graph", "JAX data parallel, auto",
              "train_lm, plain, q4 and nothing set"),
        Stage(85, "NCCL's calling surface on NCCL, kernels loaded lazily and at once", "surface, lazy loading",
              "surface, eager loading", "2 ranks, plain NCCL", "2 ranks, q4", "2 ranks, CINCH_MODE=off")),
    2: (Stage(20, "every codec once: is anything right at all", "codec smoke"),
        Stage(45, "what the codec's kernels take from others", "PyTorch beside matrix products"),
        Stage(65, "the net plugin beside other jobs", "net plugin, 4 ranks", "PyTorch DDP, plain and q8"),
        Stage(60, "other jobs", "PyTorch FSDP2", "PyTorch ZeRO", "PyTorch coalesced AllReduces",
              "PyTorch's calls on the emulator", "JAX data parallel"),
        Stage(50, "the plugins, and the other codecs", "tuner plugin, 2 ranks", "net plugin, 2 ranks", "2 ranks, q8",
              "2 ranks, h4", "PyTorch DDP, non-blocking")),
}
# "PyTorch abort in the middle" is in none: PyTorch's watchdog takes minutes to see that a rank has gone.
# The first item, and what runs instead of all the rest where it fails.
SMOKE = "codec smoke"
DIAGNOSIS = (Stage(120, "the smoke has failed: where", "codec smoke under memcheck", "codec equals the scalar core",
                   "2 ranks, plain NCCL"),)


def hash_of(root, folders):
    """Of all files in some folders: the same for the same sources."""
    digest = hashlib.sha256()
    for folder in folders:
        for path, _, names in sorted(os.walk(os.path.join(root, folder))):
            for name in sorted(names):
                if name.endswith((".pyc", ".orig")):
                    continue
                with open(os.path.join(path, name), "rb") as file:
                    digest.update(os.path.relpath(file.name, root).encode() + b"\0" + file.read())
    return digest.hexdigest()[:16]


def seen(results, capability, hashes):
    """The names of the items that passed when they last ran on such a GPU, by the results' files, with the sources as they
    are now. `hashes`: by item."""
    passed = {}
    for run in sorted(map(json.loads, results), key=lambda run: run.get("date", "")):
        if run.get("capability") != capability:
            continue
        for row in run["items"]:
            if row["state"] != "skip" and row.get("sources") and row["sources"] == hashes.get(row["name"]):
                passed[row["name"]] = row["state"] == "pass"
    return {name for name, has_passed in passed.items() if has_passed}


class Planned:
    """A stage that will run: which items do, and which have been seen."""

    def __init__(self, stage, wanted, known):
        self.seconds = stage.seconds
        self.why = stage.why
        self.names = tuple(name for name in stage.names if name in wanted and name not in known)
        self.seen = tuple(name for name in stage.names if name in wanted and name in known)


def plan(number, wanted, known=frozenset()):
    """The stages of a batch that have anything to run. The smoke is never taken as seen: it is of this machine."""
    stages = [Planned(stage, wanted, known - {SMOKE}) for stage in BATCHES[number]]
    kept = [stage for stage in stages if stage.names]
    return [] if [stage.names for stage in kept] == [(SMOKE,)] else kept


def text_of(number, stages):
    """For people: when each stage begins at the latest, what it runs, and why."""
    lines, begin = [f"batch {number}: {sum(stage.seconds for stage in stages)} of at most {LIMITS[number]} s"], 0
    for stage in stages:
        lines.append(f"  {begin:3} s  {stage.why} ({stage.seconds} s): {', '.join(stage.names)}")
        if stage.seen:
            lines.append(f"         seen with these sources: {', '.join(stage.seen)}")
        begin += stage.seconds
    return lines
