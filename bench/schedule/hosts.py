#!/usr/bin/env python3
"""How many bytes leave the hosts where ranks share them? The same AllReduces with and without sums
inside the hosts (CINCH_HIERARCHY), and plain, counted at the hosts' interfaces.

    bench/schedule/hosts.py BUILD [--hosts 2] [--ranks-per-host 2] [--bytes 8388608] [--codec q4]

Every host is a network namespace (needs root). Prints one JSON object. Bytes are those of one call on
all hosts together, with all that the network adds: the difference between two runs, by their calls.
"""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
sys.dont_write_bytecode = True

from lab.network import SlowLinks, remove_leftovers  # noqa: E402
from schedule import command  # noqa: E402
from schedule.job import Runner, Task  # noqa: E402

FEW, MANY = 10, 30  # calls
HOSTS, RANKS_PER_HOST, BYTES, CODEC = 2, 2, 8 << 20, "q4"
FP32_BITS = 32
FLAT, IN_HOSTS, PLAIN = "flat", "hierarchical", "plain"


def least_bytes(options, bits):
    """What must leave all hosts together: the bucket of all but one of them on its way to where it is
    summed up, and the sum to as many."""
    return 2 * (options.hosts - 1) * options.bytes * bits / FP32_BITS


class Counted:
    """Jobs over one network, by what their hosts send."""

    def __init__(self, build, network, options):
        self._runner, self._network, self._options = Runner(build, network), network, options

    def _task(self, way, calls):
        plan, per_host = [(self._options.bytes, calls)], self._options.ranks_per_host
        if way == PLAIN:
            return Task("pass", plan, ranks_per_host=per_host)
        hierarchy = "off" if way == FLAT else "auto"
        return Task(
            self._options.codec,
            plan,
            ranks_per_host=per_host,
            settings={"CINCH_HIERARCHY": hierarchy, "CINCH_GUARD_EVERY": "0"},
        )

    def _run(self, way, calls):
        """(bytes, rank 0's part, whether all ranks had the same result)"""
        before = self._network.bytes_sent()
        ranks = [rank[self._options.bytes] for rank in self._runner.run(self._task(way, calls))]
        alike = all(rank.nmse == ranks[0].nmse for rank in ranks)
        return self._network.bytes_sent() - before, ranks[0], alike

    def measure(self, way):
        few, _, alike = self._run(way, FEW)
        many, rank, still_alike = self._run(way, MANY)
        per_call = (many - few) / (MANY - FEW)
        return {
            "bytes_per_call": per_call,
            "vs_least": per_call / least_bytes(self._options, rank.bits or FP32_BITS),
            "nmse": rank.nmse[-1],
            "ranks_alike": alike and still_alike,
        }


def measure(build, options=None):
    options = options or parse([build])
    remove_leftovers()
    with SlowLinks(options.hosts, None, None) as network:
        counted = Counted(build, network, options)
        found = {way: counted.measure(way) for way in (PLAIN, FLAT, IN_HOSTS)}
    return {
        "hosts": options.hosts,
        "ranks_per_host": options.ranks_per_host,
        "bytes": options.bytes,
        "codec": options.codec,
        "ways": found,
        "cross_host_vs_least": found[IN_HOSTS]["vs_least"],
        "cross_host_bytes_ratio": found[FLAT]["bytes_per_call"] / found[IN_HOSTS]["bytes_per_call"],
        "ranks_alike": all(way["ranks_alike"] for way in found.values()),
    }


def parse(arguments):
    parser = command.parser(__doc__)
    parser.add_argument("--hosts", type=int, default=HOSTS)
    parser.add_argument("--ranks-per-host", type=int, default=RANKS_PER_HOST)
    parser.add_argument("--bytes", type=int, default=BYTES)
    parser.add_argument("--codec", choices=("q8", "q4", "h3"), default=CODEC)
    return parser.parse_args(arguments)


def main():
    options = parse(sys.argv[1:])
    command.report(measure, options.build, options)


if __name__ == "__main__":
    main()
