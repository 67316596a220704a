"""Runs one training job: a process per rank, watched until all have ended or one has failed."""

import os
import signal
import subprocess
import time

_TAIL_LINES = 15
_POLL_SECONDS = 0.1
_END_SECONDS = 10


class JobFailed(Exception):
    """A rank failed; the text holds the end of what it printed."""


class Job:
    """The ranks' processes. As a context, it leaves none behind."""

    def __init__(self, folder, commands, environments):
        """A command and an environment per rank; what rank i prints goes to folder/rank<i>.out."""
        self._folder = folder
        self._commands = commands
        self._environments = environments
        self._processes = []

    def __enter__(self):
        try:
            for rank, command in enumerate(self._commands):
                self._start(rank, command)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_):
        self._end()

    def has_ended(self):
        """Whether all ranks have. Raises JobFailed where one has failed."""
        states = self._states()
        for rank, state in enumerate(states):
            if state not in (None, 0):
                raise JobFailed(self.describe(rank, f"ended with status {state}"))
        return None not in states

    def wait(self, on_poll, timeout):
        """Calls on_poll() several times a second. Raises JobFailed as soon as a rank fails."""
        deadline = time.monotonic() + timeout
        while True:
            has_ended = self.has_ended()
            on_poll()
            if has_ended:
                return
            if time.monotonic() > deadline:
                late = self._states().index(None)
                raise JobFailed(self.describe(late, f"did not end within {timeout:.0f} s"))
            time.sleep(_POLL_SECONDS)

    def output_path(self, rank):
        return os.path.join(self._folder, f"rank{rank}.out")

    def _states(self):
        return [_state(process) for process in self._processes]

    def _start(self, rank, command):
        with open(self.output_path(rank), "wb") as output:
            # The kernel ends a rank whose driver was killed.
            self._processes.append(
                subprocess.Popen(
                    ["setpriv", "--pdeathsig", "KILL", *command],
                    env=self._environments[rank],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            )

    def _end(self):
        """Ends every rank and what it has started, also where the rank itself has ended."""
        for process in self._processes:
            os.killpg(process.pid, signal.SIGKILL)
        for process in self._processes:
            process.wait(_END_SECONDS)

    def describe(self, rank, what):
        """The text of a JobFailed: what happened to a rank, and the last lines of all."""
        parts = [f"rank {rank} {what}"]
        # The others often say why.
        for other in [rank] + [r for r in range(len(self._processes)) if r != rank]:
            with open(self.output_path(other), errors="replace") as file:
                tail = file.read().splitlines()[-_TAIL_LINES:]
            if tail:
                parts.append(f"--- end of {self.output_path(other)}")
                parts += tail
        return "\n".join(parts)


def _state(process):
    """Its exit status, None while it runs. The process is not reaped, so that no other can take its
    id, which is that of its group."""
    ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if ended is None:
        return None
    return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
