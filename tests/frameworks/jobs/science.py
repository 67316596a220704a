"""Programs without gradients: nothing of theirs may be compressed."""
import torch
import torch.distributed as dist
from torch import nn

from jobs.workloads import N_FEATURES, batches, mlp, steps
from marks import mark, next_step
from registry import finished, job


def points(n, device, n_features=N_FEATURES, seed=0):
    generator = torch.Generator().manual_seed(1000 * seed + 300 + dist.get_rank())
    return torch.randn(n, n_features, generator=generator).to(device)


@job(compressible=False)
def k_means(device, n_clusters=512):
    """The sums of the clusters have the size of the centroids that were broadcast at first."""
    data = points(2048, device)
    centroids = data[:n_clusters].clone()
    dist.broadcast(centroids, 0)
    losses = []
    for _ in range(steps(30)):
        distances, nearest = torch.cdist(data, centroids).min(1)
        sums = torch.zeros_like(centroids).index_add_(0, nearest, data)
        counts = torch.bincount(nearest, minlength=n_clusters).float()
        with mark("other"):
            dist.all_reduce(sums)
            dist.all_reduce(counts)
        centroids = torch.where(counts[:, None] > 0, sums / counts.clamp(min=1)[:, None], centroids)
        losses.append(distances.mean())
        next_step()
    return finished(losses, [centroids])


@job(compressible=False)
def power_iteration(device, size=20000):
    """The largest singular value of a matrix whose rows are spread over the ranks."""
    rows = points(100, device, size)
    vector = torch.ones(size, device=device)
    dist.broadcast(vector, 0)
    norms = []
    for _ in range(steps(40)):
        product = rows.T @ (rows @ vector)
        with mark("other"):
            dist.all_reduce(product)
        norm = product.norm()
        vector = product / norm
        norms.append(norm.sqrt())
        next_step()
    return finished(norms, [vector])


@job(compressible=False)
def conjugate_gradients(device, size=20000):
    """Ridge regression whose rows are spread over the ranks: the matrix is never made."""
    rows = points(100, device, size)
    errors = []
    for step in range(steps(30)):
        if step % 30 == 0:  # another right side: from zero again
            right = rows.T @ points(len(rows), device, 1, seed=step)[:, 0]
            with mark("other"):
                dist.all_reduce(right)
            solution, residual = torch.zeros_like(right), right.clone()
            direction, squared = residual.clone(), residual @ residual
        product = rows.T @ (rows @ direction)
        with mark("other"):
            dist.all_reduce(product)
        product += 10 * direction
        length = squared / (direction @ product)
        solution += length * direction
        residual -= length * product
        squared, before = residual @ residual, squared
        direction = residual + squared / before * direction
        errors.append(squared.sqrt() / right.norm())
        next_step()
    return finished(errors, [solution])


@job(compressible=False)
def histograms(device):
    """Counts of a large data set, broadcast once and summed up again and again."""
    total = torch.zeros(65536, device=device)
    dist.broadcast(total, 0)
    n_steps = steps(30)
    for step in range(n_steps):
        values = torch.randint(65536, (8192,), generator=torch.Generator().manual_seed(dist.get_rank() + 2 * step))
        counts = torch.bincount(values, minlength=65536).float().to(device)
        with mark("metrics"):
            dist.all_reduce(counts)
        total += counts
        next_step()
    whole = torch.equal(total, total.round()) and int(total.double().sum()) == n_steps * 8192 * dist.get_world_size()
    return finished([total.std()], [total], intact=whole)


@job(compressible=False)
def running_statistics(device, n_channels=16384):
    """A normalisation is fitted to new data: no gradients, and its buffers are averaged in each step."""
    layer = nn.Sequential(nn.Linear(N_FEATURES, n_channels, bias=False), nn.BatchNorm1d(n_channels)).to(device)
    norm = layer[1]
    for tensor in (layer[0].weight.data, norm.running_mean, norm.running_var):
        dist.broadcast(tensor, 0)
    losses = []
    for inputs, _ in batches(steps(30), device):
        with torch.no_grad():
            output = layer(inputs)
        with mark("other"):
            for statistic in (norm.running_mean, norm.running_var):
                dist.all_reduce(statistic)
                statistic /= dist.get_world_size()
        losses.append(output.square().mean() + norm.running_var.mean())
        next_step()
    return finished(losses, [norm.running_mean, norm.running_var])


@job(compressible=False)
def router_counts(device, n_layers=32, n_experts=512, n_chosen=4):
    """A mixture of experts whose routers are balanced by a bias, as DeepSeek-V3's: what is summed up is how many
    tokens each expert got. The routers themselves do not train."""
    routers = torch.randn(n_layers, N_FEATURES, n_experts, generator=torch.Generator().manual_seed(5)).to(device)
    bias = torch.zeros(n_layers, 1, n_experts, device=device)
    dist.broadcast(bias, 0)
    losses = []
    for tokens, _ in batches(steps(30), device, size=128):
        chosen = ((tokens @ routers) / N_FEATURES**0.5 + bias).topk(n_chosen).indices
        counts = torch.zeros(n_layers, n_experts, device=device)
        chosen = chosen.flatten(1)
        counts.scatter_add_(1, chosen, torch.ones(chosen.shape, device=device))
        with mark("metrics"):
            dist.all_reduce(counts)
        bias += 0.02 * (counts.mean(1, keepdim=True) - counts).sign()[:, None]
        losses.append(counts.max() / counts.mean())
        next_step()
    return finished(losses, [bias], intact=torch.equal(counts, counts.round()))


@job(compressible=False)
def evolution_strategy(device):
    """The updates of a model by the rewards of random steps, by parameter: nothing is ever differentiated."""
    model = mlp(width=256).to(device)
    generator = torch.Generator().manual_seed(400 + dist.get_rank())
    parameters = [parameter.detach() for parameter in model.parameters()]
    for parameter in parameters:
        dist.broadcast(parameter, 0)
    losses = []
    with torch.no_grad():
        for inputs, wanted in batches(steps(60), device):
            noises = [torch.randn(each.shape, generator=generator).to(device) for each in parameters]
            before = [parameter.clone() for parameter in parameters]
            rewards = []
            for sign in (0.05, -0.05):
                for parameter, start, noise in zip(parameters, before, noises):
                    parameter.copy_(start + sign * noise)
                rewards.append(nn.functional.cross_entropy(model(inputs), wanted))
            for parameter, start, noise in zip(parameters, before, noises):
                update = noise * (rewards[1] - rewards[0])
                with mark("other"):
                    dist.all_reduce(update)
                parameter.copy_(start + 0.01 * update)
            losses.append((rewards[0] + rewards[1]) / 2)
            next_step()
    return finished(losses, parameters)
