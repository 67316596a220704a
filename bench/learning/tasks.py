"""What is learned: data, model, loss and hyperparameters. Rates were chosen without compression."""

import glob
import importlib.util
import os
from dataclasses import dataclass, replace
from typing import Callable

import numpy as np

from learning import layers, losses
from learning.model import Model

SYMBOLS = 128  # of text: ASCII; all other bytes are the last symbol
_BLOCK, _HOLD_OUT_EVERY = 4096, 16
_HELP = "/usr/share/cmake*/Help/**/*.rst"


@dataclass(frozen=True)
class Task:
    name: str
    data: Callable  # () -> Samples or Text
    network: Callable  # () -> a layer
    loss: Callable
    batch: int  # samples per rank
    optimiser: str
    rate: float
    decay: float = 0.0  # of the weights

    def model(self, ranks, seed):
        return Model(self.network(), self.loss, ranks, seed)


class Samples:
    """A table of samples, of which a third is held out."""

    def __init__(self, inputs, targets):
        order = np.random.default_rng(0).permutation(len(inputs))
        held = len(inputs) // 3
        self._inputs, self._targets = inputs[order[held:]], targets[order[held:]]
        self.held_out = inputs[order[:held]], targets[order[:held]]

    def batch(self, random, size):
        chosen = random.integers(len(self._inputs), size=size)
        return self._inputs[chosen], self._targets[chosen]


class Text:
    """Windows of a text, of which every sixteenth block is held out. The target is the symbol after
    the window, or with `every` the symbol after each of the window's."""

    def __init__(self, context, every=False, held_out=8192):
        symbols = np.minimum(_help_text(), SYMBOLS - 1)
        blocks = symbols[: len(symbols) // _BLOCK * _BLOCK].reshape(-1, _BLOCK)
        is_held = np.arange(len(blocks)) % _HOLD_OUT_EVERY == _HOLD_OUT_EVERY - 1
        self._context, self._every = context, every
        self._training = blocks[~is_held]
        self.held_out = self._windows(blocks[is_held], np.random.default_rng(0), held_out)

    def batch(self, random, size):
        return self._windows(self._training, random, size)

    def _windows(self, blocks, random, size):
        block = random.integers(len(blocks), size=(size, 1))
        first = random.integers(_BLOCK - self._context, size=(size, 1))
        windows = blocks[block, first + np.arange(self._context + 1)].astype(np.int64)
        return windows[:, :-1], windows[:, 1:] if self._every else windows[:, -1]


def batches(data, seed, step, ranks, size):
    """The batches of these ranks, which depend on nothing but the arguments."""
    parts = [data.batch(np.random.default_rng([seed, 1, step, rank]), size) for rank in ranks]
    return tuple(np.stack(arrays) for arrays in zip(*parts))


def _help_text():
    """CMake's help, as examples/train_lm reads it."""
    paths = sorted(glob.glob(_HELP, recursive=True))
    if not paths:
        raise FileNotFoundError(f"no text to learn from: {_HELP}")
    return np.concatenate([np.fromfile(path, np.uint8) for path in paths])


def _table(name, **options):
    """A file of numbers that scikit-learn bundles, read without scikit-learn, whose import takes
    longer than a small model's training."""
    package = importlib.util.find_spec("sklearn")
    if not package:
        raise FileNotFoundError("scikit-learn is not installed, whose tables are learned from")
    path = os.path.join(os.path.dirname(package.origin), "datasets", "data", name)
    return np.loadtxt(path, np.float32, **options)


def _digits():
    table = _table("digits.csv.gz", delimiter=",")
    return Samples(table[:, :-1].reshape(-1, 8, 8, 1) / 16, table[:, -1].astype(np.int64))


def _diabetes():
    inputs, targets = _table("diabetes_data_raw.csv.gz"), _table("diabetes_target.csv.gz")
    return Samples(*((table - table.mean(0)) / table.std(0) for table in (inputs, targets)))


def _byte_model():
    return layers.Sequence(
        layers.Embedding(SYMBOLS, 16, 24),
        layers.Flatten(),
        layers.Dense(16 * 24, 256),
        layers.Relu(),
        layers.Dense(256, 256),
        layers.Relu(),
        layers.Dense(256, SYMBOLS, 1 / 16),
    )


def _attention_model(width=64, heads=4, depth=2, context=32):
    blocks = []
    for _ in range(depth):
        blocks.append(layers.Residual(layers.LayerNorm(width), layers.Attention(width, heads)))
        blocks.append(
            layers.Residual(
                layers.LayerNorm(width),
                layers.Dense(width, 4 * width),
                layers.Relu(),
                layers.Dense(4 * width, width, 0.25 * width**-0.5),
            )
        )
    return layers.Sequence(
        layers.Embedding(SYMBOLS, context, width),
        *blocks,
        layers.LayerNorm(width),
        layers.Dense(width, SYMBOLS, width**-0.5),
    )


def _convolution_model():
    return layers.Sequence(
        layers.Convolution(1, 16),
        layers.Relu(),
        layers.Convolution(16, 32, stride=2),
        layers.Relu(),
        layers.Flatten(),
        layers.Dense(4 * 4 * 32, 128),
        layers.Relu(),
        layers.Dense(128, 10, 128**-0.5),
    )


def _table_model():
    return layers.Sequence(
        layers.Dense(10, 256),
        layers.Relu(),
        layers.Dense(256, 256),
        layers.Relu(),
        layers.Dense(256, 1, 1 / 16),
    )


def _tasks():
    """The three tasks of bench/training, then two more models. The small data sets need so much
    decay of weights that the held-out loss depends on what is learned, and less on the order of
    batches."""
    yield Task(
        name="lm",
        data=lambda: Text(16),
        network=_byte_model,
        loss=losses.cross_entropy,
        batch=32,
        optimiser="adam",
        rate=8e-3,
    )
    digits = Task(
        name="digits",
        data=_digits,
        network=_convolution_model,
        loss=losses.cross_entropy,
        batch=16,
        optimiser="momentum",
        rate=0.05,
        decay=0.3,
    )
    yield digits
    yield Task(
        name="table",
        data=_diabetes,
        network=_table_model,
        loss=losses.half_square,
        batch=16,
        optimiser="momentum",
        rate=0.02,
        decay=0.5,
    )
    yield Task(
        name="attention",
        data=lambda: Text(32, every=True, held_out=512),
        network=_attention_model,
        loss=losses.cross_entropy,
        batch=4,
        optimiser="adam",
        rate=6e-3,
    )
    yield replace(digits, name="convolution", optimiser="adam", rate=2e-3, decay=3.0)


TASKS = {task.name: task for task in _tasks()}
