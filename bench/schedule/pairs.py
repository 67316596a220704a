#!/usr/bin/env python3
"""What do two ranks gain by sending each other whole buckets (CINCH_PAIR)? The same AllReduces as a
pair, by shards, and plain, in turns.

    bench/schedule/pairs.py BUILD [--link 1gbit] [--sizes 64K,1M,16M] [--codec q4] [--rounds 3]

Both hosts are network namespaces (needs root). Prints one JSON object: seconds are medians of rounds.
"""

import pathlib
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
sys.dont_write_bytecode = True

from lab import rate  # noqa: E402
from lab.network import SlowLinks, remove_leftovers  # noqa: E402
from schedule import command  # noqa: E402
from schedule.grid import number_of_bytes  # noqa: E402
from schedule.job import Runner, Task  # noqa: E402

LINK, SIZES, CODEC, ROUNDS = "1gbit", "64K,1M,16M", "q4", 3
WARM, CALLS = 6, 20
PLAIN, PAIR, SHARDS = "plain", "pair", "shards"


def task_of(way, options):
    plan = [(size, WARM + CALLS) for size in options.sizes]
    if way == PLAIN:
        return Task("pass", plan)
    pair = "auto" if way == PAIR else "off"
    return Task(options.codec, plan, settings={"CINCH_PAIR": pair, "CINCH_GUARD_EVERY": "0"})


def rounds_of(options, network):
    """{way: [what each round found, by rank]}"""
    runner = Runner(options.build, network)
    found = {way: [] for way in (PLAIN, PAIR, SHARDS)}
    for _ in range(options.rounds):
        for way, runs in found.items():
            runs.append(runner.run(task_of(way, options)))
    return found


def row_of(size, found):
    seconds = {
        way: statistics.median(ranks[0][size].median(WARM) for ranks in runs)
        for way, runs in found.items()
    }
    nmse = {way: found[way][-1][0][size].nmse[-1] for way in (PAIR, SHARDS)}
    return {
        "bytes": size,
        "seconds": seconds,
        "nmse": nmse,
        "pair_vs_shards": seconds[PAIR] / seconds[SHARDS],
        "nmse_vs_shards": nmse[PAIR] / nmse[SHARDS],
    }


def measure(build, options=None):
    options = options or parse([build])
    remove_leftovers()
    with SlowLinks(2, options.link, rate.bits_per_second(options.link)) as network:
        found = rounds_of(options, network)
    last = [ranks for runs in found.values() for ranks in runs]
    return {
        "link": options.link,
        "codec": options.codec,
        "sizes": [row_of(size, found) for size in options.sizes],
        "ranks_alike": all(
            rank[size].nmse == ranks[0][size].nmse
            for ranks in last
            for rank in ranks
            for size in options.sizes
        ),
    }


def parse(arguments):
    parser = command.parser(__doc__)
    parser.add_argument("--link", default=LINK)
    parser.add_argument("--sizes", default=SIZES)
    parser.add_argument("--codec", choices=("q8", "q4", "h3"), default=CODEC)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args(arguments)
    options.sizes = [number_of_bytes(size) for size in options.sizes.split(",")]
    return options


def main():
    options = parse(sys.argv[1:])
    command.report(measure, options.build, options)


if __name__ == "__main__":
    main()
