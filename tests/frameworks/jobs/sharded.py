"""Parameters, gradients or optimizer state spread over the ranks by PyTorch itself."""
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp import MixedPrecisionPolicy, ShardingStrategy, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel as DDP

from jobs.workloads import Block, Transformer, batches, mlp, text_loss, texts
from marks import mark, next_step
from registry import finished, job

STEPS = 20

NOT_ON_CPU = "FSDP1 is for GPUs alone"

# Each rank's process has one GPU, whatever its rank.
GPU = {"cuda": 0}


def train(model, device, data, loss_of, optimizer=None, steps=STEPS):
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for inputs, wanted in data(steps, device):
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


def fully_sharded(device, depth=4, **options):
    model = Transformer(depth=depth).to(device)
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
    return finished(train(model, device, texts, text_loss, steps=14), model)


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
    return finished(train(model, device, batches, cross_entropy, optimizer, steps=30), model)
