#!/usr/bin/env python3
"""One rank of a small PyTorch DistributedDataParallel job, unmodified: NCCL, Adam, a fixed seed. Prints the
losses as JSON. It knows nothing of Cinch.

  ddp_look.py --rank R --ranks N --id-file PATH [--steps 40] [--out FILE.json]
"""

import argparse
import datetime
import json

import torch
import torch.distributed as dist


def make_model():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 1024),
                               torch.nn.GELU(), torch.nn.Linear(1024, 16)).cuda()


def batch_of(rank, step, teacher):
    generator = torch.Generator().manual_seed(1000003 * rank + step)
    inputs = torch.randn(128, 256, generator=generator).cuda()
    return inputs, (inputs @ teacher).argmax(dim=1)


def train(options):
    teacher = torch.randn(256, 16, generator=torch.Generator().manual_seed(7)).cuda()
    model = torch.nn.parallel.DistributedDataParallel(make_model(), device_ids=[0])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    losses = []
    for step in range(options.steps):
        inputs, labels = batch_of(options.rank, step, teacher)
        loss = torch.nn.functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    weights = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    return losses, weights.view(torch.int32).to(torch.int64).sum().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--id-file", required=True)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--out")
    options = parser.parse_args()

    torch.cuda.set_device(0)
    dist.init_process_group("nccl", init_method=f"file://{options.id_file}", rank=options.rank,
                            world_size=options.ranks, timeout=datetime.timedelta(seconds=60))
    losses, checksum = train(options)
    dist.destroy_process_group()
    result = json.dumps({"rank": options.rank, "losses": losses, "weights": checksum,
                         "nccl": list(torch.cuda.nccl.version())})
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            file.write(result)
    print(result)


if __name__ == "__main__":
    main()
