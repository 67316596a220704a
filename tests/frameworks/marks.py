"""What a job says about itself while it runs: which step it is in, and what its collectives carry.

A job's script marks its phases:

    with mark("gradients"):
        loss.backward()
    optimizer.step()
    next_step()

Nothing happens unless JOB_MARKS names a file (%p is the process's number). Each change of the phase or of
the step appends a line {"t": nanoseconds of CLOCK_MONOTONIC, "step": n, "phase": name} to it. The time is
that of CINCH_CALL_LOG's lines, so that each call of the log can be told apart by its phase.
"""
import contextlib
import json
import os
import time

PHASES = ("gradients", "weights", "activations", "metrics", "other")


class Marks:
    """The marks of one process. Only the thread that runs the job's script marks phases."""

    def __init__(self, path):
        self.file = open(path, "a", buffering=1, encoding="utf-8")
        self.step = 0
        self.phases = ["other"]
        self.write()

    def write(self):
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        self.file.write(json.dumps({"t": now, "step": self.step, "phase": self.phases[-1]}) + "\n")

    @contextlib.contextmanager
    def during(self, phase):
        self.phases.append(phase)
        self.write()
        try:
            yield
        finally:
            self.phases.pop()
            self.write()

    def next_step(self):
        self.step += 1
        self.write()


_marks = {}  # by process: a forked rank has marks of its own


def _current():
    path = os.environ.get("JOB_MARKS")
    if not path:
        return None
    process = os.getpid()
    if process not in _marks:
        _marks[process] = Marks(path.replace("%p", str(process)))
    return _marks[process]


def mark(phase):
    """A context in which the job's collectives carry what `phase` says, one of PHASES."""
    assert phase in PHASES, phase
    marks = _current()
    return marks.during(phase) if marks else contextlib.nullcontext()


def next_step():
    """The optimizer has made a step."""
    if marks := _current():
        marks.next_step()
