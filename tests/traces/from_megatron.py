"""Megatron-LM: megatron/core/distributed/param_and_grad_buffer.py (buckets),
megatron/core/tensor_parallel (activations), megatron/core/optimizer (norms).
"""

from shapes import Parameter, elements, gpt
from trace_format import ACTIVATIONS, OTHER, WEIGHTS, Trace

STEPS = 40
MICRO_BATCHES = 4
WIDTH, LAYERS, VOCABULARY = 2048, 24, 50304
LEAST_BUCKET = 40_000_000  # elements


def buckets_of(parameters, data_ranks, alignment):
    """(parameters, padded elements) of each bucket, from the last layer to the first."""
    buckets, bucket = [], []
    for i in range(len(parameters))[::-1]:
        bucket.append(i)
        size = elements([parameters[j] for j in bucket])
        if size >= max(LEAST_BUCKET, 1_000_000 * data_ranks) or i == 0:
            buckets.append((tuple(bucket), -(-size // alignment) * alignment))
            bucket = []
    return buckets


def megatron_distopt():
    """Communicator 0: data parallel; 1: the model parallel one of norms, here of the same ranks."""
    ranks = 8
    trace = Trace("megatron_distopt", "Megatron-LM, GPT 1.3B, distributed optimizer, overlap of"
                  " gradients and weights, fp32 gradients, 4 micro-batches",
                  "from source, Megatron-LM d98e8a6:"
                  " core/distributed/param_and_grad_buffer.py, core/optimizer", (ranks, ranks))
    buckets = buckets_of(gpt(WIDTH, LAYERS, VOCABULARY, 2048), ranks, 128 * ranks)
    for step in trace.train(STEPS):
        gathered = [*enumerate(buckets)] if step > 0 else []  # the first weights are there
        for number, (_, size) in reversed(gathered):  # as the forward pass needs them
            trace.call("AllGather", "None", "bf16", size // ranks, ("weights", number), WEIGHTS)
        for number, (bucket, size) in enumerate(buckets):
            trace.gradient("ReduceScatter", "Sum", "fp32", size // ranks, ("gradients", number),
                           bucket)
        trace.call("AllReduce", "Sum", "fp32", 2, "loss and tokens", OTHER)
        trace.call("AllReduce", "Other", "fp32", 1, "found_inf", OTHER, comm=1)
        trace.call("AllReduce", "Sum", "fp32", 1, "norm", OTHER, comm=1)
    return trace


def split(parameter, tensor_ranks):
    """The part of a matrix that one tensor parallel rank holds; vectors are kept whole."""
    if len(parameter.shape) == 1 or parameter.layer == "position":
        return parameter
    return Parameter(parameter.layer, (parameter.shape[0], parameter.shape[1] // tensor_ranks))


class TensorParallel:
    """Activations on communicator 0."""

    SEQUENCE, BATCH = 1024, 2

    def __init__(self, trace):
        self.trace = trace

    def sum_activations(self):
        count = self.SEQUENCE * self.BATCH * WIDTH
        self.trace.call("AllReduce", "Sum", "bf16", count, "activations", ACTIVATIONS)

    def cross_entropy(self):
        count = self.SEQUENCE * self.BATCH
        for op, what in (("Other", "maximum"), ("Sum", "target"), ("Sum", "denominator")):
            self.trace.call("AllReduce", op, "fp32", count, what, ACTIVATIONS)

    def micro_batch(self):
        self.sum_activations()  # embedding
        for _ in range(2 * LAYERS):
            self.sum_activations()
        self.cross_entropy()
        for _ in range(2 * LAYERS + 1):
            self.sum_activations()


def tp_dp():
    """Communicator 0: 4 tensor parallel ranks; 1: 2 data parallel ones, which reduce everything in
    the last micro-batch."""
    trace = Trace("tp_dp", "Megatron-LM, GPT 1.3B, tensor parallel over 4, data parallel over 2,"
                  " 4 micro-batches", "from source, Megatron-LM d98e8a6:"
                  " core/tensor_parallel, core/distributed", (4, 2))
    parameters = [split(p, 4) for p in gpt(WIDTH, LAYERS, VOCABULARY, 1024)]
    buckets = buckets_of(parameters, 2, 1)
    tensor = TensorParallel(trace)
    trace.header["parameters"] = elements(parameters)
    for i, parameter in enumerate(parameters):
        trace.call("Broadcast", "None", "bf16", parameter.elements, ("weights", i), WEIGHTS, comm=1)
    for _ in trace.train(STEPS):
        for _ in range(MICRO_BATCHES):
            tensor.micro_batch()
        for number, (bucket, size) in enumerate(buckets):
            trace.gradient("AllReduce", "Sum", "fp32", size, ("gradients", number), bucket, comm=1)
        trace.call("AllReduce", "Sum", "fp32", 2, "loss and tokens", OTHER, comm=1)
        trace.call("AllReduce", "Sum", "fp32", 1, "norm", OTHER)
    return trace


def tp_only():
    """Nothing but activations of one size: no call can be told from another."""
    trace = Trace("tp_only", "Megatron-LM, tensor parallel over 8, activations only",
                  "from source, Megatron-LM d98e8a6: core/tensor_parallel", (8,))
    tensor = TensorParallel(trace)
    for _ in trace.train(STEPS):
        for _ in range(4 * LAYERS):
            tensor.sum_activations()
    return trace
