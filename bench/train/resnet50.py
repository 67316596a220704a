#!/usr/bin/env python3
"""Trains ResNet-50 on made-up images or on a folder of them, with DDP or FSDP2.

    torchrun --nproc-per-node 8 resnet50.py [--images FOLDER]

Prints a line of JSON every few steps and a last one with everything that was measured."""

import sys
from dataclasses import dataclass

import harness  # before torch: it says what to do where that is missing
import images
import torch
import torch.nn.functional as F
from torch import nn

EXPANSION = 4
RATE_PER_SAMPLE = 0.1 / 256


@dataclass(frozen=True)
class Shape:
    depths: tuple  # bottlenecks of each stage
    width: int
    pixels: int
    classes: int  # of the made-up images


SHAPES = {
    "full": Shape((3, 4, 6, 3), 64, 224, 1000),
    "tiny": Shape((1, 1, 1, 1), 8, 32, 10),
}


def convolution(n_in, n_out, side, stride=1):
    """Without what follows it but for the normalisation."""
    return nn.Sequential(
        nn.Conv2d(n_in, n_out, side, stride, side // 2, bias=False), nn.BatchNorm2d(n_out)
    )


class Bottleneck(nn.Module):
    def __init__(self, n_in, width, stride):
        super().__init__()
        n_out = EXPANSION * width
        self.path = nn.Sequential(
            convolution(n_in, width, 1),
            nn.ReLU(inplace=True),
            convolution(width, width, 3, stride),
            nn.ReLU(inplace=True),
            convolution(width, n_out, 1),
        )
        plain = n_in == n_out and stride == 1
        self.shortcut = nn.Identity() if plain else convolution(n_in, n_out, 1, stride)
        # Every block starts as its shortcut.
        nn.init.zeros_(self.path[-1][1].weight)

    def forward(self, x):
        return F.relu(self.path(x) + self.shortcut(x))


def stage(n_in, width, depth, stride):
    first = Bottleneck(n_in, width, stride)
    return nn.Sequential(
        first, *(Bottleneck(EXPANSION * width, width, 1) for _ in range(depth - 1))
    )


class ResNet(nn.Module):
    def __init__(self, shape, n_classes):
        super().__init__()
        widths = [shape.width << i for i in range(len(shape.depths))]
        n_ins = [shape.width, *(EXPANSION * width for width in widths)]
        self.stem = nn.Sequential(
            convolution(3, shape.width, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)
        )
        self.stages = nn.Sequential(
            *(
                stage(n_in, width, depth, 1 if i == 0 else 2)
                for i, (n_in, width, depth) in enumerate(zip(n_ins, widths, shape.depths))
            )
        )
        self.head = nn.Linear(n_ins[-1], n_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        return self.head(self.stages(self.stem(x)).mean((2, 3)))


class Classifier(harness.Task):
    unit = "images"

    def __init__(self, options, place):
        self._options, self._place = options, place
        self._shape = SHAPES[options.size]
        self.units = options.batch
        self.rate = RATE_PER_SAMPLE * options.batch * place.ranks
        self._data = self._open(options.images)

    def model(self):
        return ResNet(self._shape, self._data.n_classes)

    def blocks(self, model):
        return list(model.stages)

    def optimiser(self, parameters):
        return torch.optim.SGD(parameters, lr=self.rate, momentum=0.9, weight_decay=5e-5)

    def batch(self, step):
        return self._data.batch(self._options.batch, self._options.seed, self._place.rank, step)

    def held_out(self):
        return self._data.held_out(self._options.batch)

    def loss(self, outputs, targets):
        return F.cross_entropy(outputs, targets)

    def _open(self, folder):
        shape, device = self._shape, self._place.device
        if folder is None:
            return images.Synthetic(shape.classes, shape.pixels, device)
        return images.Folder(folder, shape.pixels, device)


def make_task(options, place):
    try:
        return Classifier(options, place)
    except images.ImageError as error:
        sys.exit(f"--images: {error}")


def main():
    parser = harness.make_parser(__doc__, batch=64)
    parser.add_argument("--images", help="FOLDER/<class>/<image> (default: made-up images)")
    harness.run(parser, make_task)


if __name__ == "__main__":
    main()
