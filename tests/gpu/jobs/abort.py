#!/usr/bin/env python3
"""One rank of a job whose last rank aborts its communicators in the middle, with an AllReduce under way, and ends.
The others go on until an error, or PyTorch's watchdog, ends them.

abort.py --rank R --ranks N --id-file PATH [--out FILE]
"""

import os

import torch
import torch.distributed as dist

import torch_job

try:
    from torch.distributed.distributed_c10d import _abort_process_group
except ImportError:
    torch_job.missing("_abort_process_group")


def job(options):
    bucket = torch.ones(1 << 20, device=torch_job.DEVICE)
    for step in range(options.steps):
        if options.rank == options.ranks - 1 and step == options.steps // 2:
            dist.all_reduce(bucket, async_op=True)
            _abort_process_group()
            torch_job.write(options, {"aborted_at": step})
            os._exit(0)  # nothing is left to be torn down in order
        dist.all_reduce(bucket)
        bucket.div_(options.ranks)
        if torch_job.ON_GPU:
            torch.cuda.synchronize()
    return {"aborted_at": None}


if __name__ == "__main__":
    torch_job.main(job)
