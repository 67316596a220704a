"""What runs on behalf of an item: until when its programs may run, and where their output goes, as it comes."""

import contextlib
import contextvars
import itertools
import math
import os
import re
import signal
import tempfile
import time


# Of the files of this process: an item may run twice.
_NUMBERS = itertools.count(1)


class OutOfTime(Exception):
    """The item's time was over before a program could begin."""


class Running:
    def __init__(self, name="", until=math.inf, logs=None):
        self.name = name
        self.until = until  # time.monotonic()
        self.logs = logs    # a folder; None: output is not kept

    def left(self, wanted):
        """So many seconds, or what is left of the item's time."""
        left = self.until - time.monotonic()
        if left < 1:
            raise OutOfTime("its time was over")
        return min(wanted, left)

    def has(self, seconds):
        return self.until - time.monotonic() >= seconds

    def log_file(self, program):
        """A file, open to be written and read, for the output of a program that is about to run."""
        if not self.logs:
            return tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")
        name = re.sub(r"[^A-Za-z0-9]+", "-", self.name).strip("-").lower()
        path = os.path.join(self.logs, f"{name}.{next(_NUMBERS)}.{os.path.basename(program)}.log")
        return open(path, "w+", encoding="utf-8", errors="replace")


_CURRENT = contextvars.ContextVar("running", default=Running())


def current():
    return _CURRENT.get()


@contextlib.contextmanager
def item(running):
    """What the block runs is this item's."""
    token = _CURRENT.set(running)
    try:
        yield running
    finally:
        _CURRENT.reset(token)


def in_this_item(function):
    """The function, for another thread: what it runs is still this item's."""
    context = contextvars.copy_context()
    return lambda *arguments: context.copy().run(function, *arguments)


# --- process groups -----------------------------------------------------------------------------------------

_GROUPS = set()


def begin_group(process):
    """A process that leads a group of its own, and whatever that starts, ends with this program."""
    _GROUPS.add(process.pid)


def end_group(process, ask=False):
    """Asks all processes of a group to end, or makes them."""
    try:
        os.killpg(process.pid, signal.SIGTERM if ask else signal.SIGKILL)
    except ProcessLookupError:
        pass
    if not ask:
        _GROUPS.discard(process.pid)


def end_all_groups():
    for pid in list(_GROUPS):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
