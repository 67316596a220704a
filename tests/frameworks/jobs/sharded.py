"""Parameters, gradients, optimizer state or the optimizer's work spread over the ranks."""
from functools import partial

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp import MixedPrecisionPolicy, ShardingStrategy, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel as DDP

from jobs.ddp import broadcast_parameters
from jobs.workloads import N_CLASSES, N_FEATURES, Block, Transformer, batches, mlp, steps, text_loss, texts
from marks import mark, next_step
from registry import finished, job

STEPS = steps(20)

NOT_ON_CPU = "FSDP1 is for GPUs alone"

# Each rank's process has one GPU, whatever its rank.
GPU = {"cuda": 0}


def train(model, device, data, loss_of, optimizer=None, n_steps=STEPS):
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for inputs, wanted in data(n_steps, device):
        with mark("weights"):
            loss = loss_of(model(inputs), wanted)
        with mark("gradients"):
            loss.backward()
        with mark("weights"):
            optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
        next_step()
    return losses


@job(replicated=False, back_ends_differ=True, not_on_gloo=NOT_ON_CPU)
def fsdp1_one_unit(device):
    model = FSDP(mlp().to(device), device_id=GPU.get(device))
    return finished(train(model, device, batches, cross_entropy), model)


def wrapped_by_block(device, **options):
    return FSDP(Transformer(depth=4).to(device), device_id=GPU.get(device),
                auto_wrap_policy=ModuleWrapPolicy({Block}), **options)


@job(replicated=False, back_ends_differ=True, not_on_gloo=NOT_ON_CPU)
def fsdp1_units(device):
    model = wrapped_by_block(device)
    return finished(train(model, device, texts, text_loss), model)


@job(replicated=False, not_on_gloo=NOT_ON_CPU)
def fsdp1_gradients_and_state(device):
    """Parameters stay whole between forward and backward (SHARD_GRAD_OP)."""
    model = wrapped_by_block(device, sharding_strategy=ShardingStrategy.SHARD_GRAD_OP)
    return finished(train(model, device, texts, text_loss), model)


def fully_sharded(device, depth=4, width=128, **options):
    model = Transformer(width, depth).to(device)
    for block in model.blocks:
        fully_shard(block, **options)
    return fully_shard(model, **options)


@job(replicated=False, back_ends_differ=True)
def fsdp2_units(device):
    model = fully_sharded(device)
    return finished(train(model, device, texts, text_loss), model)


@job(replicated=False)
def fsdp2_two_blocks(device):
    """Two ReduceScatter of one size and one of another in each step."""
    model = fully_sharded(device, depth=2)
    return finished(train(model, device, texts, text_loss), model)


@job(replicated=False)
def fsdp2_bf16(device):
    """Products of bf16 matrices are slow on a CPU: fewer steps."""
    model = fully_sharded(device, depth=3, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16))
    return finished(train(model, device, texts, text_loss, n_steps=steps(14)), model)


@job(ranks=4, replicated=False, not_on_gloo=NOT_ON_CPU)
def fsdp1_hybrid(device):
    """HSDP: shards in pairs of ranks, the pairs' gradients averaged."""
    mesh = init_device_mesh(device, (2, 2), mesh_dim_names=("replicate", "shard"))
    model = FSDP(mlp().to(device), device_mesh=mesh, device_id=GPU.get(device),
                 sharding_strategy=ShardingStrategy.HYBRID_SHARD)
    return finished(train(model, device, batches, cross_entropy), model)


@job(ranks=4, replicated=False, not_on_gloo="gloo sums up four ranks in another order")
def fsdp2_hybrid(device):
    mesh = init_device_mesh(device, (2, 2), mesh_dim_names=("replicate", "shard"))
    model = fully_sharded(device, depth=3, mesh=mesh)
    return finished(train(model, device, texts, text_loss), model)


@job()
def zero_redundancy_optimizer(device):
    """DDP, with the optimizer's state spread over the ranks, which broadcast what they have updated."""
    model = DDP(mlp().to(device))
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=1e-3)
    return finished(train(model, device, batches, cross_entropy, optimizer, n_steps=steps(30)), model)


def orthogonal(matrix):
    """The nearest matrix with orthogonal rows or columns, by Newton and Schulz."""
    x = matrix / matrix.norm()
    for _ in range(5):
        x = 1.5 * x - 0.5 * x @ x.T @ x
    return x


class Muon(torch.optim.Optimizer):
    """Each rank computes the updates of its own matrices. It sends zeros for all others, so that the sum over the
    ranks holds all updates: a gather."""

    def __init__(self, parameters, lr=0.02, dtype=torch.float32):
        super().__init__(parameters, {"lr": lr})
        self.dtype = dtype

    @torch.no_grad()
    def step(self):
        parameters = [parameter for group in self.param_groups for parameter in group["params"]]
        sizes = [parameter.numel() for parameter in parameters]
        updates = torch.zeros(sum(sizes), dtype=self.dtype, device=parameters[0].device)
        for i, (parameter, update) in enumerate(zip(parameters, updates.split(sizes))):
            momentum = self.state[parameter].setdefault("momentum", torch.zeros_like(parameter))
            momentum.lerp_(parameter.grad, 0.1)
            if i % dist.get_world_size() == dist.get_rank():
                update.copy_(orthogonal(momentum).flatten())
        dist.all_reduce(updates)
        for parameter, update in zip(parameters, updates.split(sizes)):
            parameter.sub_(update.view_as(parameter), alpha=self.param_groups[0]["lr"])


def matrices(width=192):
    return nn.Sequential(nn.Linear(N_FEATURES, width, bias=False), nn.ReLU(), nn.Linear(width, width, bias=False),
                         nn.ReLU(), nn.Linear(width, N_CLASSES, bias=False))


@job(compressible=False)
def muon_of_equal_gradients(device):
    """All ranks have the same data, and share the optimizer's work alone."""
    model = matrices().to(device)
    broadcast_parameters(model)
    return finished(train(model, device, partial(batches, same=True), cross_entropy, Muon(model.parameters()),
                          n_steps=steps(30)), model)


@job()
def ddp_muon(device):
    """As in modded-nanogpt: DDP averages the gradients, and the updates travel as bf16."""
    model = DDP(matrices().to(device))
    optimizer = Muon(model.parameters(), dtype=torch.bfloat16)
    return finished(train(model, device, batches, cross_entropy, optimizer, n_steps=steps(30)), model)
