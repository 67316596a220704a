#!/usr/bin/env python3
"""One rank that sums buffers with ncclAllReduce, over and over, and times every call. It knows nothing
of Cinch. Writes {"sizes": [{"bytes": .., "seconds": [..], "nmse": [..]}]} to FILE.

    rank.py --rank R --ranks N --id-file FILE --type fp32 --plan 65536:40,262144:20 --out FILE

A plan is BYTES:CALLS for each size, or BYTES:WARM:CALLS:BURSTS, which is WARM calls and then bursts of
CALLS. With --turns FOLDER the rank takes turns with others' programs: before the first call of a size
and before every burst it writes a byte to FOLDER/arrived, and waits for one in FOLDER/go-R. At the
calls of --pauses, each rank writes FILE.at-CALL and waits until FOLDER/go-CALL appears. With --sleep,
it sleeps so long before every tenth call.
"""

import argparse
import ctypes
import json
import os
import pathlib
import sys
import time
from dataclasses import dataclass

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import numpy as np  # noqa: E402

from training.nccl import Communicator  # noqa: E402

SAMPLE = 16 * 1024  # values of a result that are looked at
LARGEST = 20  # of the values, which are integers: their sums are exact in every type
DRAWN = 1 << 20
SLEEP_EVERY = 10
_POLL_SECONDS = 0.01


def to_bits(values, kind):
    """The values in the type, as an array of its bits."""
    bits = values.astype(np.float32).view(np.uint32)
    return bits if kind == "fp32" else (bits >> 16).astype(np.uint16)


def to_values(bits, kind):
    if kind == "fp32":
        return bits.view(np.float32)
    return (bits.astype(np.uint32) << 16).view(np.float32)


def values_of(rank, count):
    """Drawing many takes longer than adding them up: long buffers hold the same again and again."""
    random = np.random.default_rng(rank)
    drawn = np.rint(np.clip(random.normal(0, LARGEST / 3, min(count, DRAWN)), -LARGEST, LARGEST))
    return np.resize(drawn.astype(np.float32), count)


class Bucket:
    """A buffer that is summed again and again, and what comes of it."""

    def __init__(self, communicator, kind, n_bytes):
        self._communicator, self._kind = communicator, kind
        self._width = 4 if kind == "fp32" else 2
        self._count = n_bytes // self._width
        own = to_bits(values_of(communicator.rank, self._count), kind)
        self._send, self._received = (communicator.allocate(n_bytes) for _ in range(2))
        communicator.copy(self._send, own.ctypes, own.nbytes)
        every = max(1, self._count // SAMPLE)
        self._sample = slice(0, every * SAMPLE, every)
        parts = [values_of(rank, self._count)[self._sample] for rank in range(communicator.ranks)]
        self._exact = sum(parts)

    def sum(self):
        """Seconds."""
        begun = time.perf_counter()
        self._communicator.sum(self._send, self._received, self._count, self._kind)
        return time.perf_counter() - begun

    def nmse(self):
        """Squared error of a sample of the result, by its power."""
        width = ctypes.c_uint32 if self._width == 4 else ctypes.c_uint16
        bits = np.ctypeslib.as_array((width * self._count).from_address(self._received.value))
        found = to_values(bits[self._sample].copy(), self._kind).astype(np.float64)
        return float(np.sum((found - self._exact) ** 2) / np.sum(self._exact**2))


def pause(options, call):
    pathlib.Path(f"{options.out}.at-{call}").touch()
    go = pathlib.Path(options.folder) / f"go-{call}"
    while not go.exists():
        time.sleep(_POLL_SECONDS)


class Turns:
    """The program's part of what job.Contest says."""

    def __init__(self, folder, rank):
        # For both, so that opening waits for nobody.
        self._arrived = os.open(f"{folder}/arrived", os.O_RDWR)
        self._go = os.open(f"{folder}/go-{rank}", os.O_RDWR)

    def take(self):
        os.write(self._arrived, b".")
        os.read(self._go, 1)


@dataclass
class Step:
    """Of a plan."""

    n_bytes: int
    warm: int
    calls: int = 0
    bursts: int = 0

    def all_calls(self):
        return self.warm + self.calls * self.bursts

    def begins_turn(self, call):
        begun = call - self.warm
        return call == 0 or (begun >= 0 and begun % self.calls == 0)


def measure(communicator, step, options):
    bucket = Bucket(communicator, options.type, step.n_bytes)
    seconds, errors = [], []
    for call in range(step.all_calls()):
        if options.turns and step.begins_turn(call):
            options.turns.take()
        if call in options.pauses:
            pause(options, call)
        if options.sleep and call % SLEEP_EVERY == SLEEP_EVERY - 1:
            time.sleep(options.sleep)
        seconds.append(bucket.sum())
        if options.checks == "all" or call + 1 == step.all_calls():
            errors.append(bucket.nmse())
    return {"bytes": step.n_bytes, "seconds": seconds, "nmse": errors}


def numbers(text):
    return [int(word) for word in text.split(",") if word]


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("rank", "ranks"):
        parser.add_argument(f"--{name}", type=int, required=True)
    for name in ("id-file", "plan", "out"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--type", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--checks", choices=("all", "last"), default="all")
    parser.add_argument("--pauses", type=numbers, default=[])
    parser.add_argument("--folder")
    parser.add_argument("--turns")
    parser.add_argument("--sleep", type=float, default=0)
    return parser.parse_args()


def main():
    options = parse()
    options.turns = options.turns and Turns(options.turns, options.rank)
    communicator = Communicator(options.rank, options.ranks, options.id_file)
    plan = [Step(*map(int, step.split(":"))) for step in options.plan.split(",")]
    sizes = [measure(communicator, step, options) for step in plan]
    if options.turns:
        options.turns.take()
    communicator.close()
    with open(options.out, "w", encoding="utf-8") as file:
        json.dump({"sizes": sizes}, file)


if __name__ == "__main__":
    main()
