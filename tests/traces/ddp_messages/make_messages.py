"""Writes what PyTorch DDP sends of six models through NCCL, from their architectures.

    make_messages.py    writes *.json beside itself, always the same

Not recorded: parameter shapes follow the published architectures, the order in which gradients
arrive is the reverse of registration with neighbours swapped here and there, and buckets are cut by
DDP's rule (1 MiB, then 25 MiB, each data type for itself).
"""

import itertools
import json
import math
import pathlib
import random

FIRST_CAP, CAP = 1 << 20, 25 << 20
FP32, BF16 = 4, 2  # bytes


class Parameter:
    def __init__(self, *shape, channels_last=False, element_bytes=FP32, frozen=False, arrives=None):
        self.shape = shape
        self.channels_last = channels_last
        self.element_bytes = element_bytes
        self.frozen = frozen  # DDP never sees it
        self.arrives = arrives  # "first" or "last" of the gradients, where not in turn
        self.elements = math.prod(shape)

    def strides(self):
        dims = list(reversed(range(len(self.shape))))
        if self.channels_last:
            dims = [1, *(d for d in dims if d > 1), 0]
        strides = [0] * len(self.shape)
        below = 1
        for d in dims:
            strides[d] = below
            below *= self.shape[d]
        return strides


def linear(outputs, inputs, bias=True, **kind):
    weight = Parameter(outputs, inputs, **kind)
    return [weight, Parameter(outputs, **kind)] if bias else [weight]


def norm(width, **kind):
    return [Parameter(width, **kind), Parameter(width, **kind)]


def embedding(entries, width, **kind):
    return [Parameter(entries, width, **kind)]


def resnet50():
    def block(inputs, width, has_shortcut):
        yield Parameter(width, inputs, 1, 1)
        yield from norm(width)
        yield Parameter(width, width, 3, 3)
        yield from norm(width)
        yield Parameter(4 * width, width, 1, 1)
        yield from norm(4 * width)
        if has_shortcut:
            yield Parameter(4 * width, inputs, 1, 1)
            yield from norm(4 * width)

    yield Parameter(64, 3, 7, 7)
    yield from norm(64)
    inputs = 64
    for width, n_blocks in (64, 3), (128, 4), (256, 6), (512, 3):
        for i in range(n_blocks):
            yield from block(inputs, width, i == 0)
            inputs = 4 * width
    yield from linear(1000, 2048)


def vit_b16():
    width = 768
    yield Parameter(1, 1, width)  # class token
    yield from [Parameter(width, 3, 16, 16), Parameter(width)]
    yield Parameter(1, 197, width)  # positions
    for _ in range(12):
        yield from norm(width)
        yield from linear(3 * width, width)
        yield from linear(width, width)
        yield from norm(width)
        yield from linear(4 * width, width)
        yield from linear(width, 4 * width)
    yield from norm(width)
    yield from linear(1000, width)


def gpt2():
    def transposed(inputs, outputs):
        return [Parameter(inputs, outputs), Parameter(outputs)]

    width = 768
    yield from embedding(50257, width, arrives="last")  # the head too
    yield from embedding(1024, width)
    for _ in range(12):
        yield from norm(width)
        yield from transposed(width, 3 * width)
        yield from transposed(width, width)
        yield from norm(width)
        yield from transposed(width, 4 * width)
        yield from transposed(4 * width, width)
    yield from norm(width)


def bert_large():
    width = 1024
    for entries in 30522, 512, 2:
        yield from embedding(entries, width)
    yield from norm(width)
    for _ in range(24):
        for _ in range(4):  # query, key, value, output
            yield from linear(width, width)
        yield from norm(width)
        yield from linear(4 * width, width)
        yield from linear(width, 4 * width)
        yield from norm(width)
    yield from linear(width, width)  # pooler


def llama():
    width, key_width, inner = 2048, 256, 5632
    yield from embedding(32000, width)
    for _ in range(22):
        for outputs, inputs in [(width, width), (key_width, width), (key_width, width),
                                (width, width), (inner, width), (inner, width), (width, inner)]:
            yield from linear(outputs, inputs, bias=False)
        yield from [Parameter(width), Parameter(width)]  # scales of the two norms
    yield Parameter(width)
    yield from linear(32000, width, bias=False)


def mixed():
    """Images, clips and text: tied, frozen, zero-dimensional and channels-last, in two types."""
    width = 512
    half = {"element_bytes": BF16}
    yield from [Parameter(arrives="first"), Parameter(arrives="first")]  # scale and bias of the loss
    yield from [Parameter(64, 3, 7, 7, channels_last=True), *norm(64)]
    for inputs, outputs in (64, 128), (128, 256), (256, width):
        yield from [Parameter(outputs, inputs, 3, 3, channels_last=True), *norm(outputs)]
        yield from [Parameter(outputs, outputs, 1, 1, channels_last=True), *norm(outputs)]
        yield Parameter(outputs, 1, 1)  # scale of the block
    yield from [Parameter(64, 3, 3, 7, 7, channels_last=True), Parameter(64)]
    yield from [Parameter(width, 64, 3, 3, 3, channels_last=True), Parameter(width)]
    yield from embedding(49408, width, arrives="last", **half)  # the head too: sent once
    yield Parameter(77, width, frozen=True)  # positions
    for i in range(12):
        yield from norm(width)
        yield from linear(3 * width, width, frozen=i < 2, **half)
        yield from linear(width, width, frozen=i < 2, **half)
        yield from norm(width)
        yield from linear(4 * width, width, **half)
        yield from linear(width, 4 * width, **half)
    yield from norm(width)


def arrival_order(parameters, seed):
    order = list(reversed(range(len(parameters))))
    chance = random.Random(seed)
    for i in range(1, len(order)):
        if chance.random() < 0.25:
            order[i - 1], order[i] = order[i], order[i - 1]
    turn = {"first": 0, None: 1, "last": 2}
    return sorted(order, key=lambda i: turn[parameters[i].arrives])


def buckets_of(parameters, order):
    full, filling, caps = [], {}, {}
    for i in order:
        kind = parameters[i].element_bytes
        bucket = filling.setdefault(kind, [])
        bucket.append(i)
        if sum(parameters[j].elements * kind for j in bucket) >= caps.get(kind, FIRST_CAP):
            caps[kind] = CAP
            full.append(filling.pop(kind))
    return full + list(filling.values())


def messages_of(model, seed):
    parameters = [parameter for parameter in model if not parameter.frozen]
    buckets = buckets_of(parameters, arrival_order(parameters, seed))
    return {
        "nParameters": len(parameters),
        "sizesAndStrides": [n for p in parameters for n in (*p.shape, *p.strides())],
        "bucketOrder": [*itertools.chain(*buckets), len(buckets)],
        "bucketSizes": [len(bucket) for bucket in buckets],
        "allReduceCounts": [sum(parameters[i].elements for i in b) for b in buckets],
        "shapes": [p.shape for p in parameters],
    }


def main():
    models = [resnet50, vit_b16, gpt2, bert_large, llama, mixed]
    for seed, model in enumerate(models):
        messages = messages_of(model(), seed)
        lines = [f'"{name}":{json.dumps(value, separators=(",", ":"))}'
                 for name, value in messages.items()]
        path = pathlib.Path(__file__).parent / f"{model.__name__}.json"
        path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
