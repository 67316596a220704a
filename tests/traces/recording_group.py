"""A process group that writes down the calls which torch would pass to NCCL, instead of making
them.

One process plays rank 0 of a job of any size: what it gathers is its own part, repeated, and sums
are left as they are. Which calls a framework makes, and in which order, does not depend on their
values.
"""

import contextlib

import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore

from trace_format import OTHER, WEIGHTS, Numbers

TYPES = {torch.int32: "int32", torch.int64: "int64", torch.uint8: "uint8", torch.bool: "uint8",
         torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16",
         torch.float64: "fp64"}
OPS = {dist.ReduceOp.SUM: "Sum", dist.ReduceOp.AVG: "Avg"}


class Recorder:
    """Where the calls go. Without a trace they are only made."""

    def __init__(self):
        self.stop()

    def start(self, trace):
        self.trace = trace
        self.comms = Numbers()
        self.listener = None  # called with every tensor that is broadcast
        self.layout = None  # next(layout, count) names the parameters of a gradient, or None
        self.is_metric = False

    def stop(self):
        self.trace = None

    @contextlib.contextmanager
    def gradients_of(self, layout):
        before, self.layout = self.layout, layout
        yield
        self.layout = before

    @contextlib.contextmanager
    def metrics(self):
        self.is_metric = True
        yield
        self.is_metric = False

    def see(self, group, kind, op, tensor, count):
        if self.trace is None:
            return
        call = (kind, op, TYPES[tensor.dtype], count)
        comm = self.comms[group]
        is_float = tensor.is_floating_point() and not self.is_metric
        content = self.layout.next(count) if self.layout and is_float and op != "None" else None
        if content is not None:
            self.trace.gradient(*call, tensor.data_ptr(), content, comm)
        else:  # mostly in a tensor made for the call, somewhere
            truth = WEIGHTS if is_float and op == "None" else OTHER
            self.trace.call(*call, call, truth, comm)


RECORDER = Recorder()


class Done(dist.Work):
    def __init__(self, result):
        super().__init__()
        self.outcome = result
        self.future = torch.futures.Future()
        self.future.set_result(result)

    def wait(self, timeout=None):
        return True

    def is_completed(self):
        return True

    def get_future(self):
        return self.future

    def result(self):
        return self.outcome


def name_of(op):
    for known, name in OPS.items():
        if op == known:
            return name
    return "Other"


class RecordingGroup(dist.ProcessGroup):
    """Names and counts as ProcessGroupNCCL passes them on."""

    def __init__(self, options):
        super().__init__(options.group_rank, options.group_size)
        self.name_given = options.group_id

    def getGroupName(self):
        return self.name_given

    def getBackendName(self):
        return "recording"

    def allreduce(self, tensors, options):
        for tensor in tensors:
            self._see("AllReduce", name_of(options.reduceOp), tensor, tensor.numel())
        return Done(tensors)

    allreduce_coalesced = allreduce

    def broadcast(self, tensors, options):
        self._see("Broadcast", "None", tensors[0], tensors[0].numel())
        if RECORDER.trace is not None and RECORDER.listener:
            RECORDER.listener(tensors[0])
        return Done(tensors)

    def allgather(self, outputs, inputs, options):
        self._see("AllGather", "None", inputs[0], inputs[0].numel())
        for output in outputs[0]:
            output.copy_(inputs[0])
        return Done(outputs)

    def all_gather_single(self, output, input, options):
        self._see("AllGather", "None", input, input.numel())
        output.view(self.size(), -1).copy_(input.reshape(1, -1).clone())
        return Done([output])

    def reduce_scatter_single(self, output, input, options):
        self._see("ReduceScatter", name_of(options.reduceOp), input, output.numel())
        output.copy_(input.view(self.size(), -1)[self.rank()].view_as(output))
        return Done([output])

    # As torch called them before 2.15.
    _allgather_base = all_gather_single
    _reduce_scatter_base = reduce_scatter_single

    def barrier(self, options):
        return Done([])

    def _see(self, kind, op, tensor, count):
        RECORDER.see(self.name_given, kind, op, tensor, count)


def create_group(options, _):
    return RecordingGroup(options)


def start_job(ranks):
    if dist.is_initialized():
        dist.destroy_process_group()
    dist.init_process_group("recording", store=FakeStore(), rank=0, world_size=ranks)


dist.Backend.register_backend("recording", create_group, extended_api=True, devices=["cpu"])
