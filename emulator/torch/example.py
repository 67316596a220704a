"""Ordinary training with DistributedDataParallel. Nothing here knows of the emulator or of Cinch:

    emulator/torch/run -n 4 --hosts 2 --link 100mbit --cinch emulator/torch/example.py
"""
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 200

dist.init_process_group("nccl")
rank = dist.get_rank()
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))

torch.manual_seed(0)
teacher = nn.Linear(64, 10).cuda()
model = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)).cuda()
model = DistributedDataParallel(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

torch.cuda.manual_seed(1 + rank)  # every rank sees data of its own
start = time.perf_counter()
for step in range(1, STEPS + 1):
    inputs = torch.randn(64, 64, device="cuda")
    loss = nn.functional.cross_entropy(model(inputs), teacher(inputs).argmax(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0 and rank == 0:
        milliseconds = (time.perf_counter() - start) / 50 * 1e3
        print(f"step {step}: loss {loss.item():.4f}, {milliseconds:.0f} ms a step", flush=True)
        start = time.perf_counter()
dist.destroy_process_group()
