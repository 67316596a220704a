"""Small models and synthetic data, the same in each run."""
import os

import torch
import torch.distributed as dist
from torch import nn

N_FEATURES = 64
N_CLASSES = 10
N_TOKENS = 128


def steps(usual):
    """How many steps a job makes: JOB_STEPS, where that is set."""
    return int(os.environ.get("JOB_STEPS", usual))


def seed():
    """Which of several runs of a job this is: JOB_SEED, else 0. Each has other weights and other data."""
    return int(os.environ.get("JOB_SEED", 0))


def generator_of(number):
    """Of a run's data."""
    return torch.Generator().manual_seed(1_000_000 * seed() + number)


def mlp(width=512, depth=1, last=N_CLASSES):
    """0.3 million parameters: DDP makes two buckets of them."""
    layers = [nn.Linear(N_FEATURES, width), nn.ReLU()]
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, last))


class Block(nn.Module):
    """A transformer's block, with attention over the whole sequence."""

    def __init__(self, width=128, heads=4):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        n, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(n, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(n, length, width))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class Transformer(nn.Module):
    def __init__(self, width=128, depth=2):
        super().__init__()
        self.embedding = nn.Embedding(N_TOKENS, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.head = nn.Linear(width, N_TOKENS)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def rank():
    return dist.get_rank() if dist.is_initialized() else 0


def batches(steps, device, size=32, part=0, same=False):
    """(inputs, classes) of each step, other ones on each rank, or the `same`; a linear teacher chose the classes."""
    teacher = torch.randn(N_FEATURES, N_CLASSES, generator=torch.Generator().manual_seed(7))
    generator = generator_of(1000 * part + 100 + (0 if same else rank()))
    for _ in range(steps):
        inputs = torch.randn(size, N_FEATURES, generator=generator)
        yield inputs.to(device), (inputs @ teacher).argmax(1).to(device)


def texts(steps, device, size=4, length=32, part=0, same=False, meaningless=False):
    """(tokens, next tokens) of each step: each text counts up in steps of its own. `same`: on all ranks."""
    generator = generator_of(1000 * part + 200 + (0 if same else rank()))
    for _ in range(steps):
        first = torch.randint(N_TOKENS, (size, 1), generator=generator)
        stride = torch.randint(1, 5, (size, 1), generator=generator)
        tokens = (first + stride * torch.arange(length + 1)) % N_TOKENS
        if meaningless:
            tokens = torch.randint(N_TOKENS, (size, length + 1), generator=generator)
        yield tokens[:, :-1].to(device), tokens[:, 1:].to(device)


def text_loss(logits, wanted):
    return nn.functional.cross_entropy(logits.flatten(0, 1).float(), wanted.flatten())
