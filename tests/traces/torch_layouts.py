"""Which parameters' gradients a call of torch's data parallelism carries."""

import torch
import torch.distributed as dist
from torch.distributed.fsdp import _runtime_utils as fsdp1
from torch.distributed.fsdp._fully_shard import _fsdp_param_group as fsdp2

from recording_group import RECORDER


class DdpLayout:
    """The buckets of one DistributedDataParallel: as it is built, then as it broadcasts them."""

    def __init__(self):
        self.metadata = None  # sizes and strides, as broadcast
        self.order = []  # the two int32 messages about the new buckets
        self.buckets = []  # parameters of each bucket, in the order in which buckets are reduced
        self.parameters = []
        self.position = 0

    def wrap(self, module, **options):
        """DistributedDataParallel(module), watched."""
        reducer = dist.Reducer

        def build(parameters, buckets, *others, **more):
            self.parameters = parameters
            self.buckets = [list(bucket) for bucket in buckets]
            return reducer(parameters, buckets, *others, **more)

        dist.Reducer = build
        RECORDER.listener = self.listen
        wrapped = torch.nn.parallel.DistributedDataParallel(module, **options)
        dist.Reducer = reducer
        RECORDER.listener = None
        return wrapped

    def listen(self, tensor):
        """To what is broadcast while this model is built or run."""
        if tensor.dtype == torch.int64 and self.metadata is None:
            self.metadata = tensor.tolist()
        elif tensor.dtype == torch.int32:
            self.order.append(tensor.tolist())
            if len(self.order) == 2:
                self.rebuild(*self.order)

    def rebuild(self, order, bucket_sizes):
        assert order[-1] == len(bucket_sizes) and sum(bucket_sizes) == len(order) - 1
        ends = [sum(bucket_sizes[:i]) for i in range(len(bucket_sizes) + 1)]
        self.buckets = [order[start:end] for start, end in zip(ends, ends[1:])]
        self.position = 0

    def counts(self):
        return [sum(self.parameters[i].numel() for i in bucket) for bucket in self.buckets]

    def next(self, count):
        bucket = self.position
        assert count == self.counts()[bucket], (count, self.counts(), bucket)
        self.position = (bucket + 1) % len(self.buckets)
        return tuple(id(self.parameters[i]) for i in self.buckets[bucket])


class FixedLayout:
    """Every reduction in its scope is of the same parameters."""

    def __init__(self, content):
        self.content = content

    def next(self, count):
        return self.content


def watch_fsdp():
    """Every reduction of a group of parameters is named by them."""
    reduce2, reduce1 = fsdp2.foreach_reduce, fsdp1._reduce_grad

    def named2(parameters, *others, **more):
        names = tuple(parameter._param_fqn for parameter in parameters)
        with RECORDER.gradients_of(FixedLayout(names)):
            return reduce2(parameters, *others, **more)

    def named1(state, handle):
        with RECORDER.gradients_of(FixedLayout(id(handle))):
            return reduce1(state, handle)

    fsdp2.foreach_reduce, fsdp1._reduce_grad = named2, named1
