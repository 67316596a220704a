"""What runs on behalf of an item: until when its programs may run, and where their output goes, as it comes."""

import contextlib
import contextvars
import itertools
import math
import os
import re
import tempfile
import time


class OutOfTime(Exception):
    """The item's time was over before a program could begin."""


class Running:
    def __init__(self, name="", until=math.inf, logs=None):
        self.name = name
        self.until = until  # time.monotonic()
        self.logs = logs    # a folder; None: output is not kept
        self._numbers = itertools.count(1)

    def left(self, wanted):
        """So many seconds, or what is left of the item's time."""
        left = self.until - time.monotonic()
        if left < 1:
            raise OutOfTime("its time was over")
        return min(wanted, left)

    def log_file(self, program):
        """A file, open to be written and read, for the output of a program that is about to run."""
        if not self.logs:
            return tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")
        name = re.sub(r"[^A-Za-z0-9]+", "-", self.name).strip("-").lower()
        path = os.path.join(self.logs, f"{name}.{next(self._numbers)}.{os.path.basename(program)}.log")
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
