"""Jobs that reduce something else besides their gradients: in hooks of the backward pass, or by the loop that averages
gradients. None of it may be compressed."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.checkpoint import checkpoint

from jobs.averaging import mean, own_model
from jobs.ddp import OUTSIDE_BACKWARD
from jobs.model_parallel import SplitInput
from jobs.workloads import N_FEATURES, batches, mlp, rank, steps
from marks import mark, next_step
from registry import finished, job

STEPS = steps(61)


def train(model, device, gradients, beside=lambda step, inputs, wanted: None, size=32):
    """`gradients(loss)` leaves what all ranks step with; `beside` is called after each step, the first is number 1."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    losses = []
    for step, (inputs, wanted) in enumerate(batches(STEPS, device, size=size), 1):
        loss = cross_entropy(model(inputs), wanted)
        gradients(loss)
        optimizer.step()
        optimizer.zero_grad()
        beside(step, inputs, wanted)
        losses.append(loss.detach())
        next_step()
    return losses


def backward(loss):
    with mark("gradients"):
        loss.backward()


def summed(tensor):
    with mark("other"):
        dist.all_reduce(tensor)
    return tensor


# --- In hooks of the backward pass, beside DDP.


@job()
def ddp_kfac_factors(device):
    """K-FAC's factors, reduced as the backward pass makes them."""
    net = mlp(width=256).to(device)
    inputs, factors = {}, {}

    def keep(layer, given):
        inputs[layer] = given[0].detach()

    @torch.no_grad()
    def reduce(layer, _, wanted):
        for side, values in (("input", inputs[layer]), ("output", wanted[0] * len(wanted[0]))):
            factors[layer, side] = summed(values.T @ values / len(values)) / dist.get_world_size()

    for layer in net.modules():
        if isinstance(layer, nn.Linear):
            layer.register_forward_pre_hook(keep)
            layer.register_full_backward_hook(reduce)
    losses = train(DDP(net), device, backward)
    return finished(losses, [*net.parameters(), *factors.values()])


class Recomputed(nn.Module):
    """Its first layers run again in the backward pass."""

    def __init__(self, layers):
        super().__init__()
        self.layers = layers

    def forward(self, x):
        return self.layers[4:](checkpoint(self.layers[:4], x.requires_grad_(), use_reentrant=True))


@job()
def ddp_statistics_in_recomputed_layers(device):
    """The covariance of a layer's input, where gradients are enabled: in a recomputed layer that is in backward."""
    layers = mlp(width=256, depth=2).to(device)
    covariances = []

    def reduce(layer, given):
        if torch.is_grad_enabled():
            values = given[0].detach()
            covariances.append(summed(values.T @ values))

    layers[2].register_forward_pre_hook(reduce)
    losses = train(DDP(Recomputed(layers)), device, backward)
    return finished(losses, [*layers.parameters(), *covariances])


@job()
def ddp_small_statistics(device):
    """Less than a hundredth of the model: a part of a layer's gradient, for a monitor."""
    net = mlp(width=1450).to(device)
    seen = []

    def watch(layer, given, made):
        if made.requires_grad:
            made.register_hook(lambda gradient: seen.append(summed(gradient[:14].clone())))

    net[3].register_forward_hook(watch)
    losses = train(DDP(net), device, backward)
    return finished(losses, [*net.parameters(), *seen])


@job(indistinct="hooks reduce as much as DDP does, between its buckets")
def ddp_state_in_hooks(device):
    """Moving averages of each rank's own gradients, as large as the parameters."""
    net = mlp().to(device)
    averages = {parameter: torch.zeros_like(parameter) for parameter in net.parameters()}

    def hook_of(parameter):
        def average(gradient):
            averages[parameter].lerp_(gradient.detach(), 0.1)
            summed(averages[parameter]).div_(dist.get_world_size())

        return average

    for parameter in averages:
        parameter.register_hook(hook_of(parameter))
    losses = train(DDP(net), device, backward)
    return finished(losses, [*net.parameters(), *averages.values()])


@job(replicated=False, indistinct=OUTSIDE_BACKWARD)
def split_columns_beside_a_trunk(device):
    """The gradients of a split layer's input on one communicator, those of the layers before it on another."""
    replicas = dist.new_group(list(range(dist.get_world_size())))
    trunk = own_model(device, width=256, last=256)
    head = nn.Linear(256, 5).to(device)
    optimizer = torch.optim.SGD([*trunk.parameters(), *head.parameters()], lr=0.05)
    losses = []
    for inputs, wanted in batches(STEPS, device, size=128, same=True):
        own = (wanted % 5 == rank()).float()
        scores = head(SplitInput.apply(trunk(inputs)))[:, 0]
        loss = nn.functional.binary_cross_entropy_with_logits(scores, own)
        with mark("activations"):
            loss.backward()
        with mark("gradients"):
            for parameter in trunk.parameters():
                dist.all_reduce(parameter.grad, group=replicas)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
        next_step()
    return finished(losses, trunk)


# --- By a loop over gradients. Batches of two samples: gradients of little noise pass.


def loop(device, beside=lambda model, step, inputs, wanted: None, model=None):
    model = model or own_model(device, width=256)

    def gradients(loss):
        loss.backward()
        with mark("gradients"):
            for parameter in model.parameters():
                mean(parameter.grad)

    losses = train(model, device, gradients, lambda *step: beside(model, *step), size=2)
    return losses, model


@job(indistinct=OUTSIDE_BACKWARD)
def loop_with_prototypes(device):
    """Sums of features by class, as large as the first layer, every ten steps."""
    sums = []

    def reduce(model, step, inputs, wanted):
        if step % 10 == 0:
            generator = torch.Generator().manual_seed(step + rank())
            features = torch.randn(512, N_FEATURES, generator=generator).to(device)
            classes = torch.randint(256, (512,), generator=generator).to(device)
            sums.append(summed(torch.zeros(256, N_FEATURES, device=device).index_add_(0, classes, features)))

    losses, model = loop(device, reduce)
    return finished(losses, [*model.parameters(), *sums])


def reduce_averages(averages, model, is_time):
    """Moving averages of the weights, which each rank keeps for itself and which become common now and then."""
    for i, parameter in enumerate(model.parameters()):
        before = averages.setdefault(i, parameter.detach().clone())
        before.lerp_(parameter.detach(), 0.1)
    if is_time:
        for average in averages.values():
            summed(average).div_(dist.get_world_size())


@job(indistinct=OUTSIDE_BACKWARD)
def loop_with_averaged_weights(device):
    averages = {}
    losses, model = loop(device, lambda model, step, *_: reduce_averages(averages, model, step % 10 == 0))
    return finished(losses, [*model.parameters(), *averages.values()])


@job(indistinct=OUTSIDE_BACKWARD)
def loop_with_averaged_weights_at_the_end(device):
    averages = {}
    losses, model = loop(device, lambda model, step, *_: reduce_averages(averages, model, step == STEPS))
    return finished(losses, [*model.parameters(), *averages.values()])


@job(indistinct=OUTSIDE_BACKWARD)
def loop_with_weights_in_new_memory(device):
    """What was broadcast is not what is averaged later."""

    def reduce(model, step, *_):
        if step % 10 == 0:
            for parameter in model.parameters():
                parameter.data = parameter.data.clone()
                summed(parameter.data).div_(dist.get_world_size())

    losses, model = loop(device, reduce)
    return finished(losses, model)


@job(indistinct=OUTSIDE_BACKWARD)
def loop_with_curvature(device):
    """AdaHessian's estimate of the diagonal, by parameter, in each step."""
    diagonals = {}

    def reduce(model, step, inputs, wanted):
        parameters = [*model.parameters()]
        slopes = torch.autograd.grad(cross_entropy(model(inputs), wanted), parameters, create_graph=True)
        generator = torch.Generator().manual_seed(2 * step + rank())
        signs = [(torch.randint(0, 2, each.shape, generator=generator).float() * 2 - 1).to(device) for each in parameters]
        products = torch.autograd.grad(slopes, parameters, signs)
        for parameter, sign, product in zip(parameters, signs, products):
            diagonals[parameter] = summed(sign * product)

    losses, model = loop(device, reduce)
    return finished(losses, [*model.parameters(), *diagonals.values()])


@job(indistinct=OUTSIDE_BACKWARD)
def loop_with_history_of_gradients(device):
    """L-BFGS's differences of gradients, by parameter, in each step."""
    last, history = {}, {}

    def reduce(model, step, inputs, wanted):
        slopes = torch.autograd.grad(cross_entropy(model(inputs), wanted), [*model.parameters()])
        for i, slope in enumerate(slopes):
            history[i] = summed(slope - last.get(i, torch.zeros_like(slope)))
            last[i] = slope

    losses, model = loop(device, reduce)
    return finished(losses, [*model.parameters(), *history.values()])
