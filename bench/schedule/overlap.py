#!/usr/bin/env python3
"""Does the codec work while messages are on the wire? An AllReduce in chunks, with a codec that is
slowed down until it takes as long as the wire does: together they should take little longer than one.

    bench/schedule/overlap.py BUILD

Prints one JSON object. Needs root, for network namespaces.
"""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
sys.dont_write_bytecode = True

from lab import rate  # noqa: E402
from lab.network import SlowLinks, remove_leftovers  # noqa: E402
from schedule import command  # noqa: E402
from schedule.job import Runner, Task  # noqa: E402

RANKS = 2
LINK = "200mbit"
BYTES = 32 << 20
CHUNKS = 16
WARM, CALLS = 5, 5
# What a rank of a pair codes, and decodes and sums up, in values of the bucket.
CODED = 1 + 2


def seconds(build, link, chunks, nanoseconds, rounds):
    """The least of the medians of a few runs: what else the machine does only adds to it."""
    bits = None if link is None else rate.bits_per_second(link)
    settings = {"CINCH_CHUNKS": str(chunks), "SLOW_CODEC_NS": f"{nanoseconds:.3f}"}
    task = Task("q8", [(BYTES, WARM + CALLS)], settings=settings, preloaded="slow_codec")
    with SlowLinks(RANKS, link, bits) as network:
        runs = [Runner(build, network).run(task) for _ in range(rounds)]
    if not all(error > 0 for run in runs for error in run[0][BYTES].nmse[WARM:]):
        raise RuntimeError("calls were not compressed")
    return min(run[0][BYTES].median(WARM) for run in runs)


def measure(build, rounds=3):
    remove_leftovers()
    wire = seconds(build, LINK, CHUNKS, 0, rounds)
    nanoseconds = wire * 1e9 / (CODED * BYTES / 4)
    codec = seconds(build, None, CHUNKS, nanoseconds, rounds)
    chunked = seconds(build, LINK, CHUNKS, nanoseconds, rounds)
    whole = seconds(build, LINK, 1, nanoseconds, rounds)
    return {
        "wire_seconds": wire,
        "codec_seconds": codec,
        "chunked_seconds": chunked,
        "whole_seconds": whole,
        "overlap_ratio": chunked / max(wire, codec),
    }


if __name__ == "__main__":
    command.report(measure, command.parser(__doc__).parse_args().build)
