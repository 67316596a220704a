#!/usr/bin/env python3
"""One rank of a PyTorch FSDP2 job: fully_shard on every layer and on the model.

fsdp2.py --rank R --ranks N --id-file PATH [--out FILE]
"""

import torch
from torch.distributed.device_mesh import init_device_mesh

import torch_job

try:
    from torch.distributed.fsdp import fully_shard
except ImportError:
    torch_job.missing("fully_shard")


def job(options):
    mesh = init_device_mesh(torch_job.DEVICE.type, (options.ranks,))
    model = torch_job.make_model()
    for layer in model:
        if isinstance(layer, torch.nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    losses = torch_job.train(options, model, optimizer.step)
    whole = [parameter.full_tensor() for parameter in model.parameters()]
    return {"losses": losses, "weights": torch_job.checksum(whole)}


if __name__ == "__main__":
    torch_job.main(job)
