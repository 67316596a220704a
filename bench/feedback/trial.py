"""One training run with simulated ranks, and what is measured of it."""

import dataclasses
import json
import math
import time
from dataclasses import dataclass

import numpy as np

from feedback.codec import Coding, Reduction
from learning import optimiser
from learning.tasks import TASKS, batches

_MEASURE_EVERY = 10  # steps
_SMOOTHING = 0.9
_SMOOTH_EVERY = 8  # values: averages over time of a part of the gradient tell as much as of all


@dataclass(frozen=True)
class Trial:
    """Everything that a run depends on. Without a codec the gradients are averaged as they are."""

    task: str
    steps: int
    seed: int
    codec: str | None = None
    gain: float = 0.0
    decay: float = 1.0
    residual: str = "fp32"
    gradient: str = "fp32"
    ranks: int = 4
    optimiser: str | None = None  # the task's
    beta2: float = 0.99
    rate: float = 1.0  # times the task's
    clip: float | None = None
    exact: int = 0  # steps before compression begins
    scattered: bool = False  # the gradients are reduced into shards, which are gathered as they are

    def key(self):
        return json.dumps(dataclasses.asdict(self), sort_keys=True)


class Figures:
    """Errors of the reduced gradient, over the steps that are measured.

    nmse  |out - exact|^2 / |exact|^2, by step
    lp    the same after a moving average of both: what momentum sees
    v     |out|^2 / |exact|^2: what Adam's second moment sees
    residual_ratio  |e| / |g| of a rank, stage 1
    """

    def __init__(self, count):
        self._smooth_error = np.zeros(len(range(0, count, _SMOOTH_EVERY)), np.float32)
        self._smooth_exact = np.zeros_like(self._smooth_error)
        self._sums = dict.fromkeys(("nmse", "lp", "v", "residual_ratio"), 0.0)
        self._n = 0

    def add(self, step, exact, out, residual_ratio):
        """`residual_ratio` is asked for |e|/|g| where the step is measured."""
        part, exact_part = out[::_SMOOTH_EVERY], exact[::_SMOOTH_EVERY]
        _smooth(self._smooth_error, part - exact_part)
        _smooth(self._smooth_exact, exact_part)
        if step % _MEASURE_EVERY == _MEASURE_EVERY - 1:
            self._n += 1
            power = _power(exact)
            self._sums["nmse"] += _power(out - exact) / power
            self._sums["lp"] += _power(self._smooth_error) / _power(self._smooth_exact)
            self._sums["v"] += _power(out) / power
            self._sums["residual_ratio"] += residual_ratio()

    def means(self):
        return {name: round(total / max(1, self._n), 5) for name, total in self._sums.items()}


def run(trial, data, library):
    """The trial as a JSON object, with its figures. `data` is the task's."""
    task = TASKS[trial.task]
    model = task.model(trial.ranks, trial.seed)
    started = time.process_time()
    figures = {}
    if trial.codec is None:
        _train(trial, task, data, model, lambda step, exact: exact)
    else:
        figures = _train_compressed(trial, task, data, model, library)
    loss = model.loss(*data.held_out)
    return dataclasses.asdict(trial) | {
        "loss": round(loss, 6) if math.isfinite(loss) else None,
        "parameters": len(model.parameters),
        **figures,
        "seconds": round(time.process_time() - started, 1),
    }


def _train_compressed(trial, task, data, model, library):
    figures = Figures(len(model.parameters))
    coding = Coding(trial.codec, trial.gain, trial.decay, trial.residual, trial.gradient,
                    trial.scattered)
    with Reduction(library, coding, trial.ranks, len(model.parameters)) as reduction:

        def residual_ratio():
            power = sum(map(_power, model.gradients)) / trial.ranks
            return math.sqrt(reduction.residual_power() / power)

        def reduce(step, exact):
            if step < trial.exact:
                return exact
            out = reduction.average(model.gradients)
            figures.add(step, exact, out, residual_ratio)
            return out

        _train(trial, task, data, model, reduce)
        return figures.means() | {"bits": round(reduction.bits_per_value(), 4)}


def _train(trial, task, data, model, reduce):
    # The samples of a step are as many for any number of ranks.
    batch = 4 * task.batch // trial.ranks
    name = trial.optimiser or task.optimiser
    update = optimiser.make(name, len(model.parameters), task.decay, trial.beta2).update
    for step in range(trial.steps):
        model.step(*batches(data, trial.seed, step, range(trial.ranks), batch))
        gradient = reduce(step, model.gradients.mean(0))
        if trial.clip:
            optimiser.clip(gradient, trial.clip)
        rate = optimiser.rate_at(step, trial.steps, trial.rate * task.rate)
        update(model.parameters, gradient, rate)


def _smooth(average, values):
    average *= _SMOOTHING
    average += (1 - _SMOOTHING) * values


def _power(values):
    return float(np.dot(values, values))
