#!/usr/bin/env python3
"""Is Cinch ever slower than plain NCCL, or than the best fixed choice? AllReduce on the emulator over
links of many rates, sizes, types and numbers of ranks; plain, by Cinch's own choice, and by fixed codecs:
as many jobs, which take turns to make a burst of calls. A round starts all of them anew. Cells where
Cinch looks slower than it may be get more rounds: all bursts of all rounds count.

    bench/schedule/grid.py BUILD [--links 50mbit,1gbit,none] [--jobs 2x1,4x1,2x2] [--types fp32,bf16]
                           [--sizes 64K,1M] [--rounds 2] [--out FILE] [--corner]

Every host is a network namespace (needs root). A job is HOSTSxRANKS. The figures go to FILE as JSON,
with the machine and the commit; the table and the heat map to standard output.
"""

import argparse
import json
import os
import pathlib
import statistics
import sys
from datetime import date

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
sys.dont_write_bytecode = True

from lab import machine, rate  # noqa: E402
from lab.network import SlowLinks, remove_leftovers  # noqa: E402
from schedule import heat  # noqa: E402
from schedule.job import VARIANTS, Runner, Task  # noqa: E402

LINKS = "none,1gbit,100mbit,50mbit"
JOBS = "2x1,4x1,2x2"
TYPES = "fp32,bf16"
SIZES = "16K,64K,256K,1M,4M,16M,64M"
CORNER = {"links": "50mbit,none", "jobs": "2x1", "types": "fp32", "sizes": "64K,1M", "rounds": 1}
# Seconds of calls, roughly: of a burst, and before the first one. Connections and codecs warm up, and Cinch
# compares: a round of each challenger takes 0.8 s, and some need several.
SECONDS = 0.05
WARM_SECONDS = {"pass": 0.1, "auto": 5.0}
WARM_SECONDS_FIXED = 0.1
FEWEST, MOST = 8, 1000
FEWEST_WARM, MOST_WARM = {"pass": 3, "auto": 136}, {"auto": 100_000}
FEWEST_WARM_FIXED, MOST_WARM_OTHERS = 4, 50
BURSTS = 5
# What is done beside them disturbs short calls most.
SHORT_CALL, MANY_BURSTS = 2e-3, 15  # seconds, plain
# Of long calls all are in one burst: pauses between bursts are drifts to Cinch, which it looks into.
LONG_CALL, WARM_LONG, CALLS_LONG = 0.15, {"pass": 2, "auto": 104}, 16
# Of calls that take so long the link's rate decides nearly alone: few of them, and one round, are
# enough, and of the slowest one burst.
SLOWEST_CALL, FEWEST_SLOWEST = 0.5, 3
HARDLY_ENDS = 2  # seconds
WARM_SLOWEST = {"pass": 1, "auto": 56}
WARM_FIXED_SLOWEST = 2  # which pass
# How much slower auto may be than plain NCCL, and than the best fixed choice. What else the machine
# does may last for a round.
VS_PASS, VS_BEST = 1.05, 1.1
MORE_ROUNDS = 3
EMULATOR_BITS = 4e9  # bit/s, that it comes to without a limit, roughly; less where ranks share cores


def say(text):
    print(text, file=sys.stderr, flush=True)


def plain_seconds(n_bytes, ranks, bits_per_second):
    return 1e-3 + 16 * n_bytes * (ranks - 1) / ranks / bits_per_second


def calls_of(variant, seconds):
    """(before those that count, of a burst) of a size whose plain calls take so long."""
    if seconds >= SLOWEST_CALL:
        return WARM_SLOWEST.get(variant, WARM_FIXED_SLOWEST), FEWEST_SLOWEST
    if seconds >= LONG_CALL:
        return WARM_LONG.get(variant, FEWEST_WARM_FIXED), CALLS_LONG
    estimate = seconds if variant == "pass" else seconds / 4
    warm = int(WARM_SECONDS.get(variant, WARM_SECONDS_FIXED) / estimate)
    fewest = FEWEST_WARM.get(variant, FEWEST_WARM_FIXED)
    warm = max(fewest, min(MOST_WARM.get(variant, MOST_WARM_OTHERS), warm))
    return warm, max(FEWEST, min(MOST, int(SECONDS / estimate)))


def bursts_of(seconds):
    if seconds >= SLOWEST_CALL:
        return 2 if seconds < HARDLY_ENDS else 1
    if seconds >= LONG_CALL:
        return 1
    return BURSTS if seconds >= SHORT_CALL else MANY_BURSTS


class Cells:
    """One link, one job, one type: all sizes and variants."""

    def __init__(self, options, network, job, kind):
        self._runner, self._options = Runner(options.build, network), options
        self._kind, (self._hosts, self._per_host) = kind, job
        fastest = EMULATOR_BITS / max(1, self._hosts * self._per_host / os.cpu_count())
        self._rate = min(network.bits_per_second or fastest, fastest)
        self._found = {size: {variant: [] for variant in VARIANTS} for size in options.sizes}

    def measure(self):
        for turn in range(self._options.rounds):
            self._run(turn, [size for size in self._options.sizes if self._has_round(turn, size)])
        for turn in range(self._options.rounds, self._options.rounds + MORE_ROUNDS):
            self._run(turn, [size for size in self._options.sizes if is_slow(self._cell(size))])
        return [self._cell(size) for size in self._options.sizes]

    def _has_round(self, turn, size):
        return turn == 0 or self._plain_seconds(size) < SLOWEST_CALL

    def _plain_seconds(self, size):
        return plain_seconds(size, self._hosts * self._per_host, self._rate)

    def _calls(self, variant, size):
        return calls_of(variant, self._plain_seconds(size))

    def _task(self, variant, sizes):
        plan = [
            (size, *self._calls(variant, size), bursts_of(self._plain_seconds(size)))
            for size in sizes
        ]
        return Task(variant, plan, self._kind, self._per_host, checks="last")

    def _run(self, turn, sizes):
        if not sizes:
            return
        say(f"== {self._kind} {self._hosts}x{self._per_host}: round {turn + 1} of {sizes}")
        results = self._runner.contest([self._task(variant, sizes) for variant in VARIANTS])
        for variant, found in zip(VARIANTS, results):
            for size in sizes:
                self._found[size][variant].append(found[size])

    def _cell(self, size):
        figures, medians = {}, {}
        for variant, runs in self._found[size].items():
            calls = self._calls(variant, size)
            medians[variant] = [median for run in runs for median in run.medians(*calls)]
            figures[variant] = {
                "seconds": statistics.median(medians[variant]),
                "bursts": [float(f"{median:.4g}") for median in medians[variant]],
                "passed": statistics.mean(run.nmse[-1] == 0 for run in runs),
                "nmse": max(run.nmse[-1] for run in runs),
                "bits": runs[-1].bits,
            }
        return {"bytes": size, "variants": figures} | ratios(medians)


def is_slow(cell):
    return cell["vs_pass"] > VS_PASS or cell["vs_best"] > VS_BEST


def ratios(bursts):
    """How auto's time compares, from each variant's in every burst: those that followed each other are
    held against each other, and the median of that counts. Which fixed choice is the best beside a
    burst the others say: the least of several times that are alike but for noise is less than any of
    them should be."""
    turns = range(len(bursts["auto"]))
    fixed = [name for name in bursts if name != "auto"]

    def seconds_in_others(name, turn):
        others = [value for i, value in enumerate(bursts[name]) if i != turn]
        return statistics.mean(others or bursts[name])

    best = [min(fixed, key=lambda name: seconds_in_others(name, turn)) for turn in turns]

    def against(names):
        return statistics.median(
            bursts["auto"][turn] / bursts[name][turn] for turn, name in zip(turns, names)
        )

    return {"vs_pass": against(["pass"] * len(turns)), "vs_best": against(best)}


def measure_link(options, link):
    """The cells over one link, all of a job and type at a time."""
    for job in options.jobs:
        bits = None if link == "none" else rate.bits_per_second(link)
        with SlowLinks(job[0], None if link == "none" else link, bits) as network:
            for kind in options.types:
                say(f"== {link}, {job[0]} hosts x {job[1]} ranks, {kind}")
                facts = {"link": link, "hosts": job[0], "ranks_per_host": job[1], "type": kind}
                cells = Cells(options, network, job, kind).measure()
                yield [facts | cell for cell in cells]


def number_of_bytes(text):
    units = {"K": 1 << 10, "M": 1 << 20}
    return int(text[:-1]) * units[text[-1]] if text[-1] in units else int(text)


def changed(parser, options):
    """(option, value) of what is measured, where it is not the default."""
    return [
        (name, vars(options)[name])
        for name in ("links", "jobs", "types", "sizes", "rounds", "corner")
        if vars(options)[name] != parser.get_default(name)
    ]


def parse(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("build")
    parser.add_argument("--links", default=LINKS)
    parser.add_argument("--jobs", default=JOBS)
    parser.add_argument("--types", default=TYPES)
    parser.add_argument("--sizes", default=SIZES)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--out")
    parser.add_argument("--corner", action="store_true", help="a few cells, in a minute or two")
    options = parser.parse_args(arguments)
    options.given = [f"--{name} {value}" for name, value in changed(parser, options)]
    if options.corner:
        vars(options).update(CORNER)
    options.links = options.links.split(",")
    options.jobs = [tuple(map(int, job.split("x"))) for job in options.jobs.split(",")]
    options.types = options.types.split(",")
    options.sizes = [number_of_bytes(size) for size in options.sizes.split(",")]
    if os.geteuid() != 0:
        parser.error("network namespaces need root")
    return options


def keep(figures, path):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(figures, file, indent=1)
        file.write("\n")


def measure(options):
    """All cells, with where they were measured; what there is is kept as it comes."""
    remove_leftovers()
    figures = {
        "kind": "schedule",
        "date": date.today().isoformat(),
        "commit": machine.commit(str(ROOT)),
        "machine": machine.describe() | {"nccl": "the emulator"},
        "command": " ".join(["bench/schedule/grid.py BUILD", *options.given]),
        "rounds": options.rounds,
        "cells": [],
    }
    for link in options.links:
        for cells in measure_link(options, link):
            figures["cells"] += cells
            if options.out:
                keep(figures, options.out)
    return figures


def main(arguments=None):
    options = parse(arguments)
    figures = measure(options)
    print(heat.table(figures["cells"]))
    print(heat.maps(figures["cells"]))
    return figures


if __name__ == "__main__":
    main()
