"""Parameters of real models, in the order in which the modules declare them."""

import math
from typing import NamedTuple


class Parameter(NamedTuple):
    layer: str
    shape: tuple
    is_norm: bool = False

    @property
    def elements(self):
        return math.prod(self.shape)


def convolution(layer, n_out, n_in, size):
    """Without bias, followed by batch normalisation."""
    yield Parameter(layer, (n_out, n_in, size, size))
    yield Parameter(layer, (n_out,), is_norm=True)
    yield Parameter(layer, (n_out,))


def bottleneck(layer, n_in, width, has_downsample):
    yield from convolution(f"{layer}.1", width, n_in, 1)
    yield from convolution(f"{layer}.2", width, width, 3)
    yield from convolution(f"{layer}.3", 4 * width, width, 1)
    if has_downsample:
        yield from convolution(f"{layer}.downsample", 4 * width, n_in, 1)


def resnet50():
    parameters = [*convolution("stem", 64, 3, 7)]
    n_in = 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            parameters += bottleneck(f"{width}.{block}", n_in, width, block == 0)
            n_in = 4 * width
    return parameters + [Parameter("fc", (1000, 2048)), Parameter("fc", (1000,))]


def linear(layer, n_in, n_out):
    return [Parameter(layer, (n_in, n_out)), Parameter(layer, (n_out,))]


def layer_norm(layer, width):
    return [Parameter(layer, (width,), is_norm=True), Parameter(layer, (width,))]


def gpt_block(layer, width):
    return [*layer_norm(layer, width), *linear(layer, width, 3 * width),
            *linear(layer, width, width), *layer_norm(layer, width),
            *linear(layer, width, 4 * width), *linear(layer, 4 * width, width)]


def gpt(width=768, layers=12, vocabulary=50257, context=1024):
    """GPT-2 124M unless told otherwise; the head is the embedding."""
    blocks = [gpt_block(f"block{i}", width) for i in range(layers)]
    return [Parameter("embedding", (vocabulary, width)), Parameter("position", (context, width)),
            *sum(blocks, []), *layer_norm("norm", width)]


def elements(parameters):
    return sum(parameter.elements for parameter in parameters)
