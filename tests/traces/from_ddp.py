"""PyTorch DistributedDataParallel with SyncBatchNorm, by the rules of older releases (2.4): the
first buckets are those of the declared order, reversed (torch 2.15 starts with a single one).

Bucketing: torch/csrc/distributed/c10d/reducer.cpp; SyncBatchNorm: torch/nn/modules/_functions.py.
"""

from shapes import elements, resnet50
from trace_format import OTHER, WEIGHTS, Trace

FIRST_BUCKET, BUCKET = 1 << 20, 25 << 20  # bytes
RANKS = 8
STEPS = 40


def buckets_of(parameters, order):
    """A bucket closes as soon as it has reached the limit; the first one's is lower."""
    buckets, bucket, limit = [], [], FIRST_BUCKET
    for index in order:
        bucket.append(index)
        if 4 * sum(parameters[i].elements for i in bucket) >= limit:
            buckets.append(bucket)
            bucket, limit = [], BUCKET
    return buckets + [bucket] if bucket else buckets


class Ddp:
    def __init__(self, trace, parameters):
        self.trace, self.parameters = trace, parameters
        trace.header["parameters"] = elements(parameters)
        self.statistics = 2 * sum(p.elements for p in parameters if p.is_norm)
        self.norms = sum(p.is_norm for p in parameters)
        dimensions = sum(len(p.shape) for p in parameters)
        trace.call("AllGather", "None", "int64", 1, "parameter count", OTHER)
        trace.call("Broadcast", "None", "int64", 2 * dimensions, "shapes", OTHER)
        self.broadcast_states(elements(parameters) + self.statistics)
        self.lay_out(buckets_of(parameters, range(len(parameters)))[::-1], "first")

    def broadcast_states(self, floats):
        self.trace.call("Broadcast", "None", "fp32", floats, ("states", floats), WEIGHTS)
        self.trace.call("Broadcast", "None", "int64", self.norms, "batches", OTHER)

    def lay_out(self, buckets, generation):
        self.buckets, self.generation = buckets, generation
        self.bucket_of = {i: b for b, bucket in enumerate(buckets) for i in bucket}

    def rebuild(self):
        arrival = range(len(self.parameters))[::-1]
        buckets = buckets_of(self.parameters, arrival)
        self.trace.call("Broadcast", "None", "int32", len(arrival) + 1, "order", OTHER)
        self.trace.call("Broadcast", "None", "int32", len(buckets), "bucket sizes", OTHER)
        self.lay_out(buckets, "rebuilt")

    def forward(self):
        self.broadcast_states(self.statistics)
        for i, parameter in enumerate(self.parameters):
            if parameter.is_norm:
                count = 2 * parameter.elements + 1
                self.trace.call("AllGather", "None", "fp32", count, ("moments", i), OTHER)

    def backward(self):
        waiting = [len(bucket) for bucket in self.buckets]
        launched = 0
        for i in range(len(self.parameters))[::-1]:
            if self.parameters[i].is_norm:
                count = 2 * self.parameters[i].elements
                self.trace.call("AllReduce", "Sum", "fp32", count, ("sums", i), OTHER)
            waiting[self.bucket_of[i]] -= 1
            while launched < len(waiting) and waiting[launched] == 0:
                self.reduce(launched)
                launched += 1

    def reduce(self, number):
        bucket = self.buckets[number]
        count = elements([self.parameters[i] for i in bucket])
        self.trace.gradient("AllReduce", "Sum", "fp32", count, (self.generation, number),
                            tuple(bucket))


def ddp_syncbn():
    trace = Trace("ddp_syncbn", "PyTorch, ResNet-50 with SyncBatchNorm on DDP's communicator",
                  "from source, torch 2.4: reducer.cpp, nn/parallel/distributed.py,"
                  " nn/modules/_functions.py", (RANKS,))
    ddp = Ddp(trace, resnet50())
    for step in trace.train(STEPS):
        if step == 1:
            ddp.rebuild()
        ddp.forward()
        ddp.backward()
    return trace
