"""DistributedDataParallel around models that are not all parameters, or not all trained."""
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed._functional_collectives import all_gather_tensor_autograd
from torch.nn.functional import cross_entropy, normalize
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from jobs.ddp import STEPS, train
from jobs.workloads import N_CLASSES, N_FEATURES, batches, mlp, steps
from marks import mark, next_step
from registry import finished, job


NOT_ON_CPU = "SyncBatchNorm is for GPUs alone"


def with_norms():
    return nn.Sequential(nn.Linear(N_FEATURES, 512), nn.BatchNorm1d(512), nn.ReLU(),
                         nn.Linear(512, 512), nn.BatchNorm1d(512), nn.ReLU(), nn.Linear(512, N_CLASSES))


@job(not_on_gloo=NOT_ON_CPU)
def ddp_sync_batch_norm(device):
    model = DDP(nn.SyncBatchNorm.convert_sync_batchnorm(with_norms()).to(device))
    return finished(train(model, device), model)


N_CHANNELS = 16384


def with_wide_norm(norm):
    """Each of the norm's statistics is a call of 64 KiB."""
    return nn.Sequential(nn.Linear(N_FEATURES, 16), nn.ReLU(), nn.Linear(16, N_CHANNELS), norm(N_CHANNELS), nn.ReLU(),
                         nn.Linear(N_CHANNELS, N_CLASSES))


def sums_of_a_norm(call, phase):
    """Backward makes both kinds of calls: DDP averages gradients, SyncBatchNorm sums up its statistics."""
    return "activations" if phase == "gradients" and call["count"] == 2 * N_CHANNELS else None


@job(compressible=False, replicated=False, truth=sums_of_a_norm, not_on_gloo=NOT_ON_CPU)
def sync_batch_norm_statistics(device):
    """The models share nothing but their norm's statistics, forward and backward."""
    model = with_wide_norm(nn.SyncBatchNorm).to(device)
    return finished(train(model, device, STEPS), model)


@job(truth=sums_of_a_norm, not_on_gloo=NOT_ON_CPU)
def ddp_sync_batch_norm_of_many_channels(device):
    model = DDP(with_wide_norm(nn.SyncBatchNorm).to(device))
    return finished(train(model, device, STEPS), model)


@job()
def ddp_running_statistics(device):
    """DDP leaves the norm's buffers alone; the ranks average them after each step."""
    model = DDP(with_wide_norm(nn.BatchNorm1d).to(device), broadcast_buffers=False)
    norm = model.module[3]

    def average():
        with mark("other"):
            for statistic in (norm.running_mean, norm.running_var):
                dist.all_reduce(statistic)
                statistic /= dist.get_world_size()

    losses = train(model, device, STEPS, after_step=average)
    return finished(losses, [*model.parameters(), norm.running_mean, norm.running_var])


def with_frozen(share, device):
    """A model of which `share` of the parameters do not train: a projection in front of it."""
    trained = mlp()
    n_trained = sum(parameter.numel() for parameter in trained.parameters())
    n_frozen = int(n_trained * share / (1 - share)) // N_FEATURES
    frozen = nn.Linear(N_FEATURES, n_frozen, bias=False).requires_grad_(False)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.frozen, self.trained = frozen, trained

        def forward(self, inputs):
            projected = self.frozen(inputs)
            return self.trained(inputs + nn.functional.pad(projected, (0, N_FEATURES))[:, :N_FEATURES])

    return Model().to(device)


@job()
def ddp_frozen_half_percent(device):
    model = DDP(with_frozen(0.005, device))
    return finished(train(model, device), model)


@job()
def ddp_frozen_5_percent(device):
    model = DDP(with_frozen(0.05, device))
    return finished(train(model, device), model)


@job(back_ends_differ=True)
def ddp_frozen_30_percent(device):
    model = DDP(with_frozen(0.3, device))
    return finished(train(model, device), model)


@job()
def ddp_frozen_50_percent(device):
    model = DDP(with_frozen(0.5, device))
    return finished(train(model, device), model)


class WithBuffer(nn.Module):
    """A running mean of the inputs' random features: `share` of its floats are a buffer's."""

    def __init__(self, share):
        super().__init__()
        self.body = mlp()
        n_parameters = sum(parameter.numel() for parameter in self.body.parameters())
        n_rows = round(n_parameters * share / (1 - share)) // N_FEATURES
        self.register_buffer("mean", torch.zeros(n_rows, N_FEATURES))

    def forward(self, inputs):
        if self.training:
            self.mean.lerp_(inputs.mean(0).expand_as(self.mean), 0.1)
        return self.body(inputs - self.mean[0])


@job()
def ddp_buffers_1_percent(device):
    model = DDP(WithBuffer(0.01).to(device))
    return finished(train(model, device), model)


@job()
def ddp_buffers_5_percent(device):
    model = DDP(WithBuffer(0.05).to(device))
    return finished(train(model, device), model)


@job()
def ddp_wrapped_three_times(device):
    """A stage of training after the other, each wrapped anew."""
    model = mlp().to(device)
    losses = []
    for _ in range(3):
        losses += train(DDP(model), device, steps(60))
    return finished(losses, model)


@job()
def ddp_frozen_midway(device):
    """The first layer trains for the first half only."""
    model = mlp().to(device)
    losses = train(DDP(model), device, steps(120))
    model[0].requires_grad_(False)
    losses += train(DDP(model), device, steps(120))
    return finished(losses, model)


@job(indistinct="the generator gets the same noise on all ranks: its gradients are as alike as weights are. With noise "
                "of each rank's own they are told apart.")
def ddp_gan(device):
    """Two models, each with a group of its own."""
    generator = DDP(mlp(last=N_FEATURES).to(device), process_group=dist.new_group())
    critic = DDP(mlp(last=1).to(device), process_group=dist.new_group())
    optimizers = [torch.optim.Adam(model.parameters(), lr=2e-4, betas=(0.5, 0.999))
                  for model in (generator, critic)]
    score = nn.functional.binary_cross_entropy_with_logits
    losses = []
    for real, _ in batches(STEPS, device):
        fake = generator(torch.randn(real.shape, generator=torch.Generator().manual_seed(len(losses))).to(device))
        both = critic(torch.cat([real, fake.detach()]))
        true = torch.cat([torch.ones(len(real), 1), torch.zeros(len(real), 1)]).to(device)
        with mark("gradients"):
            score(both, true).backward()
        optimizers[1].step()
        optimizers[1].zero_grad()
        critic.requires_grad_(False)
        loss = score(critic.module(fake), torch.ones(len(real), 1, device=device))
        with mark("gradients"):
            loss.backward()
        critic.requires_grad_(True)
        optimizers[0].step()
        optimizers[0].zero_grad()
        losses.append(loss.detach())
        next_step()
    return finished(losses, [*generator.parameters(), *critic.parameters()])


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = mlp(last=256)

    def forward(self, inputs):
        return nn.functional.normalize(self.body(inputs), dim=1)


def gathered_with_gradients(views):
    """Backward sums up the gradients of the features, and each rank gets those of its own."""
    return all_gather_tensor_autograd(views, 0, dist.group.WORLD).chunk(dist.get_world_size())


def gathered_without_gradients(views):
    gathered = [torch.empty_like(views) for _ in range(dist.get_world_size())]
    dist.all_gather(gathered, views.detach())
    gathered[dist.get_rank()] = views
    return gathered


def train_contrastive(model, device, gather):
    """The features of all ranks are gathered in each step, as the loss compares them all."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for inputs, _ in batches(STEPS, device, size=64):
        noise = torch.randn(2, *inputs.shape, generator=torch.Generator().manual_seed(len(losses))).to(device)
        views = model(torch.cat([inputs + noise[0], inputs + noise[1]]))
        with mark("activations"):
            gathered = gather(views)
        first, second = torch.stack(gathered).chunk(2, dim=1)
        logits = first.flatten(0, 1) @ second.flatten(0, 1).T / 0.1
        loss = cross_entropy(logits, torch.arange(len(logits), device=device))
        with mark("gradients"):
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
        next_step()
    return losses


@job(back_ends_differ=True)
def ddp_contrastive(device):
    model = DDP(Encoder().to(device))
    return finished(train_contrastive(model, device, gathered_without_gradients), model)


def scattered_are_features(call, phase):
    """Backward makes both kinds of calls: DDP averages gradients, the gather's backward reduces and scatters."""
    return "activations" if phase == "gradients" and call["kind"] == "ReduceScatter" else None


@job(truth=scattered_are_features)
def ddp_gathered_features(device):
    model = DDP(Encoder().to(device))
    return finished(train_contrastive(model, device, gathered_with_gradients), model)


@job(compressible=False, replicated=False, truth=scattered_are_features)
def gathered_features(device):
    """Each rank has an encoder of its own: what they exchange are features and the gradients of these."""
    torch.manual_seed(dist.get_rank())
    model = Encoder().to(device)
    return finished(train_contrastive(model, device, gathered_with_gradients), model)


@job()
def ddp_loss_from_the_last_rank(device):
    """The last rank broadcasts a number directly after the parameters were: the two are no list that is gathered."""
    model = DDP(mlp().to(device))
    dist.broadcast(torch.zeros(1, device=device), dist.get_world_size() - 1)
    losses = []
    for _ in range(4):
        losses += train(model, device, 10)
        with torch.no_grad(), mark("weights"):
            flat = parameters_to_vector(model.parameters())
            dist.all_reduce(flat)
            vector_to_parameters(flat / dist.get_world_size(), model.parameters())
    return finished(losses, model)


@job()
def ddp_unfrozen_after_long(device):
    """The first layer is frozen for 100 steps, and the model wrapped again then."""
    model = mlp().to(device)
    model[0].requires_grad_(False)
    losses = train(DDP(model), device, 100)
    model[0].requires_grad_(True)
    losses += train(DDP(model), device, 100)
    return finished(losses, model)


@job(truth=scattered_are_features, not_on_gloo=NOT_ON_CPU)
def ddp_contrastive_at_the_beginning(device):
    """Of a deep network that has hardly been trained, features of all batches are alike. Each rank compares its own
    with those of all."""
    layers = [nn.Sequential(nn.Linear(N_FEATURES if i == 0 else 256, 256), nn.ReLU()) for i in range(7)]
    model = DDP(nn.Sequential(*layers, nn.Linear(256, 200)).to(device))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    n_own, losses = 64, []
    own = torch.arange(n_own, device=device) + n_own * dist.get_rank()
    for inputs, _ in batches(STEPS, device, size=n_own):
        features = normalize(model(inputs + 0.1 * torch.randn_like(inputs)), dim=1)
        with mark("activations"):
            gathered = all_gather_tensor_autograd(features, 0, dist.group.WORLD)
        with mark("gradients"):
            loss = cross_entropy(features @ gathered.T / 0.1, own)
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
        next_step()
    return finished(losses, model)
