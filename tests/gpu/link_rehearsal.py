"""Measures AllReduce over slow links where NCCL is the emulator, with small sizes, and draws the conclusions that
tests/gpu/check does.

link_rehearsal.py BUILD
"""

import sys
import types

import link_items
from check_support import MISSING, Context, Skip

PLAN = link_items.Plan("50mbit", 2, rounds=3, smallest=64 << 10, largest=256 << 10, nccl=("--emulator",))


def main(build):
    mps = types.SimpleNamespace(environment={}, reason=None)
    context = Context(root="", build=build, gpu=None, mps=mps, cmake_arguments=[])
    try:
        outcome = link_items.collectives(context, PLAN)
    except Skip as skip:
        print(skip)
        return MISSING
    print(outcome.note)
    assert outcome.state == "pass" and "50mbit" in outcome.figures["network"]
    for kind in link_items.TYPES:
        rows = outcome.figures[kind]
        assert set(rows) == {64 << 10, 256 << 10}, rows
        largest = rows[256 << 10]
        # Of a wire this slow nothing but compression makes so much.
        assert largest["path"] == "compressed" and largest["times"] < 0.5, rows
        assert largest["cinch_gb_per_s"] > 2 * largest["plain_gb_per_s"] > 0, rows
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
