#!/usr/bin/env python3
"""One rank of a data-parallel job that averages all gradients in one coalesced group of AllReduces, as Megatron
does. coalesced.py --rank R --ranks N --id-file PATH [--out FILE]"""

import torch
import torch.distributed as dist

import torch_job

try:
    from torch.distributed import _coalescing_manager
except ImportError:
    torch_job.missing("_coalescing_manager")


def job(options):
    model = torch_job.make_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def update():
        with _coalescing_manager(async_ops=True) as pending:
            for parameter in model.parameters():
                parameter.grad.div_(options.ranks)
                dist.all_reduce(parameter.grad)
        pending.wait()
        optimizer.step()

    losses = torch_job.train(options, model, update)
    return {"losses": losses, "weights": torch_job.checksum(model.parameters())}


if __name__ == "__main__":
    torch_job.main(job)
