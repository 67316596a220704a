"""Jobs that average weights: none of these averages may be compressed."""
import copy
from collections import OrderedDict

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import PostLocalSGDState, post_localSGD_hook
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.algorithms.model_averaging.hierarchical_model_averager import HierarchicalModelAverager
from torch.distributed.optim import PostLocalSGDOptimizer
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel as DDP

from jobs.ddp import broadcast_parameters
from jobs.trainers import accelerator_on, examples
from jobs.workloads import batches, mlp
from marks import mark, next_step
from registry import finished, job

# PyTorch's averagers count from 0: after 61 steps the last one has just averaged.
STEPS = 61


def train(model, device, optimizer, average=lambda: None):
    losses = []
    for inputs, wanted in batches(STEPS, device):
        loss = cross_entropy(model(inputs), wanted)
        with mark("gradients"):
            loss.backward()
        with mark("weights"):
            optimizer.step()
            average()
        optimizer.zero_grad()
        losses.append(loss.detach())
        next_step()
    return losses


def train_averaged(device, averager_of):
    """Each rank trains a model of its own, and the models are averaged."""
    model = mlp().to(device)
    broadcast_parameters(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    averager = averager_of()
    losses = train(model, device, optimizer, lambda: averager.average_parameters(model.parameters()))
    return finished(losses, model)


@job(compressible=False)
def periodic_averager_every_step(device):
    return train_averaged(device, lambda: PeriodicModelAverager(period=1))


@job(compressible=False)
def periodic_averager_every_4_steps(device):
    return train_averaged(device, lambda: PeriodicModelAverager(period=4))


@job(ranks=4, compressible=False, not_on_gloo="gloo sums up four ranks in another order")
def hierarchical_averager(device):
    """Pairs of ranks average every two steps, all of them every four."""
    return train_averaged(device, lambda: HierarchicalModelAverager(
        period_group_size_dict=OrderedDict([(2, 2), (4, 4)])))


@job()
def post_local_sgd(device):
    """20 steps of DDP, then each rank by itself, and an average every four steps."""
    model = DDP(mlp().to(device))
    own, _ = dist.new_subgroups(group_size=1)
    state = PostLocalSGDState(None, own, start_localSGD_iter=20, post_local_gradient_allreduce=False)
    model.register_comm_hook(state, post_localSGD_hook)
    optimizer = PostLocalSGDOptimizer(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
                                      PeriodicModelAverager(period=4, warmup_steps=20))
    return finished(train(model, device, optimizer), model)


@job(compressible=False, imports=("accelerate",), makes_group=True)
def accelerate_local_sgd(device):
    from accelerate.local_sgd import LocalSGD

    accelerator = accelerator_on(device)
    model = mlp(depth=2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    loader = torch.utils.data.DataLoader(examples(2 * 32 * 80), batch_size=32)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    losses = []
    with mark("weights"), LocalSGD(accelerator=accelerator, model=model, local_sgd_steps=4) as local_sgd:
        for inputs, wanted in loader:
            loss = cross_entropy(model(inputs), wanted)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            local_sgd.step()
            losses.append(loss.detach())
            next_step()
    return finished(losses, model)


@job()
def ema_of_weights(device):
    """DDP, and beside it a moving average of the weights that the ranks average every five steps."""
    model = DDP(mlp().to(device))
    ema = copy.deepcopy(model.module)
    n_steps = 0

    @torch.no_grad()
    def average():
        nonlocal n_steps
        n_steps += 1
        for slow, weight in zip(ema.parameters(), model.parameters()):
            slow.lerp_(weight, 0.1)
            if n_steps % 5 == 0:
                dist.all_reduce(slow)
                slow /= dist.get_world_size()

    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = train(model, device, optimizer, average)
    return finished(losses, [*model.parameters(), *ema.parameters()])


@job()
def weights_averaged_at_each_stage(device):
    """DDP; every tenth step the weights, which are equal, are averaged in one flat buffer to be sure."""
    model = DDP(mlp().to(device))
    n_steps = 0

    @torch.no_grad()
    def average():
        nonlocal n_steps
        n_steps += 1
        if n_steps % 10 == 0:
            flat = torch.nn.utils.parameters_to_vector(model.parameters())
            dist.all_reduce(flat)
            torch.nn.utils.vector_to_parameters(flat / dist.get_world_size(), model.parameters())

    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    return finished(train(model, device, optimizer, average), model)
