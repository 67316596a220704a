"""The models of the benchmarks: derivatives beside differences, ranks beside one another, data."""

import unittest

from support import main, skip_without_packages

skip_without_packages()

import numpy as np  # noqa: E402

from learning import layers, losses, optimiser  # noqa: E402
from learning.model import Model  # noqa: E402
from learning.tasks import TASKS, Samples, Text, batches  # noqa: E402

RANKS = 3
STEP = 1e-2


def random_direction(random, count):
    direction = random.standard_normal(count).astype(np.float32)
    return direction / np.linalg.norm(direction)


class DerivativeTest(unittest.TestCase):
    def check(self, network, loss, inputs, targets):
        """Along the gradient and two directions of chance."""
        random = np.random.default_rng(2)
        model = Model(network, loss, RANKS, seed=1)
        # What starts as 0 or 1 must not stay at a place where a wrong derivative cannot be seen.
        model.parameters += 0.1 * random.standard_normal(len(model.parameters)).astype(np.float32)
        start = model.parameters.copy()
        model.step(inputs, targets)
        gradient = model.gradients.mean(0)
        size = np.linalg.norm(gradient)
        for direction in (
            gradient / size,
            random_direction(random, len(start)) + gradient / size,
            random_direction(random, len(start)) - gradient / size,
        ):
            model.parameters[:] = start + STEP * direction
            above = model.step(inputs, targets)
            model.parameters[:] = start - STEP * direction
            below = model.step(inputs, targets)
            expected = float(gradient @ direction)
            self.assertAlmostEqual((above - below) / (2 * STEP) / expected, 1, delta=0.02)

    def numbers(self, *shape):
        return np.random.default_rng(3).standard_normal((RANKS, 5, *shape)).astype(np.float32)

    def classes(self, n_classes, *shape):
        return np.random.default_rng(4).integers(n_classes, size=(RANKS, 5, *shape))

    def test_dense(self):
        network = layers.Sequence(layers.Dense(6, 4), layers.Relu(), layers.Dense(4, 3))
        self.check(network, losses.cross_entropy, self.numbers(6), self.classes(3))

    def test_half_square(self):
        network = layers.Sequence(layers.Dense(6, 4), layers.Relu(), layers.Dense(4, 1))
        self.check(network, losses.half_square, self.numbers(6), self.numbers())

    def test_embedding(self):
        network = layers.Sequence(layers.Embedding(7, 4, 3), layers.Flatten(), layers.Dense(12, 7))
        self.check(network, losses.cross_entropy, self.classes(7, 4), self.classes(7))

    def test_convolution(self):
        for stride in (1, 2):
            with self.subTest(stride=stride):
                network = layers.Sequence(
                    layers.Convolution(2, 3),
                    layers.Relu(),
                    layers.Convolution(3, 4, stride),
                    layers.Flatten(),
                    layers.Dense(4 * (6 // stride) * (4 // stride), 5),
                )
                inputs = self.numbers(6, 4, 2)
                self.check(network, losses.cross_entropy, inputs, self.classes(5))

    def test_layer_norm_and_residual(self):
        network = layers.Sequence(
            layers.Dense(6, 8),
            layers.Residual(layers.LayerNorm(8), layers.Dense(8, 8)),
            layers.LayerNorm(8),
            layers.Dense(8, 3),
        )
        self.check(network, losses.cross_entropy, self.numbers(6), self.classes(3))

    def test_attention(self):
        network = layers.Sequence(
            layers.Embedding(7, 4, 6), layers.Attention(6, 2), layers.Dense(6, 7)
        )
        self.check(network, losses.cross_entropy, self.classes(7, 4), self.classes(7, 4))


class AttentionTest(unittest.TestCase):
    def test_no_position_sees_a_later_one(self):
        network = layers.Sequence(layers.Embedding(7, 6, 8), layers.Attention(8, 2))
        Model(network, None, 1, seed=1)
        symbols = np.arange(6)[None, None]
        changed = symbols.copy()
        changed[..., 4] = 0
        one, other = network.forward(symbols), network.forward(changed)
        np.testing.assert_array_equal(one[:, :, :4], other[:, :, :4])
        self.assertFalse(np.allclose(one[:, :, 4:], other[:, :, 4:]))


class TaskTest(unittest.TestCase):
    def test_ranks_together_are_as_ranks_alone(self):
        for task in TASKS.values():
            with self.subTest(task=task.name):
                data = task.data()
                together, alone = task.model(2, seed=1), task.model(1, seed=1)
                np.testing.assert_array_equal(together.parameters, alone.parameters)
                together.step(*batches(data, 1, 7, range(2), task.batch))
                for rank in range(2):
                    alone.step(*batches(data, 1, 7, [rank], task.batch))
                    difference = np.linalg.norm(together.gradients[rank] - alone.gradients[0])
                    self.assertLess(difference, 1e-5 * np.linalg.norm(alone.gradients[0]))

    def test_batches_depend_on_all_arguments(self):
        data = TASKS["table"].data()
        first = batches(data, 1, 2, [3], 8)[0]
        np.testing.assert_array_equal(first, batches(data, 1, 2, [3], 8)[0])
        for seed, step, rank in ((2, 2, 3), (1, 3, 3), (1, 2, 4)):
            self.assertFalse(np.array_equal(first, batches(data, seed, step, [rank], 8)[0]))

    def test_every_task_is_learned(self):
        for task in TASKS.values():
            with self.subTest(task=task.name):
                data, model = task.data(), task.model(2, seed=1)
                before = model.loss(*data.held_out)
                update = optimiser.make(task.optimiser, len(model.parameters), task.decay).update
                for step in range(20):
                    model.step(*batches(data, 1, step, range(2), task.batch))
                    update(model.parameters, model.gradients.mean(0), task.rate / 2)
                self.assertLess(model.loss(*data.held_out), 0.95 * before)


class DataTest(unittest.TestCase):
    def test_held_out_samples_are_never_drawn(self):
        numbers = np.arange(90)
        data = Samples(numbers, numbers)
        drawn, _ = data.batch(np.random.default_rng(1), 5000)
        self.assertEqual(len(data.held_out[0]), 30)
        self.assertEqual(set(drawn) | set(data.held_out[0]), set(numbers))
        self.assertFalse(set(drawn) & set(data.held_out[0]))

    def test_windows_are_followed_by_their_targets(self):
        one = Text(8, held_out=64).batch(np.random.default_rng(1), 64)
        every = Text(8, every=True, held_out=64).batch(np.random.default_rng(1), 64)
        np.testing.assert_array_equal(one[0], every[0])
        np.testing.assert_array_equal(one[1], every[1][:, -1])
        np.testing.assert_array_equal(every[0][:, 1:], every[1][:, :-1])


class OptimiserTest(unittest.TestCase):
    def test_adam_starts_with_the_rate_times_the_sign(self):
        parameters = np.zeros(3, np.float32)
        gradient = np.array([5, -0.01, 2], np.float32)
        optimiser.Adam(3).update(parameters, gradient, 0.1)
        np.testing.assert_allclose(parameters, [-0.1, 0.1, -0.1], rtol=1e-4)

    def test_adam_against_its_definition(self):
        random = np.random.default_rng(1)
        adam, parameters = optimiser.Adam(4, beta2=0.999, decay=0.1), np.ones(4, np.float32)
        mean, square, expected = np.zeros(4), np.zeros(4), np.ones(4)
        for step in range(1, 30):
            gradient = random.standard_normal(4).astype(np.float32)
            mean = 0.9 * mean + 0.1 * gradient
            square = 0.999 * square + 0.001 * np.square(gradient)
            expected *= 1 - 0.02 * 0.1
            corrected = np.sqrt(square / (1 - 0.999**step)) + 1e-8
            expected -= 0.02 * mean / (1 - 0.9**step) / corrected
            adam.update(parameters, gradient, 0.02)
        np.testing.assert_allclose(parameters, expected, rtol=1e-4)

    def test_momentum_with_decay(self):
        parameters = np.array([1.0], np.float32)
        momentum = optimiser.Momentum(1, decay=0.5)
        for _ in range(2):
            momentum.update(parameters, np.array([1.0], np.float32), 0.1)
        self.assertAlmostEqual(float(parameters[0]), (1 * 0.95 - 0.1) * 0.95 - 0.19, places=6)

    def test_rate_rises_then_falls_to_nothing(self):
        rates = [optimiser.rate_at(step, 100, 2.0) for step in range(100)]
        self.assertAlmostEqual(rates[4], 2.0)
        self.assertEqual(max(rates), 2.0)
        self.assertTrue(all(a < b for a, b in zip(rates[:5], rates[1:5])))
        self.assertTrue(all(a > b for a, b in zip(rates[5:], rates[6:])))
        self.assertLess(rates[-1], 0.002)

    def test_clip(self):
        for length, expected in ((5.0, 1.0), (0.5, 0.5)):
            gradient = np.array([0.6, 0.8], np.float32) * np.float32(length)
            optimiser.clip(gradient, 1.0)
            self.assertAlmostEqual(float(np.linalg.norm(gradient)), expected, places=6)


if __name__ == "__main__":
    main()
