"""What the PyTorch jobs here share: a rank's arguments and process group, a small classification task, and the
result as JSON. Without a GPU they run on the CPU over gloo, so that a job can be tried anywhere."""

import argparse
import datetime
import json
import sys

import torch
import torch.distributed as dist

ON_GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda", 0) if ON_GPU else torch.device("cpu")
INPUTS, CLASSES, BATCH = 256, 16, 128
MISSING = 77  # exit status: this PyTorch lacks what the job is about


def missing(what):
    print(f"this PyTorch ({torch.__version__}) has no {what}")
    sys.exit(MISSING)


def make_model():
    """The same on every rank."""
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(INPUTS, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 1024),
                               torch.nn.GELU(), torch.nn.Linear(1024, CLASSES)).to(DEVICE)


def batch_of(rank, step):
    teacher = torch.randn(INPUTS, CLASSES, generator=torch.Generator().manual_seed(7))
    inputs = torch.randn(BATCH, INPUTS, generator=torch.Generator().manual_seed(1000003 * rank + step))
    return inputs.to(DEVICE), (inputs @ teacher).argmax(dim=1).to(DEVICE)


def train(options, model, update):
    """The losses of this rank's batches; update() makes of the gradients new weights, equal on all ranks."""
    losses = []
    for step in range(options.steps):
        inputs, labels = batch_of(options.rank, step)
        loss = torch.nn.functional.cross_entropy(model(inputs), labels)
        model.zero_grad()
        loss.backward()
        update()
        losses.append(loss.item())
    return losses


def checksum(tensors):
    """A number that shows whether two ranks hold the same bits."""
    flat = torch.cat([tensor.detach().flatten() for tensor in tensors])
    return flat.view(torch.int32).to(torch.int64).sum().item()


def write(options, result):
    text = json.dumps({"rank": options.rank, "torch": torch.__version__, **result})
    print(text, flush=True)
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            file.write(text)


def main(job):
    """Runs job(options) as one rank and writes the values that it returns."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--id-file", required=True, help="for the ranks to find each other; must not exist yet")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--out", help="write the result here, too")
    options = parser.parse_args()
    if ON_GPU:
        torch.cuda.set_device(DEVICE)
    dist.init_process_group("nccl" if ON_GPU else "gloo", init_method=f"file://{options.id_file}",
                            rank=options.rank, world_size=options.ranks, timeout=datetime.timedelta(seconds=60))
    result = job(options)
    dist.destroy_process_group()
    write(options, result)
