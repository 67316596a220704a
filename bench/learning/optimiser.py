"""Optimisers on flat vectors, and the rate over a run."""

import math

import numpy as np


def rate_at(step, steps, peak):
    """Linear warm-up over the first 5 %, then half a cosine down to zero."""
    warmup = max(1, steps // 20)
    if step < warmup:
        return peak * (step + 1) / warmup
    return peak * 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup)))


class Adam:
    """With decoupled weight decay."""

    def __init__(self, count, beta2=0.99, decay=0.0, beta1=0.9, epsilon=1e-8):
        self._betas = beta1, beta2
        self._decay, self._epsilon = decay, epsilon
        self._mean = np.zeros(count, np.float32)
        self._square = np.zeros(count, np.float32)
        self._scratch = np.empty(count, np.float32)
        self._updates = 0

    def update(self, parameters, gradient, rate):
        beta1, beta2 = self._betas
        self._updates += 1
        scratch = self._scratch
        np.multiply(gradient, 1 - beta1, out=scratch)
        self._mean *= beta1
        self._mean += scratch
        np.square(gradient, out=scratch)
        scratch *= 1 - beta2
        self._square *= beta2
        self._square += scratch
        np.multiply(self._square, 1 / (1 - beta2**self._updates), out=scratch)
        np.sqrt(scratch, out=scratch)
        scratch += self._epsilon
        np.divide(self._mean, scratch, out=scratch)
        scratch *= rate / (1 - beta1**self._updates)
        if self._decay:
            parameters *= 1 - rate * self._decay
        parameters -= scratch


class Momentum:
    """Stochastic gradient descent with momentum .9."""

    def __init__(self, count, decay=0.0):
        self._decay = decay
        self._mean = np.zeros(count, np.float32)

    def update(self, parameters, gradient, rate):
        self._mean *= 0.9
        self._mean += gradient
        if self._decay:
            parameters *= 1 - rate * self._decay
        parameters -= rate * self._mean


def make(name, count, decay, beta2=0.99):
    return Momentum(count, decay) if name == "momentum" else Adam(count, beta2, decay)


def clip(gradient, limit):
    """Scales `gradient` down to the norm `limit` where it is longer."""
    norm = math.sqrt(float(np.dot(gradient, gradient)))
    if norm > limit:
        gradient *= limit / norm
