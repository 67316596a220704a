#!/usr/bin/env python3
"""One rank of a PyTorch DistributedDataParallel job. ddp.py --rank R --ranks N --id-file PATH [--out FILE]"""

import torch

import torch_job


def job(options):
    model = torch.nn.parallel.DistributedDataParallel(torch_job.make_model())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    losses = torch_job.train(options, model, optimizer.step)
    return {"losses": losses, "weights": torch_job.checksum(model.parameters())}


if __name__ == "__main__":
    torch_job.main(job)
