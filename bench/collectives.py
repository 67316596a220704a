#!/usr/bin/env python3
"""AllReduce over slow links, plain and under Cinch, beside each other: `cinch bench` on the emulator.

    bench/collectives.py [--build build] [--ranks 2] [--rates 1gbit,10gbit] [--rounds 3] [--out FILE]

Each rank is a process in a network namespace of its own behind a link of the given rate in both
directions (needs root). The same number of values is added up in fp32 by plain NCCL, in bf16 by plain
NCCL, and by Cinch; all sweeps are made in turns, and each time is the median of the rounds. FILE gets
the figures as JSON, with the machine, the commit and the command; so does standard output.
"""

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from datetime import date

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True

from lab import machine, rate  # noqa: E402
from lab.job import Job, JobFailed  # noqa: E402
from lab.network import SlowLinks, remove_leftovers  # noqa: E402

# What is measured: type, and Cinch's codec where it is there.
VARIANTS = {
    "fp32": ("float", None),
    "bf16": ("bfloat16", None),
    "fp32 q8": ("float", "q8"),
    "fp32 q4": ("float", "q4"),
    "bf16 q4": ("bfloat16", "q4"),
    "fp32 h2": ("float", "h2"),
}
VALUE_BYTES = {"float": 4, "bfloat16": 2}
PATIENCE = 300  # seconds, for a sweep


def say(text):
    print(text, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Sweep:
    """Numbers of values from the smallest to the largest, calls of each, and which half of the rows
    counts: in_place comes behind the calls of out_of_place."""

    smallest: int = 1 << 12
    largest: int = 1 << 24
    factor: int = 4
    timed: int = 5
    warm: int = 6
    half: str = "out_of_place"

    def flags(self, value_bytes):
        sizes = {"-b": self.smallest * value_bytes, "-e": self.largest * value_bytes}
        calls = {"-f": self.factor, "-n": self.timed, "-w": self.warm, "-c": 1}
        return [str(word) for pair in (sizes | calls).items() for word in pair]


@dataclass(frozen=True)
class Bench:
    """Sweeps of `cinch bench` over one network, a rank on each of its hosts."""

    build: str
    network: object
    nccl: tuple = ("--emulator",)  # which one, as `cinch bench` has it
    environment: dict = field(default_factory=dict)  # of all ranks
    settings: dict = field(default_factory=dict)  # of Cinch, where it is there

    def sweep(self, value_type, codec, plan=Sweep()):
        """{values: half of the row}; all of them are right, or JobFailed is raised. Without a codec
        it is NCCL alone."""
        ranks = range(self.network.ranks)
        with tempfile.TemporaryDirectory(prefix="cinch-collectives-") as folder:
            commands = [self._command(rank, folder, value_type, plan) for rank in ranks]
            environments = [self._environment(rank, codec) for rank in ranks]
            with Job(folder, commands, environments) as job:
                job.wait(lambda: None, PATIENCE)
            with open(f"{folder}/out.json") as file:
                results = json.load(file)
        return {row["count"]: row[plan.half] for row in results["results"]}

    def _command(self, rank, folder, value_type, plan):
        where = [*self.nccl, "--id-file", f"{folder}/id", "-J", f"{folder}/out.json"]
        program = [os.path.join(self.build, "bin", "cinch"), "bench", "all_reduce"]
        flags = plan.flags(VALUE_BYTES[value_type])
        return self.network.command(rank, [*program, "-d", value_type, *flags, *where])

    def _environment(self, rank, codec):
        kept = {n: v for n, v in os.environ.items() if not n.startswith(("CINCH_", "OMPI_"))}
        world = {"RANK": rank, "WORLD_SIZE": self.network.ranks, "LOCAL_RANK": 0}
        world |= {"NCCL_HOSTID": f"host-{rank}", "NCCL_SOCKET_IFNAME": self.network.interface}
        world["NCCL_IB_DISABLE"] = 1  # the link is the one of the namespace
        if codec:
            library = os.path.join(self.build, "lib", "libcinch.so")
            world |= {"LD_PRELOAD": library, "CINCH_CODEC": codec} | self.settings
        return kept | self.environment | {name: str(value) for name, value in world.items()}


def merged(sweeps):
    """One row per size: the median time of the rounds, the rest as the last found it."""
    rows = []
    for count, last in sweeps[-1].items():
        times = [sweep[count]["time_us"] for sweep in sweeps]
        rows.append(
            {
                "values": count,
                "time_us": round(statistics.median(times), 1),
                "fastest_us": round(min(times), 1),
                "slowest_us": round(max(times), 1),
                "ratio": round(last["ratio"], 2),
                "nmse": last["nmse"],
                "path": last["path"],
                "wrong": sum(sweep[count]["wrong"] for sweep in sweeps),
            }
        )
    return rows


def measure(options, text):
    with SlowLinks(options.ranks, text, rate.bits_per_second(text)) as network:
        bench = Bench(options.build, network, settings={"CINCH_MIN_BYTES": "1K"})
        sweeps = {name: [] for name in VARIANTS}
        for turn in range(options.rounds):
            for name, found in sweeps.items():
                found.append(bench.sweep(*VARIANTS[name]))
                largest = found[-1][max(found[-1])]
                say(f"== {text}, round {turn + 1}, {name}: {largest['time_us'] / 1000:.1f} ms")
        return {
            "link": text,
            "network": network.describe(),
            "variants": {name: merged(found) for name, found in sweeps.items()},
        }


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rates", default="1gbit,10gbit")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out")
    options = parser.parse_args()
    try:
        for text in options.rates.split(","):
            rate.bits_per_second(text)
    except ValueError as error:
        parser.error(str(error))
    if os.geteuid() != 0:
        parser.error("network namespaces need root")
    return options


def main():
    options = parse()
    remove_leftovers()
    arguments = shlex.join(sys.argv[1:]).replace(options.build, "BUILD")
    arguments = arguments.replace(options.out or "\0", "FILE")
    figures = {
        "kind": "collectives",
        "date": date.today().isoformat(),
        "commit": machine.commit(ROOT),
        "machine": machine.describe() | {"nccl": "the emulator"},
        "command": f"bench/collectives.py {arguments}".strip(),
        "ranks": options.ranks,
    }
    try:
        figures["links"] = [measure(options, text) for text in options.rates.split(",")]
    except (JobFailed, OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"bench/collectives.py: {error}")
    if options.out:
        with open(options.out, "w") as file:
            json.dump(figures, file, indent=1)
            file.write("\n")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
