"""DeepSpeed ZeRO on GPT-2 124M.

Stages 1 and 2: deepspeed/runtime/zero/stage_1_and_2.py; stage 3: stage3.py,
partition_parameters.py, partitioned_param_coordinator.py, runtime/comm/coalesced_collectives.py.
"""

import itertools

from shapes import elements, gpt
from trace_format import OTHER, WEIGHTS, Trace

RANKS = 8
STEPS = 40
BUCKET = 20_000_000  # reduce_bucket_size, elements
PREFETCH = 10_000_000  # stage3_prefetch_bucket_size, elements


def up(value, unit):
    return -(-value // unit) * unit


def ipg_buckets(parameters):
    """Gradients in order of arrival; one that is larger than a bucket travels alone, once it has
    made the others leave."""
    buckets, bucket, size = [], [], 0
    for i in range(len(parameters))[::-1]:
        if size + parameters[i].elements > BUCKET and bucket:
            buckets.append(bucket)
            bucket, size = [], 0
        bucket.append(i)
        size += parameters[i].elements
    return buckets + [bucket]


def broadcast_parameters(trace, parameters, type_):
    """One by one, as DeepSpeedEngine does."""
    trace.header["parameters"] = elements(parameters)
    for i, parameter in enumerate(parameters):
        trace.call("Broadcast", "None", type_, parameter.elements, ("parameter", i), WEIGHTS)


class Stage12:
    def __init__(self, name, facts, type_):
        self.trace = Trace(name, f"DeepSpeed, GPT-2 124M, {facts}",
                           "from source, DeepSpeed edaa722: runtime/zero/stage_1_and_2.py",
                           (RANKS,))
        self.type = type_
        self.parameters = gpt()
        self.buckets = ipg_buckets(self.parameters)
        broadcast_parameters(self.trace, self.parameters, type_)

    def size(self, bucket):
        return elements([self.parameters[i] for i in bucket])

    def update(self):
        """Overflow and norm, the optimizer on the own partition, then everybody's weights."""
        self.trace.call("AllReduce", "Other", "uint8", 1, "overflow", OTHER)
        self.trace.call("AllReduce", "Sum", "fp32", 1, "norm", OTHER)
        share = up(elements(self.parameters), 2 * RANKS) // RANKS
        self.trace.call("AllGather", "None", self.type, share, "weights", WEIGHTS)


def zero1():
    """Slices of a bucket are put into a fresh tensor, and every rank gets the sum of them all."""
    job = Stage12("zero1", "stage 1, fp16, one buffer", "fp16")
    for _ in job.trace.train(STEPS):
        for bucket in job.buckets:
            buffer = ("flattened", job.size(bucket))  # the allocator finds the last one's place
            job.trace.gradient("AllReduce", "Sum", "fp16", job.size(bucket), buffer, tuple(bucket))
        job.update()
    return job.trace


def reduce_to_owners(job, bucket, buffer):
    """A reduction to each rank that owns a part of the bucket's parameters."""
    share = up(elements(job.parameters), 2 * RANKS) // RANKS
    starts = [0, *itertools.accumulate(p.elements for p in job.parameters)]
    pieces = {}  # of each owner: (parameter, elements)
    for i in bucket:
        for owner in range(starts[i] // share, (starts[i + 1] - 1) // share + 1):
            size = min(starts[i + 1], (owner + 1) * share) - max(starts[i], owner * share)
            pieces.setdefault(owner, []).append((i, size))
    for owner, parts in pieces.items():
        job.trace.gradient("Reduce", "Sum", job.type, sum(size for _, size in parts),
                           (buffer, owner), (owner, *parts))


def zero2(reduce_scatter=False):
    """Two buckets in turns (overlap_comm): the same addresses carry other parameters."""
    name = "zero2_owners" if reduce_scatter else "zero2"
    how = "reduced to the owners" if reduce_scatter else "reduce_scatter off"
    job = Stage12(name, f"stage 2, bf16, overlap_comm, {how}, 2 micro-batches", "bf16")
    turns = itertools.cycle(("buffer 0", "buffer 1"))
    for _ in job.trace.train(STEPS):
        for bucket in 2 * job.buckets:  # stage 2 reduces every micro-batch
            buffer = next(turns) if job.size(bucket) <= BUCKET else "too large for a buffer"
            if reduce_scatter:
                reduce_to_owners(job, bucket, buffer)
            else:
                job.trace.gradient("AllReduce", "Sum", "bf16", job.size(bucket), buffer,
                                   tuple(bucket))
        job.update()
    return job.trace


class Stage3:
    def __init__(self):
        self.trace = Trace("zero3", "DeepSpeed, GPT-2 124M, stage 3, bf16, prefetching from step 1",
                           "from source, DeepSpeed edaa722: runtime/zero/stage3.py,"
                           " partitioned_param_coordinator.py, comm/coalesced_collectives.py",
                           (RANKS,))
        self.parameters = gpt()
        self.buckets = ipg_buckets(self.parameters)
        layers = dict.fromkeys(p.layer for p in self.parameters)
        self.modules = [[i for i, p in enumerate(self.parameters) if p.layer == layer]
                        for layer in layers]

    def share(self, indices):
        """Of one rank: each parameter is padded for itself."""
        return sum(up(self.parameters[i].elements, RANKS) // RANKS for i in indices)

    def size(self, modules):
        return elements([self.parameters[i] for module in modules for i in module])

    def run(self, modules, prefetches):
        """Yields each module when its weights are there. They are fetched when its turn comes,
        with as many of the next ones as a prefetch holds once the order is known."""
        waiting = list(modules)
        while waiting:
            fetched = [waiting.pop(0)]
            while prefetches and waiting and self.size([*fetched, waiting[0]]) <= PREFETCH:
                fetched.append(waiting.pop(0))
            share = self.share(sum(fetched, []))
            self.trace.call("AllGather", "None", "bf16", share, ("gathered", share), WEIGHTS)
            yield from fetched

    def forward(self, prefetches):
        for _ in self.run(self.modules, prefetches):
            pass

    def backward(self, prefetches):
        """A bucket leaves when the first gradient comes that does not fit into it."""
        leaving = {after[0]: bucket for bucket, after in zip(self.buckets, self.buckets[1:])}
        for module in self.run(self.modules[::-1], prefetches):
            for i in reversed(module):
                if i in leaving:
                    self.reduce(leaving[i])
        self.reduce(self.buckets[-1])

    def reduce(self, bucket):
        share = self.share(bucket)
        self.trace.gradient("ReduceScatter", "Sum", "bf16", share, ("scattered", share),
                            tuple(bucket))

    def update(self):
        self.trace.call("AllReduce", "Other", "uint8", 1, "overflow", OTHER)
        self.trace.call("AllReduce", "Sum", "fp32", 1, "norm", OTHER)


def zero3():
    job = Stage3()
    for step in job.trace.train(STEPS):
        job.forward(step > 0)
        job.backward(step > 0)
        job.update()
    return job.trace
