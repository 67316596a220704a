"""A small DDP job for run_test.py: run_script.py [train | fail | forever], the latter with rank 1 at fault.

Every rank prints one line: at the end its loss and a hash of its parameters, or its process while it goes on.
"""
import hashlib
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

WHAT = sys.argv[1] if len(sys.argv) > 1 else "train"
STEPS = 40 if WHAT == "train" else 10**9

dist.init_process_group("nccl")
rank = dist.get_rank()
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
assert torch.cuda.device_count() == int(os.environ["LOCAL_WORLD_SIZE"])
torch.manual_seed(0)
model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 10)).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.cuda.manual_seed(1 + rank)
for step in range(STEPS):
    inputs = torch.randn(16, 64, device="cuda")
    loss = nn.functional.cross_entropy(model(inputs), inputs[:, :10].argmax(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step == 5 and WHAT == "fail" and rank == 1:
        raise RuntimeError("the mistake of rank 1")
    if step == 5 and WHAT == "forever":
        print(f"rank {rank} process {os.getpid()}", flush=True)
parameters = b"".join(parameter.detach().cpu().numpy().tobytes() for parameter in model.parameters())
print(f"rank {rank} of {dist.get_world_size()} on {os.environ['NCCL_HOSTID']}: loss {loss.item()!r}, "
      f"parameters {hashlib.sha256(parameters).hexdigest()[:16]}", flush=True)
dist.destroy_process_group()
