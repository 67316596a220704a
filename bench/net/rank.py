#!/usr/bin/env python3
"""One of two ranks of an NCCL program, which knows nothing of its network. Rank 0 sends, rank 1
receives and prints one object.

    rank.py stream    messages for so many seconds, in equal parts, one for each interface
    rank.py checked   so many messages, compared with what was sent
    rank.py pingpong  messages there and back; here rank 0 prints
"""

import argparse
import ctypes
import json
import os
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import numpy as np  # noqa: E402

from training.nccl import Communicator  # noqa: E402

INT8 = 0  # ncclDataType_t
SENDER, RECEIVER = 0, 1
PINGPONG_WARM_UP = 200


class Peer(Communicator):
    """A communicator of two."""

    def __init__(self, rank, id_file):
        super().__init__(rank, 2, id_file)

    def move(self, memory, n_bytes, sends):
        call = self._nccl.ncclSend if sends else self._nccl.ncclRecv
        call(memory, ctypes.c_size_t(n_bytes), INT8, 1 - self.rank, self._comm, self._stream)

    def finish(self):
        self._cuda.cudaStreamSynchronize(self._stream)

    def group(self, start):
        self._nccl.ncclGroupStart() if start else self._nccl.ncclGroupEnd()


class SplitMessage:
    """Moves a message as equal parts over as many communicators."""

    def __init__(self, options):
        self._peers = []
        for index, interface in enumerate(options.interfaces.split(",")):
            os.environ["NCCL_SOCKET_IFNAME"] = "=" + interface  # of the next communicator
            self._peers.append(Peer(options.rank, f"{options.id_file}{index}"))
        self._sends = options.rank == SENDER
        self._part = options.bytes // len(self._peers)
        self._memory = [peer.allocate(self._part) for peer in self._peers]

    def move(self):
        self._peers[0].group(True)
        for peer, memory in zip(self._peers, self._memory):
            peer.move(memory, self._part, self._sends)
        self._peers[0].group(False)
        for peer in self._peers:
            peer.finish()

    def mark(self, value):
        ctypes.memset(self._memory[0], value, 1)  # an emulated device's memory

    def is_marked(self):
        return ctypes.string_at(self._memory[0], 1) != b"\0"

    def close(self):
        for peer in self._peers:
            peer.close()


def stream(options):
    """The last message is marked."""
    message = SplitMessage(options)
    message.mark(0)
    begin = time.monotonic() + options.warm_up
    end, n_bytes, last = begin + options.seconds, 0, False
    started = None
    while not last:
        if options.rank == SENDER and time.monotonic() >= end:
            message.mark(1)
        message.move()
        last = message.is_marked()
        now = time.monotonic()
        if started is None and now >= begin:
            started = now
        elif started is not None:
            n_bytes += options.bytes
    message.close()
    return {"gbit_per_s": n_bytes * 8e-9 / (now - started)}


def pattern(options, number):
    return np.random.default_rng(number).integers(0, 256, options.bytes, np.uint8)


def checked(options):
    peer = Peer(options.rank, options.id_file)
    memory, wrong = peer.allocate(options.bytes), 0
    for number in range(options.messages):
        expected = pattern(options, number)
        if options.rank == SENDER:
            ctypes.memmove(memory, expected.ctypes.data, options.bytes)
        peer.move(memory, options.bytes, options.rank == SENDER)
        peer.finish()
        if options.rank == RECEIVER:
            wrong += ctypes.string_at(memory, options.bytes) != expected.tobytes()
    peer.close()
    return {"messages": options.messages, "wrong": wrong}


def pingpong(options):
    peer = Peer(options.rank, options.id_file)
    memory, times = peer.allocate(options.bytes), []
    for _ in range(PINGPONG_WARM_UP + options.messages):
        start = time.perf_counter()
        peer.move(memory, options.bytes, options.rank == SENDER)
        peer.move(memory, options.bytes, options.rank != SENDER)
        peer.finish()
        times.append(time.perf_counter() - start)
    peer.close()
    return {"round_trip_us": 1e6 * statistics.median(times[PINGPONG_WARM_UP:])}


PROGRAMS = {
    "stream": (stream, RECEIVER),
    "checked": (checked, RECEIVER),
    "pingpong": (pingpong, SENDER),
}


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", choices=PROGRAMS)
    for name in ("rank", "bytes"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--id-file", required=True)
    parser.add_argument("--messages", type=int)
    parser.add_argument("--interfaces")
    parser.add_argument("--warm-up", type=float)
    parser.add_argument("--seconds", type=float)
    return parser.parse_args(arguments)


def main(arguments):
    options = parse_arguments(arguments)
    run, printer = PROGRAMS[options.program]
    figures = run(options)
    if options.rank == printer:
        print(json.dumps(figures))


if __name__ == "__main__":
    main(sys.argv[1:])
