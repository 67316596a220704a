#!/usr/bin/env python3
"""Records the traces of torch's data parallelism on a CPU, and the messages in which it describes
its buckets.

    record_torch.py [name...]

needs the packages torch, torchvision and transformers; one process is enough (recording_group.py).
"""

import json
import math
import pathlib
import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (FullyShardedDataParallel, MixedPrecision, MixedPrecisionPolicy,
                                    fully_shard)

from recording_group import RECORDER, start_job
from torch_allocator import use_caching_allocator
from torch_layouts import DdpLayout, watch_fsdp
from torch_models import MODELS, Discriminator, Generator, loss_of
from trace_format import Trace

FOLDER = pathlib.Path(__file__).parent
RANKS = 8
STEPS = 40


def build(model):
    make, batch = MODELS[model]
    torch.manual_seed(1)
    return make(), batch


def elements(module):
    return sum(parameter.numel() for parameter in module.parameters())


class DdpJob:
    """A model under DistributedDataParallel, trained without an optimizer."""

    def __init__(self, module, batch=None, **options):
        self.module, self.batch = module, batch
        self.layout = DdpLayout()
        self.ddp = self.layout.wrap(module, **options)
        RECORDER.trace.header.setdefault("parameters", 0)
        if len(RECORDER.trace.steps) == 1:
            RECORDER.trace.header["parameters"] += elements(module)

    def backward(self, loss):
        with RECORDER.gradients_of(self.layout):
            loss.backward()

    def forward(self, *inputs):
        RECORDER.listener = self.layout.listen
        output = self.ddp(*inputs)
        RECORDER.listener = None
        return output

    def micro_batch(self):
        self.backward(loss_of(self.forward(*self.batch())))

    def step(self, micro_batches=1):
        with self.ddp.no_sync():
            for _ in range(micro_batches - 1):
                self.micro_batch()
        self.micro_batch()
        self.module.zero_grad()


def reduce_metric(*shape, dtype=torch.float32):
    with RECORDER.metrics():
        dist.all_reduce(torch.zeros(shape, dtype=dtype))


def gather_metric(*shape, dtype=torch.float32):
    with RECORDER.metrics():
        dist.all_gather_into_tensor(torch.empty(RANKS * shape[0], *shape[1:], dtype=dtype),
                                    torch.zeros(shape, dtype=dtype))


def record_ddp(trace, model="gpt2", micro_batches=1, with_loss=False, **options):
    job = DdpJob(*build(model), **options)
    for _ in trace.train(STEPS):
        job.step(micro_batches)
        if with_loss:
            reduce_metric(1)


def evaluate(job):
    """Predictions of every batch are gathered, then figures are summed."""
    job.ddp.eval()
    with torch.no_grad():
        for _ in range(3):
            job.forward(*job.batch())
            gather_metric(128, 1000)
            gather_metric(128, dtype=torch.int64)
    job.ddp.train()
    reduce_metric(3, dtype=torch.float64)
    reduce_metric(1000, 1000)


def record_ddp_eval10(trace):
    job = DdpJob(*build("resnet50"))
    for step in trace.train(60):
        job.step()
        if step % 10 == 9:
            evaluate(job)


def record_ddp_freeze(trace):
    module, batch = build("gpt2")
    job = DdpJob(module, batch)
    for step in trace.train(50):
        if step == 25:
            module.transformer.h[:6].requires_grad_(False)
            job = None  # its buckets are freed before the new ones are made
            job = DdpJob(module, batch)
        job.step()


def record_gan(trace):
    generator = DdpJob(Generator())
    discriminator = DdpJob(Discriminator())
    for step in trace.train(60):
        with torch.no_grad():
            fakes = generator.forward(torch.randn(2, 100, 1, 1))
        discriminator.backward(loss_of(discriminator.forward(fakes)))
        if step % 2 == 1:
            fakes = generator.forward(torch.randn(2, 100, 1, 1))
            generator.backward(loss_of(discriminator.module(fakes)))


def sharded2(mesh=None):
    """GPT-2 in 12 groups of one block and one of the rest: weights bf16, gradients fp32."""
    module, batch = build("gpt2")
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in module.transformer.h:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    return fully_shard(module, mesh=mesh, mp_policy=policy), batch


def train_sharded(module, batch, micro_batches=1, clip=torch.nn.utils.clip_grad_norm_):
    for _ in range(micro_batches):
        loss_of(module(*batch())).backward()
    with RECORDER.metrics():
        norm = clip(module.parameters(), 1.0)
        getattr(norm, "full_tensor", norm.item)()
    module.zero_grad()


def record_fsdp2(trace, micro_batches=1):
    module, batch = sharded2(init_device_mesh("cpu", (RANKS,)))
    for _ in trace.train(STEPS):
        train_sharded(module, batch, micro_batches)


def record_fsdp2_hsdp(trace):
    mesh = init_device_mesh("cpu", (2, RANKS), mesh_dim_names=("replicate", "shard"))
    module, batch = sharded2(mesh)
    for _ in trace.train(STEPS):
        train_sharded(module, batch)


def record_fsdp2_eval10(trace):
    module, batch = sharded2(init_device_mesh("cpu", (RANKS,)))
    for step in trace.train(STEPS):
        train_sharded(module, batch)
        if step % 10 == 9:
            with torch.no_grad():
                for _ in range(3):
                    module(*batch())


def record_fsdp1(trace):
    module, batch = build("gpt2")
    options = dict(device_id=torch.device("cpu"),
                   mixed_precision=MixedPrecision(param_dtype=torch.bfloat16,
                                                  reduce_dtype=torch.float32))
    for number, block in enumerate(module.transformer.h):
        module.transformer.h[number] = FullyShardedDataParallel(block, **options)
    module = FullyShardedDataParallel(module, **options)
    for _ in trace.train(STEPS):
        train_sharded(module, batch, clip=lambda _, norm: module.clip_grad_norm_(norm))


# Name: ranks of each communicator, what records it, what it is.
RECORDED = {
    "ddp": ((RANKS,), record_ddp, "GPT-2 124M"),
    "ddp_resnet50": ((RANKS,), lambda trace: record_ddp(trace, "resnet50"),
                     "ResNet-50: statistics of normalisation are broadcast in every step"),
    "ddp_unused": ((RANKS,), lambda trace: record_ddp(trace, find_unused_parameters=True),
                   "GPT-2 124M, find_unused_parameters"),
    "ddp_accumulation": ((RANKS,),
                         lambda trace: record_ddp(trace, micro_batches=4, with_loss=True),
                         "GPT-2 124M, 3 of 4 micro-batches under no_sync, the loss summed"),
    "ddp_eval10": ((RANKS,), record_ddp_eval10, "ResNet-50, an evaluation every 10 steps"),
    "ddp_freeze": ((RANKS,), record_ddp_freeze,
                   "GPT-2 124M, from step 25 with half of its blocks frozen, wrapped again"),
    "gan": ((RANKS,), record_gan, "two models, the generator trained in every other step"),
    "fsdp1": ((RANKS,), record_fsdp1, "GPT-2 124M, FullyShardedDataParallel"),
    "fsdp2": ((RANKS,), record_fsdp2, "GPT-2 124M, fully_shard, norm clipped"),
    "fsdp2_accumulation": ((RANKS,), lambda trace: record_fsdp2(trace, 4),
                           "GPT-2 124M, fully_shard, every one of 4 micro-batches reduced"),
    "fsdp2_hsdp": ((RANKS, 2), record_fsdp2_hsdp,
                   "GPT-2 124M, fully_shard, sharded over 8 ranks and replicated twice"),
    "fsdp2_eval10": ((RANKS,), record_fsdp2_eval10,
                     "GPT-2 124M, fully_shard, an evaluation every 10 steps"),
}


def record(name):
    ranks, make, model = RECORDED[name]
    start_job(math.prod(ranks))
    trace = Trace(name, framework=f"PyTorch, {model}",
                  origin=f"recorded, torch {torch.__version__}", ranks=ranks)
    RECORDER.start(trace)
    make(trace)
    RECORDER.stop()
    trace.write(FOLDER)


def record_messages(model):
    """What DDP says about its buckets in the first two steps."""
    start_job(RANKS)
    RECORDER.start(Trace(model, model, "recorded", (RANKS,)))
    job = DdpJob(*build(model))
    for _ in RECORDER.trace.train(3):
        job.step()
    RECORDER.stop()
    order, sizes = job.layout.order
    shapes = [list(parameter.shape) for parameter in job.layout.parameters]
    facts = {"origin": f"recorded, torch {torch.__version__}",
             "nParameters": len(shapes), "sizesAndStrides": job.layout.metadata,
             "bucketOrder": order, "bucketSizes": sizes, "allReduceCounts": job.layout.counts(),
             "shapes": shapes}
    path = FOLDER / "ddp_messages" / f"recorded_{model}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(facts, separators=(",", ":")) + "\n")


def main(names):
    torch.set_num_threads(1)
    watch_fsdp()
    use_caching_allocator()
    for name in names or [*RECORDED, *MODELS]:
        if name in RECORDED:
            record(name)
        else:
            record_messages(name)


if __name__ == "__main__":
    main(sys.argv[1:])
