#!/usr/bin/env python3
"""One process of a JAX data-parallel job: each has one device, and the compiler averages the gradients.

jax_data_parallel.py --rank R --ranks N --id-file PATH [--steps 100] [--out FILE]
"""

import argparse
import json
import os
import socket
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

SIZES = (256, 1024, 1024, 16)
BATCH = 128  # of each process
LEARNING_RATE = 0.3


def coordinator(options):
    """The address that process 0 chooses and tells the others through the file."""
    if options.rank == 0:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{probe.getsockname()[1]}"
        with open(options.id_file + ".new", "w", encoding="utf-8") as file:
            file.write(address)
        os.replace(options.id_file + ".new", options.id_file)
    while not os.path.exists(options.id_file):
        time.sleep(0.05)
    with open(options.id_file, encoding="utf-8") as file:
        return file.read()


def initial_weights():
    random = np.random.default_rng(1)
    return [random.standard_normal(shape, np.float32) / np.float32(shape[0]) ** 0.5
            for shape in zip(SIZES, SIZES[1:])]


def batch_of(rank, step):
    teacher = np.random.default_rng(7).standard_normal((SIZES[0], SIZES[-1]), np.float32)
    inputs = np.random.default_rng([rank, step]).standard_normal((BATCH, SIZES[0]), np.float32)
    return inputs, (inputs @ teacher).argmax(axis=1)


def loss_of(weights, inputs, labels):
    for layer in weights[:-1]:
        inputs = jax.nn.gelu(inputs @ layer)
    scores = jax.nn.log_softmax(inputs @ weights[-1])
    return -jnp.take_along_axis(scores, labels[:, None], axis=1).mean()


def step_of(weights, inputs, labels):
    loss, gradients = jax.value_and_grad(loss_of)(weights, inputs, labels)
    return loss, [layer - LEARNING_RATE * gradient for layer, gradient in zip(weights, gradients)]


def checksum(weights):
    """Of this process's copy."""
    own = [np.asarray(layer.addressable_data(0)) for layer in weights]
    return sum(int(layer.view(np.int32).astype(np.int64).sum()) for layer in own)


def train(options):
    mesh = Mesh(np.array(jax.devices()), ("rank",))
    everywhere, split = NamedSharding(mesh, PartitionSpec()), NamedSharding(mesh, PartitionSpec("rank"))
    step = jax.jit(step_of, out_shardings=everywhere)
    weights = [jax.make_array_from_process_local_data(everywhere, layer) for layer in initial_weights()]
    losses = []
    for number in range(options.steps):
        batch = [jax.make_array_from_process_local_data(split, part) for part in batch_of(options.rank, number)]
        loss, weights = step(weights, *batch)
        losses.append(float(loss.addressable_data(0)))
    return {"rank": options.rank, "jax": jax.__version__, "losses": losses, "weights": checksum(weights)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--id-file", required=True, help="for the processes to find each other; must not exist yet")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--out", help="write the result here, too")
    options = parser.parse_args()
    jax.distributed.initialize(coordinator(options), options.ranks, options.rank, local_device_ids=[0])
    result = json.dumps(train(options))
    print(result, flush=True)
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            file.write(result)
    jax.distributed.shutdown()


if __name__ == "__main__":
    main()
