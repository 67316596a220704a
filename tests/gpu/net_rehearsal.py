"""Runs the program of the net plugin's checks where NCCL is the emulator, with small sizes, and draws the conclusions
that tests/gpu/check does.

net_rehearsal.py NET_RANKS LIBNCCL_NET_CINCH
"""

import sys
import types

import net_items
from check_support import Context, Failure

# Less than one of the slots that messages are cut into, and several.
COUNTS = ("--counts", "1009,70001")
COLLECTIVES = {"AllReduce", "Reduce", "ReduceScatter", "AllGather", "Broadcast", "Send and Recv", "AlltoAll", "Gather",
               "Scatter"}


def rehearse(context, program, plugin, ranks):
    plan = net_items.Plan(ranks, large=1 << 16, sweep=(8, 1 << 16), grid=((1, 1), (2, 2)), rounds=1,
                          arguments=COUNTS)
    outcome = net_items.net_plugin(context, program, plugin, plan)
    print(f"{ranks} ranks: {outcome.note}")
    figures = outcome.figures
    assert outcome.state == "pass" and len(figures["rounds"]) == plan.rounds
    assert set(figures["checked"]) == COLLECTIVES and all(calls >= 20 for calls in figures["checked"].values())
    assert set(figures["sweep"]) == set(plan.sweep)
    assert set(figures["sockets"]) == {"1x1", "2x2"}
    assert figures["bandwidth_ratio"] > 0 and figures["latency_ratio"] > 0


def expect_correct_over_sockets(context, program, ranks):
    """That a failure over the plugin would be the plugin's."""
    plan = net_items.Plan(ranks)
    results = net_items.Bench(context, program, plan).run(net_items.socket_network(1, 1), [plan.small], COUNTS)
    assert set(net_items.judge_collectives(results)) == COLLECTIVES


def expect_another_network_to_be_noticed(context, program):
    misnamed = net_items.Network("Cinch", net_items.socket_network(1, 1).environment, "misnamed")
    try:
        net_items.Bench(context, program, net_items.Plan(2)).run(misnamed, [8], net_items.NO_CHECKS)
    except Failure as failure:
        assert "used Socket instead of Cinch" in str(failure), failure
    else:
        raise AssertionError("the sockets were taken for the plugin")


def main(program, library):
    context = Context(root="", build="", gpu=None, mps=types.SimpleNamespace(environment={}, reason=None),
                      cmake_arguments=[])
    expect_another_network_to_be_noticed(context, program)
    expect_correct_over_sockets(context, program, ranks=4)
    for ranks in (2, 4):
        rehearse(context, program, net_items.plugin_network(library), ranks)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
