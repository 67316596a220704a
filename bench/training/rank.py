#!/usr/bin/env python3
"""One rank of a data-parallel job, which makes the NCCL calls that PyTorch's DDP makes: the shapes
of the parameters, then their values, and then, in every step, the average of each bucket. It knows
nothing of Cinch. Prints {"loss": held-out loss, "hash": of the parameters, "parameters": ..}.

    rank.py --rank R --ranks N --id-file FILE --task NAME --steps N --seed N
"""

import argparse
import ctypes
import json
import os
import pathlib
import sys
import zlib

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import numpy as np  # noqa: E402

from learning import optimiser  # noqa: E402
from learning.tasks import TASKS, batches  # noqa: E402
from training.nccl import Communicator  # noqa: E402

BUCKET_VALUES = 96 * 1024  # at least; the language model has two buckets, smaller models one
SAMPLES = 4  # times the task's batch in each step, whatever the number of ranks


class Bucket:
    """Consecutive parameters whose gradients are reduced in one call."""

    def __init__(self, communicator, gradient):
        self._communicator, self._gradient = communicator, gradient
        self._memory = communicator.allocate(gradient.nbytes)

    def average(self):
        self._communicator.average(self._memory, self._gradient)


def cuts(sizes, at_least):
    """(first, last) of each bucket: whole parameters, the last ones first. What is left at the end
    joins the last bucket."""
    first = last = sum(sizes)
    for size in reversed(sizes):
        first -= size
        if first == 0 or first >= at_least <= last - first:
            yield first, last
            last = first


def shape_numbers(shapes):
    """The sizes of every parameter followed by its strides, as DDP sends them."""
    numbers = []
    for shape in shapes:
        numbers += shape
        numbers += [int(np.prod(shape[axis + 1 :])) for axis in range(len(shape))]
    return np.array(numbers, np.int64)


def announce(communicator, model):
    """What DDP sends when it wraps a model."""
    communicator.all_gather(np.array([len(model.shapes)], np.int64))
    communicator.broadcast(shape_numbers(model.shapes))
    communicator.broadcast(model.parameters)


def train(communicator, task, data, options):
    model = task.model(1, options.seed)
    announce(communicator, model)
    gradient = model.gradients[0]
    buckets = [
        Bucket(communicator, gradient[first:last])
        for first, last in cuts(model.sizes, BUCKET_VALUES)
    ]
    update = optimiser.make(task.optimiser, len(gradient), task.decay).update
    batch = SAMPLES * task.batch // communicator.ranks
    for step in range(options.steps):
        model.step(*batches(data, options.seed, step, [communicator.rank], batch))
        for bucket in buckets:
            bucket.average()
        update(model.parameters, gradient, optimiser.rate_at(step, options.steps, task.rate))
    return model


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("rank", "ranks", "steps", "seed"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--id-file", required=True)
    parser.add_argument("--task", choices=TASKS, required=True)
    return parser.parse_args(arguments)


def reduce_as_pytorch_does():
    """Names this thread as PyTorch names those of its autograd engine: it reduces one bucket of gradients, which by
    itself could be an average of weights."""
    PR_SET_NAME = 15
    ctypes.CDLL(None).prctl(PR_SET_NAME, b"pt_autograd_0", 0, 0, 0)


def main(arguments):
    options = parse_arguments(arguments)
    reduce_as_pytorch_does()
    task = TASKS[options.task]
    data = task.data()
    communicator = Communicator(options.rank, options.ranks, options.id_file)
    model = train(communicator, task, data, options)
    communicator.close()
    print(
        json.dumps(
            {
                "loss": model.loss(*data.held_out),
                "hash": zlib.crc32(model.parameters),
                "parameters": len(model.parameters),
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1:])
