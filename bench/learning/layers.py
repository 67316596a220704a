"""Layers with their derivatives. Values have the rank as first axis: all simulated ranks pass
through the layers at once, with the same parameters, and get gradients of their own."""

import numpy as np


class Layer:
    """forward() keeps what backward() needs; backward() takes the loss's derivative by the output,
    fills the gradients and returns the derivative by the input."""

    shapes = ()  # of the parameters

    def bind(self, parameters, gradients):
        """Arrays of those shapes; gradients have the rank as first axis."""
        self.parameters, self.gradients = parameters, gradients

    def start(self, random):
        """Fills the parameters."""


class Dense(Layer):
    """y = x W + b on the last axis."""

    def __init__(self, n_in, n_out, scale=None):
        self.shapes = ((n_in, n_out), (n_out,))
        self._scale = np.sqrt(2 / n_in) if scale is None else scale

    def start(self, random):
        weights, bias = self.parameters
        weights[:] = self._scale * random.standard_normal(weights.shape)
        bias[:] = 0

    def forward(self, x):
        self._x = x
        weights, bias = self.parameters
        y = x.reshape(-1, len(weights)) @ weights
        y += bias
        return y.reshape(*x.shape[:-1], -1)

    def backward(self, dy):
        weights, _ = self.parameters
        d_weights, d_bias = self.gradients
        by_rank = dy.reshape(len(dy), -1, weights.shape[1])
        x = self._x.reshape(len(dy), -1, weights.shape[0])
        np.matmul(x.transpose(0, 2, 1), by_rank, out=d_weights)
        by_rank.sum(1, out=d_bias)
        return (dy.reshape(-1, weights.shape[1]) @ weights.T).reshape(self._x.shape)


class Embedding(Layer):
    """Symbols -> vectors, with a vector per position added."""

    def __init__(self, n_symbols, n_positions, width):
        self.shapes = ((n_symbols, width), (n_positions, width))

    def start(self, random):
        for table in self.parameters:
            table[:] = 0.1 * random.standard_normal(table.shape)

    def forward(self, symbols):
        self._symbols = symbols
        vectors, positions = self.parameters
        return vectors[symbols] + positions

    def backward(self, dy):
        ranks, width = len(dy), dy.shape[-1]
        n_symbols = len(self.parameters[0])
        hot = self._symbols.reshape(ranks, 1, -1) == np.arange(n_symbols)[:, None]
        np.matmul(hot.astype(np.float32), dy.reshape(ranks, -1, width), out=self.gradients[0])
        dy.sum(1, out=self.gradients[1])


class Relu(Layer):
    def forward(self, x):
        self._y = np.maximum(x, 0)
        return self._y

    def backward(self, dy):
        return dy * (self._y > 0)


class Flatten(Layer):
    """Joins all axes of a sample."""

    def forward(self, x):
        self._shape = x.shape
        return x.reshape(*x.shape[:2], -1)

    def backward(self, dy):
        return dy.reshape(self._shape)


class LayerNorm(Layer):
    def __init__(self, width):
        self.shapes = ((width,), (width,))

    def start(self, random):
        gain, bias = self.parameters
        gain[:] = 1
        bias[:] = 0

    def forward(self, x):
        gain, bias = self.parameters
        centred = x - x.mean(-1, keepdims=True)
        self._inverse = 1 / np.sqrt(np.square(centred).mean(-1, keepdims=True) + 1e-5)
        self._normal = centred * self._inverse
        return self._normal * gain + bias

    def backward(self, dy):
        inner = tuple(range(1, dy.ndim - 1))
        (dy * self._normal).sum(inner, out=self.gradients[0])
        dy.sum(inner, out=self.gradients[1])
        d_normal = dy * self.parameters[0]
        along = (d_normal * self._normal).mean(-1, keepdims=True)
        return self._inverse * (d_normal - d_normal.mean(-1, keepdims=True) - self._normal * along)


class Composite(Layer):
    """Layers whose parameters follow one another; subclasses say how they are connected."""

    def __init__(self, *layers):
        self.layers = layers
        self.shapes = tuple(shape for layer in layers for shape in layer.shapes)

    def start(self, random):
        for layer in self.layers:
            layer.start(random)

    def bind(self, parameters, gradients):
        first = 0
        for layer in self.layers:
            last = first + len(layer.shapes)
            layer.bind(parameters[first:last], gradients[first:last])
            first = last


class Sequence(Composite):
    def forward(self, x):
        for layer in self.layers:
            x = layer.forward(x)
        return x

    def backward(self, dy):
        for layer in reversed(self.layers):
            dy = layer.backward(dy)
        return dy


class Residual(Sequence):
    """Adds its input to what its layers make of it."""

    def forward(self, x):
        return x + super().forward(x)

    def backward(self, dy):
        return dy + super().backward(dy)


class Attention(Composite):
    """Causal self-attention; the axes are rank, sample, position, feature."""

    def __init__(self, width, heads):
        super().__init__(
            Dense(width, 3 * width, width**-0.5), Dense(width, width, 0.5 * width**-0.5)
        )
        self._heads = heads
        self._scale = np.float32((width // heads) ** -0.5)

    def forward(self, x):
        inputs, outputs = self.layers
        self._parts = query, key, value = self._split(inputs.forward(x))
        scores = query @ key.swapaxes(-1, -2) * self._scale
        hidden = np.triu(np.ones(scores.shape[-2:], bool), 1)
        scores[..., hidden] = -np.inf
        self._weights = _softmax(scores)
        return outputs.forward(self._join(self._weights @ value))

    def backward(self, dy):
        inputs, outputs = self.layers
        query, key, value = self._parts
        d_mixed = self._split(outputs.backward(dy), 1)[0]
        d_weights = d_mixed @ value.swapaxes(-1, -2)
        along = (d_weights * self._weights).sum(-1, keepdims=True)
        d_scores = self._weights * (d_weights - along) * self._scale
        parts = (
            d_scores @ key,
            d_scores.swapaxes(-1, -2) @ query,
            self._weights.swapaxes(-1, -2) @ d_mixed,
        )
        return inputs.backward(np.concatenate([self._join(part) for part in parts], -1))

    def _split(self, x, n_parts=3):
        """(.., position, feature) -> by part: (.., head, position, feature of the head)."""
        parts = x.reshape(*x.shape[:-1], n_parts, self._heads, -1)
        return [parts[..., part, :, :].swapaxes(-2, -3) for part in range(n_parts)]

    def _join(self, heads):
        x = heads.swapaxes(-2, -3)
        return x.reshape(*x.shape[:-2], -1)


class Convolution(Composite):
    """3 x 3 with a margin of zeros; the axes are rank, sample, row, column, channel."""

    def __init__(self, n_in, n_out, stride=1):
        super().__init__(Dense(9 * n_in, n_out))
        self._stride = stride

    def forward(self, x):
        self._shape = x.shape
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1), (0, 0)))
        return self.layers[0].forward(np.concatenate([padded[at] for at in self._windows()], -1))

    def backward(self, dy):
        patches = np.split(self.layers[0].backward(dy), 9, -1)
        ranks, samples, rows, columns, channels = self._shape
        padded = np.zeros((ranks, samples, rows + 2, columns + 2, channels), np.float32)
        for at, patch in zip(self._windows(), patches):
            padded[at] += patch
        return padded[:, :, 1:-1, 1:-1]

    def _windows(self):
        rows, columns = self._shape[2:4]
        for row in range(3):
            for column in range(3):
                yield np.s_[
                    :, :, row : row + rows : self._stride, column : column + columns : self._stride
                ]


def _softmax(scores):
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return weights
