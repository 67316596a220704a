"""Programs without gradients: nothing of theirs may be compressed."""
import torch
import torch.distributed as dist

from jobs.workloads import N_FEATURES
from marks import mark, next_step
from registry import finished, job


def points(n, device, n_features=N_FEATURES):
    generator = torch.Generator().manual_seed(300 + dist.get_rank())
    return torch.randn(n, n_features, generator=generator).to(device)


@job(compressible=False)
def k_means(device, n_clusters=512):
    """The sums of the clusters have the size of the centroids that were broadcast at first."""
    data = points(2048, device)
    centroids = data[:n_clusters].clone()
    dist.broadcast(centroids, 0)
    losses = []
    for _ in range(30):
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
    for _ in range(40):
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
    right = rows.T @ torch.ones(len(rows), device=device)
    with mark("other"):
        dist.all_reduce(right)
    solution, residual = torch.zeros_like(right), right.clone()
    direction, squared = residual.clone(), residual @ residual
    errors = []
    for _ in range(30):
        product = rows.T @ (rows @ direction)
        with mark("other"):
            dist.all_reduce(product)
        product += 10 * direction
        step = squared / (direction @ product)
        solution += step * direction
        residual -= step * product
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
    for step in range(30):
        values = torch.randint(65536, (8192,), generator=torch.Generator().manual_seed(dist.get_rank() + 2 * step))
        counts = torch.bincount(values, minlength=65536).float().to(device)
        with mark("metrics"):
            dist.all_reduce(counts)
        total += counts
        next_step()
    whole = torch.equal(total, total.round()) and int(total.double().sum()) == 30 * 8192 * dist.get_world_size()
    return finished([total.std()], [total], intact=whole)
