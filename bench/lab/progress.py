"""One progress bar over several jobs; plain lines where the output is no terminal."""

import sys
import time

_WIDTH = 30
_LINE_SECONDS = 15
# Of all the work, for the time left to be estimated: before that the start of the first job, when
# nothing is done yet, would count for too much.
_SMALLEST_SHARE = 0.02


def format_seconds(seconds):
    minutes, seconds = divmod(int(round(seconds)), 60)
    return f"{minutes}:{seconds:02d}"


def format_bar(share, width=_WIDTH):
    share = min(max(share, 0.0), 1.0)
    full = int(share * width)
    return "[" + "#" * full + "." * (width - full) + "]"


class Progress:
    """`weights` are the expected shares of the jobs in the whole time, by name."""

    def __init__(self, weights, stream=sys.stdout, clock=time.monotonic):
        self._weights = dict(weights)
        self._total = sum(self._weights.values())
        self._done = 0.0
        self._job = None
        self._stream = stream
        self._clock = clock
        self._started = clock()
        self._last_line = None
        self._is_terminal = stream.isatty()

    def start(self, job):
        self._job = job
        self._last_line = None

    def update(self, step, steps, figures=""):
        share = (self._done + self._weights[self._job] * step / max(1, steps)) / self._total
        elapsed = self._clock() - self._started
        left = ""
        if share > _SMALLEST_SHARE:
            left = f", about {format_seconds(elapsed / share - elapsed)} minutes left"
        line = (
            f"{format_bar(share)} {share:4.0%}  {self._job}: step {step}/{steps}"
            f"{'  ' + figures if figures else ''}  {format_seconds(elapsed)} gone{left}"
        )
        self._show(line)

    def finish_job(self, line):
        self._done += self._weights[self._job]
        self.note(line)

    def note(self, text):
        """A line that stays."""
        clear = "\r\033[K" if self._is_terminal else ""
        print(f"{clear}{text}", file=self._stream, flush=True)

    def _show(self, line):
        if self._is_terminal:
            print(f"\r\033[K{line}", end="", file=self._stream, flush=True)
            return
        now = self._clock()
        if self._last_line is None or now - self._last_line >= _LINE_SECONDS:
            self._last_line = now
            print(line, file=self._stream, flush=True)
