"""DistributedDataParallel as it is used most."""
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.checkpoint import checkpoint

from jobs.workloads import Transformer, batches, mlp, steps, text_loss, texts
from marks import mark, next_step
from registry import finished, job

STEPS = steps(30)
KNOWN_FROM = 12  # the step from which gradients are known by their place


def train(model, device, n_steps=STEPS, after_step=lambda: None):
    """The loop of most scripts; returns the losses."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for inputs, wanted in batches(n_steps, device):
        loss = cross_entropy(model(inputs), wanted)
        with mark("gradients"):
            loss.backward()
        optimizer.step()
        after_step()
        optimizer.zero_grad()
        losses.append(loss.detach())
        next_step()
    return losses


@job(back_ends_differ=True)
def ddp_plain(device):
    model = DDP(mlp().to(device))
    return finished(train(model, device), model)


@job()
def ddp_biases_arrive_exactly(device):
    """Each step sums up the biases' gradients a second time, in a way that nothing takes for gradients."""
    model = DDP(mlp().to(device))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses, intact = [], True
    for step, (inputs, wanted) in enumerate(batches(STEPS, device)):
        biases = [parameter for parameter in model.parameters() if parameter.dim() == 1]
        alone = torch.autograd.grad(cross_entropy(model.module(inputs), wanted), biases)
        exact = torch.cat(alone).double()
        dist.all_reduce(exact)
        loss = cross_entropy(model(inputs), wanted)
        with mark("gradients"):
            loss.backward()
        arrived = torch.cat([bias.grad for bias in biases])
        if step >= KNOWN_FROM:
            intact = intact and torch.allclose(arrived.double(), exact / dist.get_world_size(), rtol=1e-6, atol=1e-9)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
        next_step()
    return finished(losses, model, intact)


@job(back_ends_differ=True)
def ddp_static_graph(device):
    model = DDP(mlp().to(device), static_graph=True)
    return finished(train(model, device), model)


class TwoHeads(nn.Module):
    """Each call uses one of the heads, in turn."""

    def __init__(self):
        super().__init__()
        self.body = mlp(last=128)
        self.heads = nn.ModuleList([nn.Linear(128, 10), nn.Linear(128, 10)])
        self.n_calls = 0

    def forward(self, inputs):
        self.n_calls += 1
        return self.heads[self.n_calls % 2](self.body(inputs))


@job(back_ends_differ=True)
def ddp_find_unused_parameters(device):
    model = DDP(TwoHeads().to(device), find_unused_parameters=True)
    return finished(train(model, device), model)


@job()
def ddp_bucket_views(device):
    model = DDP(mlp().to(device), gradient_as_bucket_view=True)
    return finished(train(model, device), model)


@job(back_ends_differ=True)
def ddp_accumulation(device):
    model = DDP(mlp().to(device))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    data = batches(4 * STEPS, device, size=8)
    for _ in range(STEPS):
        with model.no_sync():
            for _ in range(3):
                inputs, wanted = next(data)
                (cross_entropy(model(inputs), wanted) / 4).backward()
        inputs, wanted = next(data)
        loss = cross_entropy(model(inputs), wanted)
        with mark("gradients"):
            (loss / 4).backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
        next_step()
    return finished(losses, model)


@job(back_ends_differ=True)
def ddp_bf16_hook(device):
    model = DDP(mlp().to(device))
    model.register_comm_hook(None, default_hooks.bf16_compress_hook)
    return finished(train(model, device), model)


@job(compressible=False,
     not_on_gloo="PowerSGD's hook waits in one call's callback for another: it does not end over gloo")
def ddp_powersgd_hook(device):
    """Its calls carry factors of low rank, and what is too small for them."""
    model = DDP(mlp().to(device))
    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=5)
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    return finished(train(model, device), model)


class Checkpointed(Transformer):
    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.head(x)


@job()
def ddp_checkpointing(device):
    model = DDP(Checkpointed().to(device))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for tokens, wanted in texts(STEPS, device):
        loss = text_loss(model(tokens), wanted)
        with mark("gradients"):
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
        next_step()
    return finished(losses, model)


@job()
def ddp_backward_on_main_thread(device):
    model = DDP(mlp().to(device))
    with torch.autograd.set_multithreading_enabled(False):
        return finished(train(model, device), model)


def broadcast_parameters(model):
    for parameter in model.parameters():
        dist.broadcast(parameter.detach(), 0)


# Averages of weights and statistics come from there, too, by the same calls.
OUTSIDE_BACKWARD = "its gradients are reduced outside of the backward pass"


@job(indistinct=OUTSIDE_BACKWARD)
def loop_over_gradients(device):
    """No wrapper: each gradient is averaged after backward."""
    return train_by_loop(device)


@job(environment={"CINCH_RULES": "gradient min_bytes=64K"})
def loop_over_gradients_named_by_a_rule(device):
    return train_by_loop(device)


def train_by_loop(device):
    model = mlp().to(device)
    broadcast_parameters(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for inputs, wanted in batches(STEPS, device):
        loss = cross_entropy(model(inputs), wanted)
        loss.backward()
        with mark("gradients"):
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad)
                parameter.grad /= dist.get_world_size()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
        next_step()
    return finished(losses, model)


@job()
def hooks_on_gradients(device):
    """No wrapper: each gradient is averaged as soon as it is there."""
    model = mlp().to(device)
    broadcast_parameters(model)

    def average(parameter):
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(average)
    return finished(train(model, device), model)
