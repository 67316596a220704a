"""Runs the ranks of a NCCL program as processes, with deadlines, for the multi-process tests."""

import os
import subprocess
import tempfile
import time


class Outcome:
    """How one rank ended: exit status (negative: a signal; None: it hung and was killed), output."""

    def __init__(self, status, output):
        self.status = status
        self.output = output

    def lines(self, prefix):
        """The words of every output line that starts with `prefix`, without it."""
        return [line.split()[1:] for line in self.output.splitlines() if line.startswith(prefix + " ")]


def run_ranks(command, ranks, env=None, rank_env=None, rank_args=None, deadline=60):
    """Starts `command --rank R --ranks N --id-file F` for every rank and waits for all of them.

    `env` is set for all, `rank_env[rank]` for one; each rank is its own host (NCCL_HOSTID). Ranks
    that have not ended at the deadline (seconds) are killed and reported with status None.
    """
    with tempfile.TemporaryDirectory() as folder:
        processes = []
        for rank in range(ranks):
            values = dict(os.environ, NCCL_HOSTID=f"test-host-{rank}", NCCL_SOCKET_IFNAME="lo")
            values.update(env or {})
            values.update((rank_env or {}).get(rank, {}))
            values = {name: value for name, value in values.items() if value is not None}
            log = open(os.path.join(folder, f"rank-{rank}.log"), "w+", encoding="utf-8")
            arguments = ["--rank", str(rank), "--ranks", str(ranks), "--id-file", f"{folder}/id"]
            process = subprocess.Popen(
                command + arguments + [str(a) for a in (rank_args or {}).get(rank, [])],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=values)
            processes.append((process, log))
        return wait_all(processes, time.monotonic() + deadline)


def wait_all(processes, until):
    outcomes = []
    for process, log in processes:
        try:
            status = process.wait(max(0.1, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            status = None
        log.seek(0)
        outcomes.append(Outcome(status, log.read()))
        log.close()
    return outcomes
