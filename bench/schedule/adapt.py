#!/usr/bin/env python3
"""Does what Cinch sends follow the link? A job in the middle of which every link changes, and changes
back; and one whose second rank sleeps before every tenth call, which is not the link's fault.

    bench/schedule/adapt.py BUILD

Prints one JSON object. Needs root, for network namespaces.
"""

import os
import pathlib
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
sys.dont_write_bytecode = True

from lab import rate  # noqa: E402
from lab.network import SlowLinks, remove_leftovers  # noqa: E402
from schedule import command  # noqa: E402
from schedule.job import Runner, Task  # noqa: E402

RANKS = 2
PHASE = 240  # calls at each rate
ROUND = 8  # calls in which the choice stays
SETTLED = 24  # the last calls of a phase, most of which show its choice
EXACT, STATELESS = 0, 0.03  # NMSE up to which a result is plain NCCL's, or a stateless call's
WORST = 0.2  # NMSE of any result that is right
SLEEP = 0.2  # seconds
SLOW = "50mbit"
SLEEPER_BYTES = 4 << 20
# Rates to which the links change, and sizes: larger than what a link sends at once, so that each call
# feels its rate. Over the faster of them codecs are the limit.
CHANGES = (("1gbit", 1 << 20), ("10gbit", 4 << 20))


def done_by(nmse):
    """What a call was, by the error of its result."""
    if nmse <= EXACT:
        return "plain"
    return "stateless" if nmse <= STATELESS else "full"


def steps_to_settle(choices):
    """(what the phase settles on, the calls before the first round that does nothing else)"""
    settled = statistics.mode(choices[-SETTLED:])
    for first in range(len(choices) - ROUND + 1):
        if set(choices[first : first + ROUND]) == {settled}:
            return settled, first
    return settled, len(choices)


class Changer:
    """Gives all links the next rate whenever all ranks wait for it."""

    def __init__(self, network, rates):
        self._network = network
        self._waiting = {PHASE * (i + 1): text for i, text in enumerate(rates)}

    def poll(self, folder):
        for call, text in list(self._waiting.items()):
            marks = [f"{folder}/out{rank}.json.at-{call}" for rank in range(RANKS)]
            if all(map(os.path.exists, marks)):
                self._network.change(text, rate.bits_per_second(text))
                pathlib.Path(folder, f"go-{call}").touch()
                del self._waiting[call]


def follow(build, rates, n_bytes):
    """What each phase did, and whether all results were right and alike."""
    pauses = ",".join(str(PHASE * (i + 1)) for i in range(len(rates) - 1))
    arguments = {rank: ["--pauses", pauses] for rank in range(RANKS)}
    task = Task("auto", [(n_bytes, PHASE * len(rates))], arguments=arguments)
    with SlowLinks(RANKS, rates[0], rate.bits_per_second(rates[0])) as network:
        changer = Changer(network, rates[1:])
        found = Runner(build, network).run(task, changer.poll)
    errors = [rank[n_bytes].nmse for rank in found]
    choices = [done_by(nmse) for nmse in errors[0]]
    phases = []
    for i, text in enumerate(rates):
        settled, steps = steps_to_settle(choices[PHASE * i : PHASE * (i + 1)])
        seconds = statistics.median(found[0][n_bytes].seconds[PHASE * (i + 1) - SETTLED :][:SETTLED])
        phases.append({"link": text, "choice": settled, "steps": steps, "seconds": seconds})
    return {
        "bytes": n_bytes,
        "phases": phases,
        "adapt_steps": max(phase["steps"] for phase in phases[1:]),
        "wrong": sum(nmse > WORST for nmse in errors[0]),
        "ranks_alike": all(own == errors[0] for own in errors),
    }


def sleeper(build, link, n_bytes):
    """What the choice rests on, without and with a rank that sleeps."""
    found = {}
    with SlowLinks(RANKS, link, rate.bits_per_second(link)) as network:
        for name, sleep in (("awake", 0), ("asleep", SLEEP)):
            arguments = {1: ["--sleep", str(sleep)]}
            task = Task("auto", [(n_bytes, PHASE)], arguments=arguments)
            size = Runner(build, network).run(task)[0][n_bytes]
            # Some calls may be an examination's.
            choice = statistics.mode(done_by(nmse) for nmse in size.nmse[-SETTLED:])
            found[name] = size.sending | {"choice": choice}
    return found


def measure(build):
    remove_leftovers()
    return {
        "follow": [follow(build, [fast, SLOW, fast], n_bytes) for fast, n_bytes in CHANGES],
        "sleeper": sleeper(build, SLOW, SLEEPER_BYTES),
    }


if __name__ == "__main__":
    command.report(measure, command.parser(__doc__).parse_args().build)
