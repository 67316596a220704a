"""DistributedDataParallel with evaluations and metrics between the steps."""
import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel as DDP

from jobs.ddp import STEPS
from jobs.workloads import N_CLASSES, batches, mlp
from marks import mark, next_step
from registry import finished, job


def train_and(evaluate, model, device, every, n_steps=STEPS):
    """Trains, calls evaluate(step) after every so many steps, and returns the losses."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for step, (inputs, wanted) in enumerate(batches(n_steps, device), 1):
        loss = cross_entropy(model(inputs), wanted)
        with mark("gradients"):
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
        next_step()
        if step % every == 0:
            with torch.no_grad(), mark("metrics"):
                evaluate(step)
    return losses


@job(back_ends_differ=True, not_on_gloo="gloo gathers tensors of one shape only")
def ddp_evaluation_with_unequal_gathers(device):
    """The ranks have different numbers of predictions: PyTorch gathers each with a shape of its own."""
    model = DDP(mlp().to(device))

    def evaluate(step):
        sizes = [2048 + 256 * rank + 16 * step for rank in range(dist.get_world_size())]
        inputs, _ = next(batches(1, device, size=sizes[dist.get_rank()], part=step))
        predictions = [torch.empty(size, N_CLASSES, device=device) for size in sizes]
        dist.all_gather(predictions, model.module(inputs))

    return finished(train_and(evaluate, model, device, every=8), model)


@job(back_ends_differ=True)
def ddp_evaluation_with_objects(device):
    model = DDP(mlp().to(device))

    def evaluate(step):
        inputs, wanted = next(batches(1, device, size=200 + 7 * step, part=step))
        right = (model.module(inputs).argmax(1) == wanted).tolist()
        gathered = [None] * dist.get_world_size()
        dist.all_gather_object(gathered, {"step": step, "right": right})

    return finished(train_and(evaluate, model, device, every=5), model)


@job()
def ddp_evaluation_by_reductions(device):
    """Sums of scores over a large evaluation set, as floats."""
    model = DDP(mlp().to(device))

    def evaluate(step):
        inputs, wanted = next(batches(1, device, size=4096, part=step))
        scores = cross_entropy(model.module(inputs), wanted, reduction="none")
        histogram = torch.zeros(20000, device=device)
        histogram.scatter_add_(0, (scores * 1000).long().clamp(max=19999), torch.ones_like(scores))
        dist.all_reduce(histogram)

    return finished(train_and(evaluate, model, device, every=5), model)


def train_with_counts(device, n_classes):
    """Integer counts are summed as floats in each step: a confusion matrix."""
    model = DDP(mlp(last=n_classes).to(device))
    total = torch.zeros(n_classes, n_classes, device=device)

    def evaluate(step):
        inputs, wanted = next(batches(1, device, size=64, part=step))
        counts = torch.zeros(n_classes * n_classes, device=device)
        places = wanted * n_classes + model.module(inputs).argmax(1)
        counts.scatter_add_(0, places, torch.ones(len(places), device=device))
        dist.all_reduce(counts)
        total.add_(counts.view(n_classes, n_classes))

    losses = train_and(evaluate, model, device, every=1, n_steps=STEPS)
    n_counted = STEPS * 64 * dist.get_world_size()
    return finished(losses, model, intact=torch.equal(total, total.round()) and int(total.sum()) == n_counted)


@job()
def ddp_counts_beside_gradients(device):
    return train_with_counts(device, 128)


@job()
def ddp_many_counts_beside_gradients(device):
    """As large as a quarter of the gradients."""
    return train_with_counts(device, 256)
