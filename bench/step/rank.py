#!/usr/bin/env python3
"""One rank of a program that trains as PyTorch DDP does, as far as its steps go: buckets of gradients
that are summed while a backward pass makes the next one. It knows nothing of Cinch. Writes
{"seconds": [..], "exact": [..], "kib": [..]} to FILE: what each step took, whether a sample of its sums is
exact, and after each model the process's memory, which that of its device is a part of.

    rank.py --rank R --ranks N --id-file FILE --out FILE [--bytes 1048576] [--buckets 8] [--steps 400]
            [--backward MS] [--wait-every 1] [--models 1] [--batches 4] [--networks 1]

The backward pass takes device time and no core: a stream that sleeps. The host waits for the device
after every --wait-every steps; the steps between have the same share of the time. Models follow one
another on the communicator, each slightly larger than the one before. Several networks, as of a GAN, are
trained in turn in each step, each with a communicator of its own.
"""

import argparse
import ctypes
import json
import os
import pathlib
import sys
import time

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import numpy as np  # noqa: E402

from training.nccl import Communicator  # noqa: E402

BATCHES = 4  # of gradients that take turns: two that follow one another are unlike, as noise makes them
LARGER = 1024  # values, of a bucket of the next model
SAMPLE = 1024  # values of the first bucket's sum that are looked at
LARGEST = 1000  # of the values, which are integers and half as many: their sums are exact in fp32
_DISABLE_TIMING, _DEVICE_TO_DEVICE = 2, 3  # cudaEventDisableTiming, cudaMemcpyKind
_USLEEP = ctypes.cast(ctypes.CDLL(None).usleep, ctypes.c_void_p)


def sizes_of(total, buckets):
    """Values of each bucket: the last one, of the first layers, is another size than the others."""
    each = total // 4 // buckets
    return [each] * (buckets - 1) + [each + each // 3]


class Device:
    """A stream for the backward pass beside the communicator's, and what orders them."""

    def __init__(self, communicator, shared=None):
        """`shared`: another one, whose backward passes are on the same stream."""
        self._cuda, self._comm_stream = communicator.cuda, communicator.stream
        self._compute, self._event = ctypes.c_void_p(), ctypes.c_void_p()
        if shared is None:
            self._cuda.cudaStreamCreate(ctypes.byref(self._compute))
        else:
            self._compute = shared._compute
        self._cuda.cudaEventCreateWithFlags(ctypes.byref(self._event), _DISABLE_TIMING)

    def compute(self, seconds):
        """The communicator's stream goes on when it is done."""
        if seconds > 0:
            self._cuda.cudaLaunchHostFunc(self._compute, _USLEEP, ctypes.c_void_p(int(seconds * 1e6)))
        self._order(self._compute, self._comm_stream)

    def step(self):
        """The optimizer, after all sums; the next forward pass follows it."""
        self._order(self._comm_stream, self._compute)

    def wait(self):
        self._cuda.cudaStreamSynchronize(self._compute)

    def copy(self, to, from_, n_bytes):
        self._cuda.cudaMemcpyAsync(
            to, from_, ctypes.c_size_t(n_bytes), _DEVICE_TO_DEVICE, self._comm_stream
        )

    def _order(self, before, after):
        self._cuda.cudaEventRecord(self._event, before)
        self._cuda.cudaStreamWaitEvent(after, self._event, 0)


class Bucket:
    """A buffer in which gradients are summed, and the batches of them that take turns."""

    def __init__(self, communicator, number, count, n_batches):
        self.count, self.n_bytes = count, 4 * count
        self._communicator = communicator
        self.memory = communicator.allocate(self.n_bytes)
        self.batches = [communicator.allocate(self.n_bytes) for _ in range(n_batches)]
        self.exact = [0] * n_batches
        for batch, memory in enumerate(self.batches):
            for rank in range(communicator.ranks):
                values = values_of(rank, number, batch, count)
                self.exact[batch] = self.exact[batch] + values[:SAMPLE]
                if rank == communicator.rank:
                    communicator.copy(memory, values.ctypes, values.nbytes)

    def free(self):
        for memory in (self.memory, *self.batches):
            self._communicator.free(memory)

    def is_exact(self, step):
        found = np.ctypeslib.as_array((ctypes.c_float * SAMPLE).from_address(self.memory.value))
        return bool(np.array_equal(found, self.exact[step % len(self.exact)]))


def values_of(rank, number, batch, count):
    random = np.random.default_rng([rank, number, batch])
    return np.rint(random.normal(0, LARGEST / 4, count)).astype(np.float32) / 2


def memory_kib():
    with open("/proc/self/statm", encoding="utf-8") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") // 1024


class Network:
    """What one communicator trains."""

    def __init__(self, options, number, first):
        self._options = options
        self._communicator = Communicator(options.rank, options.ranks, f"{options.id_file}.{number}")
        self.device = Device(self._communicator, first and first.device)
        self._buckets = []

    def begin(self, model):
        options = self._options
        for bucket in self._buckets:
            bucket.free()
        sizes = [size + model * LARGER for size in sizes_of(options.bytes // options.networks, options.buckets)]
        self._communicator.broadcast(np.zeros(sum(sizes), np.float32))  # the parameters
        self._buckets = [
            Bucket(self._communicator, number, size, options.batches) for number, size in enumerate(sizes)
        ]

    def step(self, step):
        options = self._options
        for bucket in self._buckets:
            self.device.compute(options.backward / 1e3 / len(self._buckets) / options.networks)
            self.device.copy(bucket.memory, bucket.batches[step % options.batches], bucket.n_bytes)
            self._communicator.all_reduce(bucket.memory, bucket.count)
        self.device.step()

    def is_exact(self, step):
        return self._buckets[0].is_exact(step)

    def close(self):
        self._communicator.close()


class Trainer:
    def __init__(self, options):
        self._options = options
        self._networks = []
        for number in range(options.networks):
            self._networks.append(Network(options, number, self._networks[0] if self._networks else None))
        self._seconds, self._exact = [], []

    def train(self):
        memory = []
        for model in range(self._options.models):
            for network in self._networks:
                network.begin(model)
            self._train_model()
            memory.append(memory_kib())
        for network in self._networks:
            network.close()
        return {"seconds": self._seconds, "exact": self._exact, "kib": memory}

    def _train_model(self):
        options, first = self._options, self._networks[0]
        begun = time.perf_counter()
        for step in range(options.steps):
            for network in self._networks:
                network.step(step)
            if (step + 1) % options.wait_every != 0:
                continue
            first.device.wait()
            now = time.perf_counter()
            self._seconds += [(now - begun) / options.wait_every] * options.wait_every
            self._exact.append(first.is_exact(step))
            begun = time.perf_counter()


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("rank", "ranks"):
        parser.add_argument(f"--{name}", type=int, required=True)
    for name in ("id-file", "out"):
        parser.add_argument(f"--{name}", required=True)
    for name, usual in (("bytes", 1 << 20), ("buckets", 8), ("steps", 400), ("wait-every", 1),
                        ("models", 1), ("batches", BATCHES), ("networks", 1)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--backward", type=float, default=0)
    return parser.parse_args()


def main():
    options = parse()
    found = Trainer(options).train()
    with open(options.out, "w", encoding="utf-8") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main()
