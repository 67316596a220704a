#!/usr/bin/env python3
"""Is a training step ever slower under Cinch than plain, and is what compressing gains always found?
Programs that train on the emulator, plain, by Cinch's own choice and always compressed.

    bench/step/grid.py BUILD [--links 100mbit,1gbit,none] [--jobs 2x1,2x2] [--backward 0,1,4] [--steps 400]
                             [--waits 1,10] [--bytes 1M]

Every host is a network namespace (needs root). A job is HOSTSxRANKS, or HOSTSxRANKSxNETWORKS: networks that are
trained in turn, each with a communicator of its own. The backward pass takes so many
times what the sums of a step take alone. Prints a row for each cell, and one JSON object.
"""

import argparse
import json
import pathlib
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
sys.dont_write_bytecode = True

from lab import rate  # noqa: E402
from lab.network import SlowLinks, remove_leftovers  # noqa: E402
from step.job import run  # noqa: E402

ALONE_STEPS = 40  # to find out what the sums take alone
# Its first steps, in which a program and Cinch learn what a step is.
FIRST = 12
LATE = 0.25  # of the steps: long after the first decision


def say(text):
    print(text, file=sys.stderr, flush=True)


def cell(build, options, link, job, backward, wait_every):
    hosts, ranks_per_host, networks = (*map(int, job.split("x")), 1)[:3]
    bits = None if link == "none" else rate.bits_per_second(link)
    with SlowLinks(hosts, None if link == "none" else link, bits) as network:

        def measured(variant, milliseconds, steps):
            arguments = {"bytes": networks * options.bytes, "steps": steps, "backward": milliseconds,
                         "wait-every": wait_every, "networks": networks}
            return run(build, network, variant, ranks_per_host, arguments)

        alone = 1e3 * statistics.median(measured("plain", 0, ALONE_STEPS).seconds[FIRST:])
        milliseconds = backward * alone
        runs = {variant: measured(variant, milliseconds, options.steps)
                for variant in ("plain", "auto", "always")}
    return {"link": link, "job": job, "backward": backward, "wait_every": wait_every} | judged(runs)


def judged(runs):
    """Ratios of times of rank 0."""
    total = {name: sum(found.seconds[FIRST:]) for name, found in runs.items()}
    n_late = int(LATE * len(runs["auto"].seconds))
    late = {name: statistics.mean(found.seconds[-n_late:]) for name, found in runs.items()}
    return {
        "plain_ms": 1e3 * late["plain"],
        "auto_ms": 1e3 * late["auto"],
        "always_ms": 1e3 * late["always"],
        "vs_plain": total["auto"] / total["plain"],
        "vs_best": late["auto"] / min(late["plain"], late["always"]),
        "gain": 1 - late["always"] / late["plain"],
        "is_found": late["auto"] < 0.5 * (late["plain"] + late["always"]),
        "exact": all(runs["plain"].exact),
        "sending": runs["auto"].sending,
    }


def parse(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    for name, usual in (("links", "100mbit,1gbit,none"), ("jobs", "2x1,2x2"), ("backward", "0,1,4"), ("waits", "1")):
        parser.add_argument(f"--{name}", default=usual)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--bytes", type=int, default=1 << 20)
    return parser.parse_args(arguments)


def measure(options):
    remove_leftovers()
    cells = []
    for link in options.links.split(","):
        for job in options.jobs.split(","):
            for backward in map(float, options.backward.split(",")):
                for wait_every in map(int, options.waits.split(",")):
                    cells.append(cell(options.build, options, link, job, backward, wait_every))
                    say(row(cells[-1]))
    return cells


def row(found):
    sending = ", ".join(
        f"{comm['choice']} after {comm['examinations']} examinations" for comm in found["sending"])
    return (f"{found['link']:8} {found['job']} backward {found['backward']:g} waits every {found['wait_every']:2}: "
            f"plain {found['plain_ms']:7.2f} ms, auto {found['auto_ms']:7.2f}, always {found['always_ms']:7.2f}; "
            f"whole job {found['vs_plain']:.3f} of plain, late {found['vs_best']:.3f} of the best; "
            f"{sending}")


if __name__ == "__main__":
    print(json.dumps(measure(parse())))
