#!/usr/bin/env python3
"""Trains a GPT of GPT-2 small's shape (124 million parameters) on text, with DDP or FSDP2.

    torchrun --nproc-per-node 8 gpt.py --text FILE

Tokens are the text's own commonest words. Prints a line of JSON every few steps and a last one with
everything that was measured."""

import sys
from dataclasses import dataclass

import harness  # before torch: it says what to do where that is missing
import torch
import torch.nn.functional as F
from torch import nn

import text


@dataclass(frozen=True)
class Shape:
    layers: int
    heads: int
    width: int
    context: int
    vocabulary: int
    text: int  # characters that are read


SHAPES = {
    "full": Shape(12, 12, 768, 1024, 50257, 16 << 20),
    "tiny": Shape(2, 2, 64, 64, 1024, 1 << 19),
}
RATES = {"full": 6e-4, "tiny": 3e-3}
HELD_OUT_BATCHES = 4


class Block(nn.Module):
    """Attention and a perceptron, each normalised first and added to what came in."""

    def __init__(self, shape):
        super().__init__()
        self.heads = shape.heads
        self.norm1, self.norm2 = nn.LayerNorm(shape.width), nn.LayerNorm(shape.width)
        self.qkv = nn.Linear(shape.width, 3 * shape.width)
        self.out = nn.Linear(shape.width, shape.width)
        self.up = nn.Linear(shape.width, 4 * shape.width)
        self.down = nn.Linear(4 * shape.width, shape.width)

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))

    def attend(self, x):
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.qkv(x).chunk(3, dim=-1)
        )
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(-2))


class Gpt(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.tokens = nn.Embedding(shape.vocabulary, shape.width)
        self.places = nn.Embedding(shape.context, shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        self.apply(start)
        for block in self.blocks:
            # Each of the 2 x layers sums adds to the variance of the residual stream.
            for linear in (block.out, block.down):
                nn.init.normal_(linear.weight, std=0.02 / (2 * shape.layers) ** 0.5)

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.tokens(tokens) + self.places(places)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def start(module):
    if isinstance(module, (nn.Linear, nn.Embedding)):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)


class LanguageModel(harness.Task):
    unit = "tokens"

    def __init__(self, options, place):
        self._options, self._place = options, place
        self._shape = SHAPES[options.size]
        self.units = options.batch * self._shape.context
        self.rate = RATES[options.size]
        self._train, self._rest = split(read_tokens(options.text, self._shape), self._shape)

    def model(self):
        return Gpt(self._shape)

    def blocks(self, model):
        return list(model.blocks)

    def optimiser(self, parameters):
        return torch.optim.AdamW(parameters, lr=self.rate, betas=(0.9, 0.95), weight_decay=0.1)

    def batch(self, step):
        source = harness.generator("cpu", self._options.seed, self._place.rank, step)
        return self._windows(self._train, source)

    def held_out(self):
        for i in range(HELD_OUT_BATCHES):
            yield self._windows(self._rest, harness.generator("cpu", "held out", i))

    def loss(self, outputs, targets):
        return F.cross_entropy(outputs.flatten(0, 1), targets.flatten())

    def _windows(self, tokens, source):
        context = self._shape.context
        starts = torch.randint(len(tokens) - context, (self._options.batch,), generator=source)
        rows = torch.stack([tokens[i : i + context + 1] for i in starts.tolist()])
        rows = rows.long().to(self._place.device)
        return rows[:, :-1], rows[:, 1:]


def read_tokens(path, shape):
    known = text.library_text(shape.text) if path is None else text.read(path, shape.text)
    pieces = text.pieces_of(known)
    if not pieces:
        raise text.TextError("the text is empty")
    tokens = text.encode(pieces, text.vocabulary_of(pieces, shape.vocabulary))
    return torch.frombuffer(tokens, dtype=torch.int32)


def split(tokens, shape):
    """(to train on, held out): the last sixteenth is never trained on."""
    cut = len(tokens) - len(tokens) // 16
    if len(tokens) - cut <= shape.context:
        raise text.TextError(
            f"a text of {len(tokens)} tokens is too short: {16 * (shape.context + 1)} are needed"
        )
    return tokens[:cut], tokens[cut:]


def make_task(options, place):
    try:
        return LanguageModel(options, place)
    except text.TextError as error:
        sys.exit(f"--text: {error}")


def main():
    parser = harness.make_parser(__doc__, batch=8)
    parser.add_argument(
        "--text", help="file to learn from (default: the sources of Python's standard library)"
    )
    harness.run(parser, make_task)


if __name__ == "__main__":
    main()
