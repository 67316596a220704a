"""Models that are spread over the ranks: what these exchange within a step are activations."""
from dataclasses import replace

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (ColwiseParallel, RowwiseParallel, SequenceParallel,
                                               parallelize_module)
from torch.nn.functional import cross_entropy

from jobs.workloads import N_CLASSES, N_FEATURES, N_TOKENS, Block, batches, steps, text_loss, texts
from marks import mark, next_step
from registry import finished, job

STEPS = steps(15)


class FeedForward(nn.Module):
    def __init__(self, width=128):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return self.down(nn.functional.gelu(self.up(self.norm(x))))


class Residual(nn.Module):
    """Layers whose sum over the ranks has the size of the hidden states. `places`: added to these, of their size."""

    def __init__(self, width=128, depth=3, places=None):
        super().__init__()
        self.places = places
        self.embedding = nn.Embedding(N_TOKENS, width)
        self.layers = nn.ModuleList(FeedForward(width) for _ in range(depth))
        self.head = nn.Linear(width, N_TOKENS)

    def forward(self, tokens):
        x = self.embedding(tokens)
        if self.places is not None:
            x = x + self.places
        for layer in self.layers:
            x = x + layer(x)
        return self.head(x)


BY_COLUMNS_AND_ROWS = {"up": ColwiseParallel(), "down": RowwiseParallel()}

# As in PyTorch's tutorial: between the layers each rank has its part of every sequence.
BY_SEQUENCE = {
    "embedding": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
    "layers.*.norm": SequenceParallel(),
    "layers.*.up": ColwiseParallel(input_layouts=Shard(1)),
    "layers.*.down": RowwiseParallel(output_layouts=Shard(1)),
    "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
}


def train(model, data, backward="activations"):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
    losses = []
    for tokens, wanted in data:
        with mark("activations"):
            loss = text_loss(model(tokens), wanted)
        with mark(backward):
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
        next_step()
    return losses


def train_tensor_parallel(device, plan, places=None, **options):
    """DTensor; both ranks have the same texts, and exchange activations and their gradients."""
    mesh = init_device_mesh(device, (2,))
    model = Residual(places=places).to(device)
    for layer in model.layers:
        parallelize_module(layer, mesh, plan, **options)
    return finished(train(model, texts(STEPS, device, size=8, same=True)), model)


@job(compressible=False, replicated=False)
def tensor_parallel(device):
    """DTensor sends the parameters' parts from the first rank."""
    return train_tensor_parallel(device, BY_COLUMNS_AND_ROWS)


@job(compressible=False, replicated=False)
def tensor_parallel_without_broadcast(device):
    """Each rank takes its parts of the parameters, which all ranks have drawn alike."""
    return train_tensor_parallel(device, BY_COLUMNS_AND_ROWS, src_data_rank=None)


@job(compressible=False, replicated=False)
def tensor_parallel_after_broadcast(device):
    """Before all else, floats are broadcast that are as many as each layer sums up."""
    places = torch.randn(8, 32, 128, generator=torch.Generator().manual_seed(3)).to(device)
    dist.broadcast(places, 0)
    return train_tensor_parallel(device, BY_COLUMNS_AND_ROWS, places, src_data_rank=None)


@job(compressible=False, replicated=False)
def tensor_parallel_columns(device):
    """Forward gathers the columns, and only backward sums up: as FSDP with gradients and weights."""
    return train_tensor_parallel(device, {"up": ColwiseParallel(output_layouts=Replicate()),
                                          "down": ColwiseParallel(output_layouts=Replicate())})


@job(compressible=False, replicated=False)
def tensor_parallel_head(device):
    """A trunk on all ranks, whose features DTensor makes equal by a broadcast, and a head that is split by columns:
    backward sums up the features' gradients."""
    mesh = init_device_mesh(device, (2,))
    trunk = nn.Sequential(nn.Linear(N_FEATURES, 256), nn.ReLU()).to(device)
    head = parallelize_module(nn.Linear(256, N_CLASSES, bias=False).to(device), mesh,
                              ColwiseParallel(output_layouts=Replicate()))
    optimizer = torch.optim.SGD([*trunk.parameters(), *head.parameters()], lr=0.1, foreach=False)
    losses = []
    for inputs, wanted in batches(STEPS, device, size=128, same=True):
        features = DTensor.from_local(trunk(inputs), mesh, [Replicate()], run_check=True)
        loss = cross_entropy(head(features), wanted)
        with mark("activations"):
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
        next_step()
    return finished(losses, trunk)


@job(compressible=False, replicated=False)
def tensor_parallel_by_sequence(device):
    """Activations are reduced and scattered, and gathered, as FSDP does with gradients and weights."""
    mesh = init_device_mesh(device, (2,))
    model = parallelize_module(Residual().to(device), mesh, BY_SEQUENCE)
    return finished(train(model, texts(STEPS, device, size=8, same=True)), model)


def sums_are_activations(call, phase):
    """Backward makes both kinds of calls: FSDP2 scatters gradients, DTensor sums up activations."""
    return "activations" if phase == "gradients" and call["kind"] == "AllReduce" else None


@job(ranks=4, replicated=False, truth=sums_are_activations,
     not_on_gloo="gloo sums up four ranks in another order")
def tensor_parallel_with_fsdp2(device):
    mesh = init_device_mesh(device, (2, 2), mesh_dim_names=("data", "tensor"))
    model = Residual().to(device)
    for layer in model.layers:
        parallelize_module(layer, mesh["tensor"], BY_COLUMNS_AND_ROWS)
        fully_shard(layer, mesh=mesh["data"])
    fully_shard(model, mesh=mesh["data"])
    data = texts(STEPS, device, size=8, part=dist.get_rank() // 2, same=True)
    return finished(train(model, data, backward="gradients"), model)


class Stage(nn.Module):
    """The first or the second half of a transformer."""

    def __init__(self, is_first):
        super().__init__()
        self.first = nn.Embedding(N_TOKENS, 128) if is_first else nn.Identity()
        self.blocks = nn.Sequential(Block(), Block())
        self.last = nn.Identity() if is_first else nn.Linear(128, N_TOKENS)

    def forward(self, x):
        return self.last(self.blocks(self.first(x)))


def train_pipeline(device, schedule_of, after_step=lambda: None, hook=None):
    rank = dist.get_rank()
    stage = PipelineStage(Stage(is_first=rank == 0).to(device), rank, 2, torch.device(device))
    if hook:
        stage.submod.blocks.register_forward_hook(hook)
    schedule = schedule_of(stage, 4, loss_fn=text_loss)
    optimizer = torch.optim.AdamW(stage.submod.parameters(), lr=1e-3)
    of_steps = []
    for tokens, wanted in texts(STEPS, device, size=16, same=True):
        losses = []
        with mark("activations"):
            if rank == 0:
                schedule.step(tokens)
            else:
                schedule.step(target=wanted, losses=losses)
            after_step()
        optimizer.step()
        optimizer.zero_grad()
        of_steps.append(torch.stack(losses).mean() if losses else torch.zeros((), device=device))
        next_step()
    last = torch.stack(of_steps).detach()
    dist.broadcast(last, 1)
    return finished(list(last), stage.submod)


@job(compressible=False, replicated=False)
def pipeline_gpipe(device):
    return train_pipeline(device, ScheduleGPipe)


@job(compressible=False, replicated=False)
def pipeline_1f1b(device):
    return train_pipeline(device, Schedule1F1B)


@job(compressible=False, replicated=False)
def pipeline_with_sums(device):
    """The stages add up their hidden states of a step, and follow the mean."""
    hidden, followed = [], torch.zeros(4, 32, 128, device=device)
    dist.broadcast(followed, 0)

    def add_up():
        total = torch.stack(hidden[-4:]).sum(0)  # before the first step a stage runs to learn its shapes
        hidden.clear()
        dist.all_reduce(total)
        followed.lerp_(total / 8, 0.1)

    ended = train_pipeline(device, Schedule1F1B, add_up, lambda _, __, output: hidden.append(output.detach()))
    return replace(ended, tensors=[*ended.tensors, followed])


class GatheredRows(torch.autograd.Function):
    """The input of a layer that is split by columns over all ranks, of which each rank of a row has a part."""

    @staticmethod
    def forward(context, part, row, column):
        context.row, context.column = row, column
        whole = torch.empty(2 * len(part), *part.shape[1:], device=part.device)
        dist.all_gather_into_tensor(whole, part.contiguous(), group=row)
        return whole

    @staticmethod
    def backward(context, gradient):
        part = torch.empty(len(gradient) // 2, *gradient.shape[1:], device=gradient.device)
        dist.reduce_scatter_tensor(part, gradient.contiguous(), group=context.row)
        dist.all_reduce(part, group=context.column)
        return part, None, None


@job(ranks=4, compressible=False, replicated=False, not_on_gloo="gloo sums up four ranks in another order")
def tensor_parallel_in_two_dimensions(device):
    """As hybrid sharding does, it reduces what was scattered; but these are gradients of activations."""
    rank = dist.get_rank()
    rows = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    columns = [dist.new_group([0, 2]), dist.new_group([1, 3])]
    trunk = nn.Sequential(nn.Linear(N_FEATURES, 256), nn.ReLU()).to(device)
    head = nn.Linear(256, N_CLASSES).to(device)
    optimizer = torch.optim.SGD([*trunk.parameters(), *head.parameters()], lr=0.05)
    losses = []
    for inputs, wanted in batches(steps(40), device, size=256, same=True):
        own = inputs[(rank % 2) * 128:][:128]
        with mark("activations"):
            hidden = GatheredRows.apply(trunk(own), rows[rank // 2], columns[rank % 2])
            loss = cross_entropy(head(hidden), wanted)
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
        next_step()
    return finished(losses, trunk)


class SplitInput(torch.autograd.Function):
    """In front of a layer that is split by columns: its gradients are summed up."""

    @staticmethod
    def forward(context, inputs):
        return inputs.view_as(inputs)

    @staticmethod
    def backward(context, gradient):
        gradient = gradient.clone()
        dist.all_reduce(gradient)
        return gradient


@job(compressible=False, replicated=False)
def tensor_parallel_of_images(device):
    """Rank 0 reads images of bytes, and broadcasts them. Hidden values are as many as parameters in so many bytes: 192
    for each 768."""
    patches, head = nn.Linear(768, 192).to(device), nn.Linear(192, 32).to(device)
    optimizer = torch.optim.SGD([*patches.parameters(), *head.parameters()], lr=0.01)
    generator = torch.Generator().manual_seed(5)
    losses = []
    for _ in range(steps(40)):
        images = torch.randint(256, (8, 196, 768), generator=generator, dtype=torch.uint8).to(device)
        wanted = torch.randint(32, (8 * 196,), generator=generator).to(device)
        with mark("activations"):
            dist.broadcast(images, 0)
            hidden = torch.relu(patches(images.float() / 128 - 1))
            loss = cross_entropy(head(SplitInput.apply(hidden)).flatten(0, 1), wanted)
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
        next_step()
    return finished(losses, patches)
