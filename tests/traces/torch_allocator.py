"""Addresses as on a GPU, where a freed block is the next one of its size: a CPU's allocator mixes
all of a process's tensors."""

import torch
from torch.distributed.fsdp._fully_shard import _fsdp_collectives


def users(block):
    return torch._C._storage_Use_Count(block.untyped_storage()._cdata)


class CachingAllocator:
    def __init__(self):
        self.blocks = {}  # of each size: (block, its users when it is free)

    def allocate(self, size, dtype, device):
        blocks = self.blocks.setdefault((*size, dtype), [])
        for block, when_free in blocks:
            if users(block) == when_free:
                return block.detach()
        block = torch.zeros(*size, dtype=dtype, device=device)
        blocks.append((block, users(block)))
        return block.detach()


def use_caching_allocator():
    """For what FSDP2 allocates for each call."""
    allocator = CachingAllocator()
    _fsdp_collectives.DefaultAllocMixin.allocate = (
        lambda _, size, *, dtype, device: allocator.allocate(size, dtype, device))
