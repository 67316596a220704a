"""The checks of the net plugin under real NCCL, beside NCCL's own sockets in the same call, over loopback: each a
function from a Context to an Outcome."""

import dataclasses
import os
import re
import statistics
import time

from check_support import Failure, Outcome, run_and_listen

RUN_SECONDS = 60
# What the plugin should reach of the sockets at their best, 2 and 4 ranks on one host.
BANDWIDTH_TARGET = 1.2  # times their algbw, large messages
LATENCY_TARGET = 1.1    # times their latency at most, small ones
NO_CHECKS = ("--counts", "")


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is compared, and how often."""
    ranks: int
    small: int = 8
    large: int = 64 << 20
    # Of the first run, which also checks the collectives.
    sweep: tuple = (8, 256, 8 << 10, 256 << 10, 8 << 20, 64 << 20, 256 << 20)
    # NCCL_SOCKET_NTHREADS and NCCL_NSOCKS_PERTHREAD.
    grid: tuple = ((1, 1), (1, 4), (2, 2), (4, 4), (4, 8))
    rounds: int = 3
    seconds: int = 40  # no round is begun later
    arguments: tuple = ()  # of the run that checks


@dataclasses.dataclass(frozen=True)
class Network:
    name: str  # as in NCCL's log
    environment: dict
    title: str


def plugin_network(library):
    """The plugin, found as the user's guide says."""
    folders = [os.path.dirname(library), os.environ.get("LD_LIBRARY_PATH", "")]
    return Network("Cinch", {"NCCL_NET_PLUGIN": "cinch", "NCCL_NET": "Cinch", "NCCL_NET_PLUGIN_REF_COUNT": "1",
                             "LD_LIBRARY_PATH": os.pathsep.join(filter(None, folders))}, "plugin")


def socket_network(n_threads, n_sockets):
    return Network("Socket", {"NCCL_NET_PLUGIN": "none", "NCCL_NET": "Socket",
                              "NCCL_SOCKET_NTHREADS": str(n_threads), "NCCL_NSOCKS_PERTHREAD": str(n_sockets)},
                   f"{n_threads}x{n_sockets}")


# --- judges: pure -----------------------------------------------------------------------------------------

def judge_network(outputs, name):
    """Every rank's log must name this network, and no other."""
    for rank, output in enumerate(outputs):
        used = set(re.findall(r"Using network (\S+)", output))
        if used != {name}:
            raise Failure(f"rank {rank} used {', '.join(sorted(used)) or 'no network'} instead of {name}")


def judge_collectives(results):
    """How many calls of how many collectives each rank has checked; all must be right."""
    for result in results:
        if result["first_wrong"] or not result["correct"]:
            raise Failure(f"wrong: {result['first_wrong'] or 'nothing was checked'}")
    calls = {name: tally["calls"] for name, tally in results[0]["collectives"].items()}
    if 0 in calls.values() or any(tally["wrong"] for result in results for tally in result["collectives"].values()):
        raise Failure(f"wrong or unchecked: {results[0]['collectives']}")
    return calls


def timings(results):
    """By size, the time of the slowest rank and what follows from it."""
    times = {int(size): max(result["allreduce"][size]["us"] for result in results)
             for size in results[0]["allreduce"]}
    return {size: {"us": us, "algbw_gbps": round(size / us / 1e3, 4)} for size, us in times.items()}


def best_sockets(plan, measured):
    """Of {title: timings}, the one with the most bandwidth, and the one with the least latency."""
    return {"bandwidth": min(measured, key=lambda title: measured[title][plan.large]["us"]),
            "latency": min(measured, key=lambda title: measured[title][plan.small]["us"])}


def compare(plan, best, rounds):
    """The medians of what each round, {title: timings}, says of the plugin beside the sockets at their best."""
    bandwidth = [each[best["bandwidth"]][plan.large]["us"] / each["plugin"][plan.large]["us"] for each in rounds]
    latency = [each["plugin"][plan.small]["us"] / each[best["latency"]][plan.small]["us"] for each in rounds]
    return {"bandwidth_ratio": round(statistics.median(bandwidth), 3),
            "latency_ratio": round(statistics.median(latency), 3)}


def target_note(ratios):
    """What the ratios are, and which of the targets they miss."""
    missed = []
    if not ratios["bandwidth_ratio"] >= BANDWIDTH_TARGET:
        missed.append(f"algbw wanted {BANDWIDTH_TARGET}")
    if not ratios["latency_ratio"] <= LATENCY_TARGET:
        missed.append(f"latency wanted {LATENCY_TARGET}")
    reached = f"{2 - len(missed)} of 2 targets reached" + (f", missed: {', '.join(missed)}" if missed else "")
    return "algbw {bandwidth_ratio:.2f} x, latency {latency_ratio:.2f} x the sockets' best; ".format(**ratios) + reached


# --- runs -------------------------------------------------------------------------------------------------

class Bench:
    """A program, run over one network after another."""

    def __init__(self, context, program, plan):
        self.context = context
        self.program = program
        self.plan = plan

    def run(self, network, sizes, arguments):
        """What each rank wrote; the network must be the one that was asked for."""
        command = [self.program, "--sizes", ",".join(map(str, sizes)), *arguments]
        listened = run_and_listen(self.context, command, {"NCCL_DEBUG": "INFO", **network.environment}, RUN_SECONDS,
                                  ranks=self.plan.ranks)
        results, outputs = zip(*listened)
        judge_network(outputs, network.name)
        return results

    def measure(self, networks):
        """The timings at the two sizes that are compared, by the networks' titles."""
        sizes = (self.plan.small, self.plan.large)
        return {network.title: timings(self.run(network, sizes, NO_CHECKS)) for network in networks}


def net_plugin(context, program, plugin, plan):
    until = time.monotonic() + plan.seconds
    bench = Bench(context, program, plan)
    checked = bench.run(plugin, plan.sweep, plan.arguments)
    calls = judge_collectives(checked)
    grid = [socket_network(*each) for each in plan.grid]
    sockets = bench.measure(grid)
    best = best_sockets(plan, sockets)
    rivals = [network for network in grid if network.title in best.values()]
    rounds = []
    while not rounds or len(rounds) < plan.rounds and time.monotonic() < until:
        rounds.append(bench.measure([plugin, *rivals]))
    ratios = compare(plan, best, rounds)
    figures = {**ratios, "checked": calls, "nccl": checked[0]["nccl"], "sweep": timings(checked), "best": best,
               "sockets": sockets, "rounds": rounds}
    return Outcome("pass", f"{sum(calls.values())} calls exact; {target_note(ratios)}", figures)


def item(plan):
    def net_plugin_item(context):
        plugin = plugin_network(context.library("nccl_net_cinch", "libnccl-net-cinch.so"))
        return net_plugin(context, context.program("net_ranks"), plugin, plan)
    return net_plugin_item


ITEMS = (
    ("net plugin, 2 ranks", item(Plan(ranks=2))),
    ("net plugin, 4 ranks", item(Plan(ranks=4))),
)
