"""A model whose parameters lie in one flat vector, as in a data-parallel job's buckets."""

import numpy as np


class Model:
    def __init__(self, network, loss, ranks, seed):
        self._network = network
        self._loss = loss
        self.shapes = network.shapes  # of the parameters, in order
        self.sizes = [int(np.prod(shape)) for shape in network.shapes]
        self.parameters = np.empty(sum(self.sizes), np.float32)
        self.gradients = np.empty((ranks, sum(self.sizes)), np.float32)
        network.bind(list(self._views(self.parameters)), list(self._views(self.gradients)))
        network.start(np.random.default_rng([seed, 0]))

    def step(self, inputs, targets):
        """Fills `gradients` with each rank's own; returns the mean loss."""
        losses, slope = self._loss(self._network.forward(inputs), targets)
        self._network.backward(slope)
        return float(losses.mean())

    def loss(self, inputs, targets):
        """Of one rank's samples."""
        return float(self._loss(self._network.forward(inputs[None]), targets[None])[0][0])

    def _views(self, flat):
        """Each parameter's part of the last axis, in its own shape."""
        first = 0
        for shape, size in zip(self.shapes, self.sizes):
            yield flat[..., first : first + size].reshape(*flat.shape[:-1], *shape)
            first += size
