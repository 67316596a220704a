"""Measures AllReduce over slow links where NCCL is the emulator, with small sizes, and draws the conclusions that
tests/gpu/check does.

link_rehearsal.py BUILD
"""

import sys
import types

import link_items
from check_support import MISSING, Context, Skip
from lab.machine import Busy, OtherLoad, judged_when_quiet

PLAN = link_items.Plan("50mbit", 2, rounds=3, smallest=64 << 10, largest=256 << 10, nccl=("--emulator",))


def main(build):
    mps = types.SimpleNamespace(environment={}, reason=None)
    context = Context(root="", build=build, gpu=None, mps=mps, cmake_arguments=[])
    load = OtherLoad()
    try:
        outcome = link_items.collectives(context, PLAN)
        print(outcome.note)
        assert outcome.state == "pass" and "50mbit" in outcome.figures["network"]
        for kind in link_items.TYPES:
            assert set(outcome.figures[kind]) == {64 << 10, 256 << 10}, outcome.figures
        with judged_when_quiet(load):
            judge_gains(outcome.figures)
    except (Skip, Busy) as why:
        print(f"skipped: {why}")
        return MISSING
    return 0


def judge_gains(figures):
    """Of a wire this slow nothing but compression makes so much."""
    for kind in link_items.TYPES:
        largest = figures[kind][256 << 10]
        assert largest["path"] == "compressed" and largest["times"] < 0.5, figures
        assert largest["cinch_gb_per_s"] > 2 * largest["plain_gb_per_s"] > 0, figures


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
