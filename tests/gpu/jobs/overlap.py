#!/usr/bin/env python3
"""One rank of a job that has an AllReduce under way while it multiplies matrices, as a backward pass has: how long a
step of each takes alone, and of both together. overlap.py --rank R --ranks N --id-file PATH [--out FILE]"""

import statistics
import time

import torch
import torch.distributed as dist

import torch_job

VALUES, SIDE, PRODUCTS = (16 << 20, 4096, 4) if torch_job.ON_GPU else (1 << 16, 128, 2)
CALLS_BEFORE = 12  # until it is compressed


def milliseconds(options, step):
    """Of a step that this rank begins together with the others: the median of many."""
    times = []
    for _ in range(options.steps):
        dist.barrier()
        if torch_job.ON_GPU:
            torch.cuda.synchronize()
        begin = time.perf_counter()
        step()
        if torch_job.ON_GPU:
            torch.cuda.synchronize()
        times.append(1000 * (time.perf_counter() - begin))
    return statistics.median(times)


def job(options):
    random = torch.Generator().manual_seed(options.rank)
    gradient = torch.randn(VALUES, generator=random).to(torch_job.DEVICE)
    matrix = torch.randn(SIDE, SIDE, generator=random).to(torch_job.DEVICE, torch.bfloat16)
    bucket = gradient.clone()

    def multiply():
        for _ in range(PRODUCTS):
            torch.mm(matrix, matrix)

    def reduce():
        return dist.all_reduce(bucket, async_op=True)

    def both():
        bucket.copy_(gradient)
        pending = reduce()
        multiply()
        pending.wait()

    def reduce_alone():
        bucket.copy_(gradient)  # what is added up over and over would overflow
        reduce().wait()

    for _ in range(CALLS_BEFORE):
        reduce_alone()
    return {"ms": {"products": milliseconds(options, multiply), "reduce": milliseconds(options, reduce_alone),
                   "both": milliseconds(options, both)}}


if __name__ == "__main__":
    torch_job.main(job)
