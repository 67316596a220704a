"""Programs whose ranks are ahead of each other, stopped, killed, aborted, short of descriptors, or lose the process
that made an id or their connections to it, with plain NCCL and with Cinch: what plain finishes, Cinch must finish.

    cases.py PROGRAM PRELOAD [--times N] [--seed S] [--only TEXT]

Prints a line for each case, and in the last one {"cases", "cases_passed", "runs", "failures"}.
"""

import argparse
import contextlib
import ctypes
import json
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import cost  # noqa: E402
from ranks import wait_all  # noqa: E402

DEADLINE = 60  # the longest case takes a few seconds
AHEAD = (1, 2, 5, 17, 60, 300)
LIMITS = 12
STEP_OF_LIMITS = 8
LIBC, PIDFD_GETFD = ctypes.CDLL(None), 438  # pidfd_getfd(2) of Linux 5.6, on all processors


class Case:
    """A case of surface_rank, and what happens to its ranks. disturb(processes, folder, dice) is called once they have
    started; with `survivors`, only these have to end well, and the others do not. With `has_fixed_id`, NCCL_COMM_ID
    says where the ranks meet."""

    def __init__(self, name, case, ranks=2, settings=None, limit=None, disturb=None, survivors=None,
                 has_fixed_id=False, ranks_of_a_host=1):
        self.name, self.case, self.ranks, self.settings = name, case, ranks, settings or {}
        self.limit, self.disturb, self.survivors = limit, disturb, survivors
        self.has_fixed_id, self.ranks_of_a_host = has_fixed_id, ranks_of_a_host

    def run(self, program, preload, dice):
        """What went wrong; empty: nothing."""
        where = {"NCCL_COMM_ID": f"127.0.0.1:{free_port()}"} if self.has_fixed_id else {}
        with tempfile.TemporaryDirectory() as folder:
            processes = [self.start(program, preload, rank, folder, where) for rank in range(self.ranks)]
            if self.disturb:
                self.disturb([process for process, _ in processes], folder, dice)
            outcomes = wait_all(processes, time.monotonic() + DEADLINE)
        wrong, hashes = [], {}
        for rank, outcome in enumerate(outcomes):
            if outcome.status is None:
                wrong.append(f"rank {rank} hung: {outcome.output[-600:]}")
            elif (self.survivors is None or rank in self.survivors) and (outcome.status != 0 or not outcome.output.endswith("done\n")):
                wrong.append(f"rank {rank} ended with {outcome.status}: {outcome.output[-600:]}")
            for label, value in outcome.lines("same"):
                if hashes.setdefault(label, value) != value:
                    wrong.append(f"{label} differs among the ranks")
        return "\n".join(wrong)

    def start(self, program, preload, rank, folder, where):
        values = {"NCCL_HOSTID": f"control-host-{rank // self.ranks_of_a_host}", "NCCL_SOCKET_IFNAME": "lo",
                  "LD_PRELOAD": preload, "CINCH_WHEN": "always", **where, **self.settings}
        log = open(f"{folder}/rank-{rank}.log", "w+", encoding="utf-8")
        command = [program, "--case", self.case, "--folder", folder, "--rank", str(rank), "--ranks", str(self.ranks)]
        limit = self.limit
        limits = None if limit is None else lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                                env=dict(os.environ, **values), preexec_fn=limits), log


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def send(process, number):
    if process.poll() is None:
        process.send_signal(number)


def stop(rank):
    """Stops a rank some times, each at any moment, for up to a second."""
    def disturb(processes, _folder, dice):
        for _ in range(3):
            time.sleep(dice.uniform(0, 0.7))
            send(processes[rank], signal.SIGSTOP)
            time.sleep(dice.uniform(0, 1))
            send(processes[rank], signal.SIGCONT)
    return disturb


def kill(rank):
    def disturb(processes, _folder, dice):
        time.sleep(dice.uniform(0, 2))
        send(processes[rank], signal.SIGKILL)
    return disturb


def freeze(rank):
    """Stops a rank for as long as there are others."""
    def disturb(processes, _folder, dice):
        others = [process for process in processes if process is not processes[rank]]
        time.sleep(dice.uniform(0.2, 2))
        send(processes[rank], signal.SIGSTOP)
        end = time.monotonic() + DEADLINE / 2
        while time.monotonic() < end and any(process.poll() is None for process in others):
            time.sleep(0.05)
        send(processes[rank], signal.SIGKILL)
    return disturb


def cut(ranks):
    """Ends the connections of some ranks to the process that serves, three times at any moment."""
    def disturb(processes, folder, dice):
        for _ in range(3):
            time.sleep(dice.uniform(0, 0.7))
            try:
                port = cost.server_of(f"{folder}/world.id")[1]
            except OSError:
                continue  # there is none yet
            for rank in ranks:
                end_connections(processes[rank].pid, port)
    return disturb


def end_connections(pid, port):
    """Ends the TCP connections of a process to that port of any host."""
    try:
        process = os.pidfd_open(pid)
        names = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return  # it has ended
    for name in names:
        copy = LIBC.syscall(PIDFD_GETFD, process, int(name), 0)
        if copy < 0:
            continue
        try:
            connection = socket.socket(fileno=copy)
        except OSError:
            os.close(copy)  # it is none
            continue
        with connection, contextlib.suppress(OSError):  # one that is not connected
            if connection.type == socket.SOCK_STREAM and connection.getpeername()[1] == port:
                connection.shutdown(socket.SHUT_RDWR)
    os.close(process)


def least_limit(program):
    """How few descriptors plain NCCL trains with."""
    too_few, enough = 3, 512
    while enough - too_few > 1:
        limit = (too_few + enough) // 2
        if Case("", "default-training", limit=limit).run(program, "", random.Random()):
            too_few = limit
        else:
            enough = limit
    return enough


def all_cases(program):
    cases = [Case(f"ahead-{steps}", "default-always-ahead", settings={"TEST_AHEAD": str(steps)}) for steps in AHEAD]
    cases.append(Case("ahead-in-turn", "default-run-ahead"))
    cases.append(Case("ahead-in-turn-auto", "default-run-ahead", settings={"CINCH_WHEN": "auto"}))
    cases += [Case(f"stopped-{rank}", "default-training", disturb=stop(rank)) for rank in range(2)]
    cases += [Case(f"stopped-{rank}-ahead", "default-run-ahead", disturb=stop(rank)) for rank in range(2)]
    cases += [Case(f"killed-{rank}", "default-training", disturb=kill(rank), survivors=()) for rank in range(2)]
    cases += [Case(f"frozen-{rank}-watched", "default-watched-training", disturb=freeze(rank), survivors=(1 - rank,))
              for rank in range(2)]
    often = {"CINCH_GUARD_EVERY": "2"}  # so that the ranks decide all the time
    cases += [Case(f"cut-{name}", "default-training", settings=often, disturb=cut(ranks))
              for name, ranks in (("0", [0]), ("1", [1]), ("all", [0, 1]))]
    signature = {"CINCH_SLOTS": "signature", "CINCH_CODEC": "q4", "CINCH_MIN_BYTES": "16K"}
    cases += [Case(name, f"communicator-{name}", ranks=3, settings=signature)
              for name in ("maker-of-the-parent-leaves", "maker-is-no-rank")]
    cases += [Case(f"fixed-id-{name}", case, ranks=4, settings=signature, has_fixed_id=True, ranks_of_a_host=2)
              for name, case in (("world", "default-training"), ("split", "communicator-splits-somehow"))]
    first = least_limit(program)
    cases += [Case(f"descriptors-{first + i * STEP_OF_LIMITS}", "default-training", limit=first + i * STEP_OF_LIMITS)
              for i in range(LIMITS)]
    return cases


def run_all(program, preload, times, seed, only="", out=None):
    figures = {"cases": 0, "cases_passed": 0, "runs": 0, "failures": []}
    for case in all_cases(program):
        if only not in case.name:
            continue
        dice = random.Random(f"{seed} {case.name}")
        plain = case.run(program, "", dice)
        if plain:  # nothing to be measured against
            print(f"{case.name}: plain NCCL does not finish it: {plain.splitlines()[0]}", flush=True, file=out)
            continue
        begin = time.monotonic()
        failures = [wrong for wrong in (case.run(program, preload, dice) for _ in range(times)) if wrong]
        figures["cases"] += 1
        figures["cases_passed"] += not failures
        figures["runs"] += times
        figures["failures"] += [f"{case.name}: {wrong}" for wrong in failures]
        print(f"{case.name}: {times - len(failures)} of {times}, {time.monotonic() - begin:.1f} s", flush=True, file=out)
        for wrong in failures:
            print(wrong, flush=True, file=out)
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("preload")
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(1 << 32)))
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    figures = run_all(arguments.program, arguments.preload, arguments.times, arguments.seed, arguments.only)
    print(json.dumps(figures))
    return 1 if figures["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
