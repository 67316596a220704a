#!/usr/bin/env python3
"""One rank of a data-parallel job whose gradients are reduce-scattered, as ZeRO does: each rank updates its own
part of the weights, which are then gathered. zero.py --rank R --ranks N --id-file PATH [--out FILE]"""

import torch
import torch.distributed as dist
from torch.nn.utils import parameters_to_vector, vector_to_parameters

import torch_job


def padded(vector, ranks):
    return torch.nn.functional.pad(vector, (0, -vector.numel() % ranks))


def job(options):
    model = torch_job.make_model()
    parameters = list(model.parameters())
    n = sum(parameter.numel() for parameter in parameters)
    weights = padded(parameters_to_vector(parameters).detach(), options.ranks)
    own = weights.chunk(options.ranks)[options.rank].clone().requires_grad_()
    own.grad = torch.empty_like(own)
    optimizer = torch.optim.Adam([own], lr=1e-3)

    def update():
        gradients = parameters_to_vector([parameter.grad for parameter in parameters]) / options.ranks
        dist.reduce_scatter_tensor(own.grad, padded(gradients, options.ranks))
        optimizer.step()
        dist.all_gather_into_tensor(weights, own.detach())
        # Copied: the parameters must not become views of what the next step overwrites.
        vector_to_parameters(weights[:n].clone(), parameters)

    losses = torch_job.train(options, model, update)
    return {"losses": losses, "weights": torch_job.checksum([weights])}


if __name__ == "__main__":
    torch_job.main(job)
