"""A language model of 3 million parameters on real text, for comparing what its gradients may be sent with (race.py)."""
import glob
import itertools
import os
import time
from statistics import median

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel as DDP

from jobs.sharded import fully_sharded
from jobs.workloads import N_TOKENS, Transformer, generator_of, rank, steps, text_loss
from marks import mark, next_step
from registry import finished, job

STEPS = steps(120)
SIZE, LENGTH = 8, 64  # of a batch
LEARNING_RATE = 1e-3
SHAPE = {"width": 256, "depth": 4}

# By then Cinch, and PowerSGD's warm start, do what they do from there on.
WARM_UP = 60

FACTS = dict(replicated=False, only_by_name=True, not_on_gloo="it is measured on the emulator", timeout=900)

HELD_OUT = 1 << 16  # characters, at the end
TEXT = "/usr/share/cmake*/Help/**/*.rst"  # as quickstart has


def characters():
    """(what is learned from, what is held out), as numbers below N_TOKENS."""
    paths = sorted(glob.glob(os.environ.get("JOB_TEXT", TEXT), recursive=True))
    read = b"".join(open(path, "rb").read() for path in paths)
    assert len(read) > 4 * HELD_OUT, "no text to learn from: install cmake-data, or name files with JOB_TEXT"
    whole = torch.frombuffer(bytearray(read), dtype=torch.uint8).long().clamp(max=N_TOKENS - 1)
    return whole[:-HELD_OUT], whole[-HELD_OUT:]


def windows(text, first):
    """(characters, the next ones) from each of these places on."""
    rows = torch.stack([text[place:place + LENGTH + 1] for place in first.tolist()])
    return rows[:, :-1], rows[:, 1:]


@torch.no_grad()
def held_out_loss(model, text, device):
    places = torch.arange(0, len(text) - LENGTH, len(text) // 256)
    losses = []
    for part in places.split(64):
        inputs, wanted = windows(text, part)
        losses.append(text_loss(model(inputs.to(device)), wanted.to(device)))
    return float(torch.stack(losses).mean())


def race(device, model, backward=None, step=None):
    """A framework that has its own ways to go back, from a loss, and to make a step gives them."""
    text, held_out = characters()
    generator = generator_of(400 + rank())
    if step is None:
        optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
        backward, step = torch.Tensor.backward, optimizer.step
    losses, times = [], []
    for _ in range(STEPS):
        inputs, wanted = windows(text, torch.randint(len(text) - LENGTH - 1, (SIZE,), generator=generator))
        torch.cuda.synchronize()
        begun = time.monotonic()
        with mark("weights"):
            loss = text_loss(model(inputs.to(device)), wanted.to(device))
        with mark("gradients"):
            backward(loss)
        with mark("weights"):
            step()
        model.zero_grad()
        losses.append(loss.detach())
        torch.cuda.synchronize()
        times.append(time.monotonic() - begun)
        next_step()
    result = finished(losses, model)
    result.figures.update(step_ms=1e3 * median(itertools.islice(times, WARM_UP, None)),
                          held_out=held_out_loss(model, held_out, device),
                          parameters=sum(parameter.numel() for parameter in model.parameters()))
    return result


def replicated(device, register=lambda model: None):
    model = DDP(Transformer(**SHAPE).to(device))
    register(model)
    return race(device, model)


@job(**FACTS)
def race_ddp(device):
    return replicated(device)


@job(**FACTS)
def race_ddp_bf16_hook(device):
    return replicated(device, lambda model: model.register_comm_hook(None, default_hooks.bf16_compress_hook))


def power_sgd(device, n):
    """Of that rank, as its page recommends; the first ten steps are exact."""
    def register(model):
        state = powerSGD_hook.PowerSGDState(dist.group.WORLD, matrix_approximation_rank=n, start_powerSGD_iter=10)
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)

    return replicated(device, register)


@job(**FACTS)
def race_ddp_powersgd1(device):
    return power_sgd(device, 1)


@job(**FACTS)
def race_ddp_powersgd4(device):
    return power_sgd(device, 4)


@job(**FACTS)
def race_fsdp2(device):
    return race(device, fully_sharded(device, **SHAPE))


@job(**FACTS, imports=("deepspeed",), makes_group=True)
def race_zero2(device):
    import deepspeed

    deepspeed.init_distributed(dist_backend="nccl")
    engine, *_ = deepspeed.initialize(model=Transformer(**SHAPE), config={
        "train_micro_batch_size_per_gpu": SIZE,
        "optimizer": {"type": "AdamW", "params": {"lr": LEARNING_RATE, "torch_adam": True}},
        "zero_optimization": {"stage": 2, "reduce_bucket_size": 1_000_000}})
    return race(device, engine, engine.backward, engine.step)
