#!/usr/bin/env python3
"""One rank of a job that captures an AllReduce in a CUDA graph and replays it with new values each time. Without
a GPU the AllReduce is called instead. graph.py --rank R --ranks N --id-file PATH [--out FILE]"""

import torch
import torch.distributed as dist

import torch_job

VALUES = 1 << 20
EAGER_CALLS = 12  # before the capture


def values_of(rank, step):
    return torch.randn(VALUES, generator=torch.Generator().manual_seed(1000003 * rank + step))


def captured(call):
    """A function that replays what call() did while it was captured."""
    if not torch_job.ON_GPU:
        return call
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def squared_error(result, options, step):
    """Over the squared signal, against the sum in double precision."""
    exact = sum(values_of(rank, step).double() for rank in range(options.ranks))
    return ((result.cpu().double() - exact).square().sum() / exact.square().sum()).item()


def job(options):
    source = torch.empty(VALUES, device=torch_job.DEVICE)
    result = torch.empty(VALUES, device=torch_job.DEVICE)

    def call():
        result.copy_(source)
        dist.all_reduce(result)

    source.copy_(values_of(options.rank, 0))
    for _ in range(EAGER_CALLS):
        call()
    if torch_job.ON_GPU:
        torch.cuda.synchronize()
    replay = captured(call)
    replays = []
    for step in range(options.steps):
        source.copy_(values_of(options.rank, step))
        replay()
        replays.append({"nmse": squared_error(result, options, step), "checksum": torch_job.checksum([result])})
    del replay  # the communicator outlives the graphs that use it
    return {"replays": replays}


if __name__ == "__main__":
    torch_job.main(job)
