"""Losses by rank, with their derivatives by the model's output. The mean is over a rank's own
samples."""

import numpy as np


def cross_entropy(logits, classes):
    """(nats per sample by rank, derivative); `classes` has the shape of the logits but for their
    last axis."""
    shifted = logits - logits.max(-1, keepdims=True)
    powers = np.exp(shifted)
    totals = powers.sum(-1, keepdims=True)
    at = classes[..., None]
    losses = np.log(totals) - np.take_along_axis(shifted, at, -1)
    slope = powers / totals
    np.put_along_axis(slope, at, np.take_along_axis(slope, at, -1) - 1, -1)
    samples = classes[0].size
    return losses.reshape(len(logits), -1).mean(1), slope / np.float32(samples)


def half_square(outputs, targets):
    """Half the mean squared error; `outputs` has a last axis of one."""
    difference = outputs - targets[..., None]
    samples = targets[0].size
    losses = 0.5 * np.square(difference).reshape(len(outputs), -1).mean(1)
    return losses, difference / np.float32(samples)
