"""DeepSpeed's engine at stages 1, 2 and 3, in fp32 and bf16."""
import sys

import torch

from jobs.workloads import batches, mlp, steps
from marks import mark, next_step
from registry import finished, job

STEPS = steps(20)
FACTS = dict(imports=("deepspeed",), makes_group=True)


def train(device, stage, bf16=False):
    import deepspeed

    if device == "cpu":
        # It would compile a shared-memory library of its own, for a minute, and not use gloo. The attribute
        # deepspeed.comm.torch is PyTorch.
        sys.modules["deepspeed.comm.torch"].build_shm_op = lambda: None

    config = {
        "train_micro_batch_size_per_gpu": 8,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}},
        "bf16": {"enabled": bf16},
        "zero_optimization": {"stage": stage, "reduce_bucket_size": 200_000,
                              "stage3_param_persistence_threshold": 1000},
    }
    deepspeed.init_distributed(dist_backend="nccl" if device == "cuda" else "gloo")
    engine, *_ = deepspeed.initialize(model=mlp(), config=config)
    losses = []
    for inputs, wanted in batches(STEPS, device, size=8):
        with mark("weights"):
            logits = engine(inputs.bfloat16() if bf16 else inputs)
        loss = torch.nn.functional.cross_entropy(logits.float(), wanted)
        with mark("gradients"):
            engine.backward(loss)
        with mark("weights"):
            engine.step()
        losses.append(loss.detach())
        next_step()
    parameters = list(engine.module.parameters())
    if stage == 3:
        parameters = [parameter.ds_tensor for parameter in parameters]
    return finished(losses, parameters)


@job(**FACTS)
def deepspeed_zero1(device):
    return train(device, 1)


@job(**FACTS)
def deepspeed_zero1_bf16(device):
    return train(device, 1, bf16=True)


@job(**FACTS)
def deepspeed_zero2(device):
    return train(device, 2)


@job(**FACTS)
def deepspeed_zero2_bf16(device):
    return train(device, 2, bf16=True)


@job(replicated=False, **FACTS)
def deepspeed_zero3(device):
    return train(device, 3)


@job(replicated=False, **FACTS)
def deepspeed_zero3_bf16(device):
    return train(device, 3, bf16=True)
