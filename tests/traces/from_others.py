"""JAX, Horovod, and a sharded job whose reductions say nothing."""

import random

from shapes import elements, gpt_block, resnet50
from trace_format import OTHER, WEIGHTS, Trace

RANKS = 8
STEPS = 40


def jax_scan():
    """lax.scan over the layers: one instruction for all of them, so the same addresses and counts.
    What is outside of the loop is combined into one operation: a group of one call per tensor."""
    layers, width, vocabulary = 24, 1024, 50257
    trace = Trace("jax_scan", "JAX, transformer of 24 layers in a lax.scan, fp32",
                  "from source, XLA 0560053: all_reduce_thunk.cc, nccl_communicator.cc",
                  (RANKS,))
    attention, perceptron = 4 * width * width, 8 * width * width
    outside = {"embedding": vocabulary * width, "position": 1024 * width, "norm": 2 * width}
    for _ in trace.train(STEPS):
        trace.call("AllReduce", "Sum", "fp32", 1, "loss", OTHER)
        for layer in range(layers):
            trace.gradient("AllReduce", "Sum", "fp32", perceptron, "A", ("perceptron", layer))
            trace.gradient("AllReduce", "Sum", "fp32", attention, "B", ("attention", layer))
        for name, count in outside.items():
            trace.gradient("AllReduce", "Sum", "fp32", count, name, name)
    return trace


def horovod_cycles(parameters, rng):
    """Gradients in order of arrival; how many are ready when a cycle ends is a matter of time."""
    waiting = list(range(len(parameters)))[::-1]
    while waiting:
        number = rng.randint(1, 60)
        yield tuple(waiting[:number])
        del waiting[:number]


def horovod():
    """The tensors of a cycle share the fusion buffer, each aligned to 16 bytes; one alone is
    reduced where it is. Without a fixed seed no two steps would be the same."""
    trace = Trace("horovod", "Horovod, ResNet-50, fp32",
                  "from source, Horovod 2626dc8: common/controller.cc, common/operations.cc,"
                  " ops/nccl_operations.cc", (RANKS,))
    parameters, rng = resnet50(), random.Random(5)
    trace.header["parameters"] = elements(parameters)
    for i, parameter in enumerate(parameters):
        trace.call("Broadcast", "None", "fp32", parameter.elements, ("tensor", i), WEIGHTS)
    for _ in trace.train(STEPS):
        for cycle in horovod_cycles(parameters, rng):
            if len(cycle) == 1:
                count, buffer = parameters[cycle[0]].elements, ("tensor", cycle[0])
            else:
                count, buffer = sum(-(-parameters[i].elements // 4) * 4 for i in cycle), "fusion"
            trace.gradient("AllReduce", "Avg", "fp32", count, buffer, cycle)
    return trace


def fsdp_rs_only():
    """Equal reduce-scatters with no gather between them (the weights stay gathered, on another
    communicator): nothing tells where a step begins."""
    layers, width = 20, 1024
    trace = Trace("fsdp_rs_only", "PyTorch, fully_shard over 20 equal layers, reductions only",
                  "from source, torch 8fc2039: distributed/fsdp/_fully_shard/_fsdp_collectives.py",
                  (RANKS,))
    count = elements(gpt_block("block", width)) // RANKS
    for _ in trace.train(STEPS):
        for layer in range(layers)[::-1]:
            trace.gradient("ReduceScatter", "Avg", "fp32", count, layer % 2, layer)
    return trace
