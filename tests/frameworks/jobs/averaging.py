"""Jobs that average weights, or what belongs to them: none of these averages may be compressed."""
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
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from jobs.ddp import OUTSIDE_BACKWARD, broadcast_parameters
from jobs.trainers import accelerator_on, examples
from jobs.workloads import batches, mlp, steps
from marks import mark, next_step
from registry import finished, job

# PyTorch's averagers count from 0: after 61 steps the last one has just averaged.
STEPS = steps(61)
# A call that is made a few times only is never compressed, whatever it carries.
AVERAGES = 12


def steps_for(period):
    return max(STEPS, AVERAGES * period + 1)


def train(model, device, optimizer, average=lambda: None, n_steps=None):
    losses = []
    for inputs, wanted in batches(n_steps or STEPS, device):
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


class Every:
    """Calls the function each so many steps; the first step is number 1."""

    def __init__(self, period, function):
        self.period, self.function, self.n_steps = period, function, 0

    @torch.no_grad()
    def __call__(self):
        self.n_steps += 1
        if self.n_steps % self.period == 0:
            self.function()


def mean(tensor):
    """Over the ranks, in place."""
    dist.all_reduce(tensor)
    return tensor.div_(dist.get_world_size())


def own_model(device, **options):
    """A model that each rank trains by itself, from the same beginning."""
    model = mlp(**options).to(device)
    broadcast_parameters(model)
    return model


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def train_averaged(device, averager_of, period=1):
    """Each rank trains a model of its own, and the models are averaged."""
    model = own_model(device)
    averager = averager_of()
    losses = train(model, device, sgd(model), lambda: averager.average_parameters(model.parameters()),
                   steps_for(period))
    return finished(losses, model)


def train_periodically_averaged(device, period):
    return train_averaged(device, lambda: PeriodicModelAverager(period=period), period)


@job(compressible=False)
def periodic_averager_every_step(device):
    return train_periodically_averaged(device, 1)


@job(compressible=False)
def periodic_averager_every_4_steps(device):
    return train_periodically_averaged(device, 4)


@job(compressible=False)
def periodic_averager_every_10_steps(device):
    return train_periodically_averaged(device, 10)


@job(compressible=False)
def periodic_averager_every_100_steps(device):
    return train_periodically_averaged(device, 100)


@job(ranks=4, compressible=False, not_on_gloo="gloo sums up four ranks in another order")
def hierarchical_averager(device):
    """Pairs of ranks average every two steps, all of them every four."""
    return train_averaged(device, lambda: HierarchicalModelAverager(
        period_group_size_dict=OrderedDict([(2, 2), (4, 4)])))


def train_post_local(device, start, **options):
    """Some steps of DDP, then each rank by itself, and an average every four steps."""
    model = DDP(mlp(**options).to(device))
    own, _ = dist.new_subgroups(group_size=1)
    state = PostLocalSGDState(None, own, start_localSGD_iter=start, post_local_gradient_allreduce=False)
    model.register_comm_hook(state, post_localSGD_hook)
    optimizer = PostLocalSGDOptimizer(sgd(model), PeriodicModelAverager(period=4, warmup_steps=start))
    return finished(train(model, device, optimizer), model)


ONE_BUCKET = {"width": 256}


@job()
def post_local_sgd(device):
    return train_post_local(device, 20)


@job()
def post_local_sgd_one_bucket(device):
    return train_post_local(device, 20, **ONE_BUCKET)


@job(compressible=False)
def post_local_sgd_from_the_start(device):
    return train_post_local(device, 0)


@job(compressible=False)
def post_local_sgd_from_the_start_one_bucket(device):
    return train_post_local(device, 0, **ONE_BUCKET)


def train_with_accelerate(device, n_ddp_steps=0):
    from accelerate.local_sgd import LocalSGD

    accelerator = accelerator_on(device)
    model = mlp(depth=2)
    optimizer = sgd(model)
    loader = torch.utils.data.DataLoader(examples(2 * 32 * steps(80)), batch_size=32)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    losses = []

    def step(inputs, wanted):
        loss = cross_entropy(model(inputs), wanted)
        with mark("gradients"):
            accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
        next_step()

    data = iter(loader)
    for _ in range(n_ddp_steps):
        step(*next(data))
    with mark("weights"), LocalSGD(accelerator=accelerator, model=model, local_sgd_steps=4) as local_sgd:
        for batch in data:
            step(*batch)
            local_sgd.step()
    return finished(losses, model)


@job(compressible=False, imports=("accelerate",), makes_group=True)
def accelerate_local_sgd(device):
    return train_with_accelerate(device)


@job(imports=("accelerate",), makes_group=True)
def accelerate_local_sgd_after_ddp(device):
    return train_with_accelerate(device, n_ddp_steps=20)


@job(compressible=False, replicated=False)
def local_sgd_by_parameter(device):
    """No library: each parameter is averaged by a call of its own."""
    model = own_model(device)
    average = Every(2, lambda: [mean(parameter.data) for parameter in model.parameters()])
    return finished(train(model, device, sgd(model), average), model)


@job(compressible=False, replicated=False)
def local_sgd_in_bf16(device):
    """What the ranks send each other is the weights' bf16 form; each rank moves halfway to the average."""
    model = own_model(device)

    def average():
        flat = parameters_to_vector(model.parameters())
        vector_to_parameters(flat.lerp(mean(flat.bfloat16()).float(), 0.5), model.parameters())

    return finished(train(model, device, sgd(model), Every(1, average)), model)


class OuterOptimizer:
    """DiLoCo (Douillard et al., 2023): the ranks train by themselves, and what they moved by is the gradient of an
    outer optimizer, SGD with Nesterov momentum."""

    def __init__(self, model, is_sharded):
        self.model, self.is_sharded = model, is_sharded
        self.n_values = sum(parameter.numel() for parameter in model.parameters())
        n_padded = -(-self.n_values // dist.get_world_size()) * dist.get_world_size()
        self.weights = torch.zeros(n_padded, device=next(model.parameters()).device)
        self.weights[:self.n_values] = parameters_to_vector(model.parameters()).detach()
        shard = self.weights.chunk(dist.get_world_size())[dist.get_rank()]
        self.own = shard.clone() if is_sharded else self.weights
        self.optimizer = torch.optim.SGD([self.own], lr=0.7, momentum=0.9, nesterov=True)

    def step(self):
        moved = self.weights.clone()
        moved[:self.n_values] -= parameters_to_vector(self.model.parameters())
        moved /= dist.get_world_size()
        self.own.grad = torch.zeros_like(self.own) if self.is_sharded else moved
        if self.is_sharded:
            dist.reduce_scatter_tensor(self.own.grad, moved)
        else:
            dist.all_reduce(moved)
        self.optimizer.step()
        if self.is_sharded:
            dist.all_gather_into_tensor(self.weights, self.own)
        vector_to_parameters(self.weights[:self.n_values].clone(), self.model.parameters())


def diloco(device, period, is_sharded=False):
    model = own_model(device)
    outer = OuterOptimizer(model, is_sharded)
    inner = torch.optim.AdamW(model.parameters(), lr=1e-3)
    return finished(train(model, device, inner, Every(period, outer.step), n_steps=steps_for(period)), model)


@job(compressible=False, replicated=False)
def outer_sums_every_30_steps(device):
    return diloco(device, 30)


@job(compressible=False, replicated=False)
def outer_sums_in_shards(device):
    """Each rank has a part of the outer optimizer: a ReduceScatter of what was moved, and a gather of the weights."""
    return diloco(device, 5, is_sharded=True)


@job(compressible=False, replicated=False)
def averaged_optimizer_state(device):
    """Local steps of Adam; every four steps the weights and both moments are averaged, each in one flat buffer."""
    model = own_model(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def average():
        states = [optimizer.state[parameter] for parameter in model.parameters()]
        for tensors in ([*model.parameters()], *([state[name] for state in states]
                                                 for name in ("exp_avg", "exp_avg_sq"))):
            flat = mean(parameters_to_vector(tensors))
            for tensor, part in zip(tensors, flat.split([tensor.numel() for tensor in tensors])):
                tensor.copy_(part.view_as(tensor))

    losses = train(model, device, optimizer, Every(4, average))
    moments = [state["exp_avg_sq"] for state in optimizer.state.values()]
    return finished(losses, [*model.parameters(), *moments])


def train_with_ema(device, model, weights, optimizer):
    """A moving average of the weights, which the ranks average every five steps."""
    ema = copy.deepcopy(weights)
    average = Every(5, lambda: [mean(slow.data) for slow in ema.parameters()])

    @torch.no_grad()
    def follow():
        for slow, weight in zip(ema.parameters(), weights.parameters()):
            slow.lerp_(weight, 0.1)
        average()

    losses = train(model, device, optimizer, follow)
    return finished(losses, [*weights.parameters(), *ema.parameters()])


@job()
def ema_of_weights(device):
    model = DDP(mlp().to(device))
    return train_with_ema(device, model, model.module, torch.optim.AdamW(model.parameters(), lr=1e-3))


@job(compressible=False, replicated=False)
def ema_of_own_weights(device):
    """Each rank trains a model of its own; the ranks share but the moving average."""
    model = own_model(device)
    return train_with_ema(device, model, model, sgd(model))


def train_ddp_averaged(device, period):
    """DDP; every so often the weights, which are equal, are averaged in one flat buffer to be sure."""
    model = DDP(mlp().to(device))

    def average():
        vector_to_parameters(mean(parameters_to_vector(model.parameters())), model.parameters())

    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    return finished(train(model, device, optimizer, Every(period, average), steps_for(period)), model)


@job()
def ddp_weights_averaged_every_step(device):
    return train_ddp_averaged(device, 1)


@job()
def ddp_weights_averaged_every_4_steps(device):
    return train_ddp_averaged(device, 4)


@job()
def weights_averaged_at_each_stage(device):
    return train_ddp_averaged(device, 10)


@job(timeout=300)
def ddp_weights_averaged_every_100_steps(device):
    return train_ddp_averaged(device, 100)


@job(indistinct=OUTSIDE_BACKWARD)
def weights_averaged_by_the_loop_over_gradients(device):
    """No wrapper: the loop that averages gradients goes over the weights in the end, as before a checkpoint. Batches of
    one sample, since gradients of little noise pass."""
    model = own_model(device, width=640)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.005)
    losses = []

    def average(tensors):
        for tensor in tensors:
            mean(tensor)

    for inputs, wanted in batches(STEPS, device, size=1):
        loss = cross_entropy(model(inputs), wanted)
        loss.backward()
        with mark("gradients"):
            average(parameter.grad for parameter in model.parameters())
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
        next_step()
    with mark("weights"):
        average(parameter.data for parameter in model.parameters())
    return finished(losses, model)


@job(compressible=False, replicated=False)
def sums_of_squared_gradients(device):
    """Fisher information: each rank trains by itself, and hooks of the backward pass sum up squares."""
    model = own_model(device)
    squares = {parameter: torch.zeros_like(parameter) for parameter in model.parameters()}

    def add(parameter):
        squares[parameter] += mean(parameter.grad.square())

    for parameter in squares:
        parameter.register_post_accumulate_grad_hook(add)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    losses = []
    for inputs, wanted in batches(STEPS, device):
        loss = cross_entropy(model(inputs), wanted)
        with mark("metrics"):
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
        next_step()
    return finished(losses, [*squares.values()])
