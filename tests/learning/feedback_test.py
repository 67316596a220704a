"""The study of error feedback: the codec behind it, one run, the matrix, and what its table says.

    feedback_test.py BUILD
"""

import contextlib
import io
import json
import os
import sys
import tempfile
import unittest
from dataclasses import replace
from unittest import mock

from support import main, skip_without_packages

skip_without_packages()

import numpy as np  # noqa: E402

from feedback import codec, matrix, study, summary, trial  # noqa: E402
from feedback.codec import Coding, Reduction  # noqa: E402
from learning.tasks import TASKS  # noqa: E402

BUILD = ""
COUNT = 5000


def power(values):
    return float(np.square(values.astype(np.float64)).sum())


class CodecTest(unittest.TestCase):
    def setUp(self):
        self.library = codec.load(BUILD)
        self.random = np.random.default_rng(1)

    def gradients(self, ranks=3):
        return self.random.standard_normal((ranks, COUNT)).astype(np.float32)

    def reduce(self, coding, gradients, times=1):
        """The mean of the results, the residual's power, bits per value."""
        total = np.zeros(COUNT)
        with Reduction(self.library, coding, len(gradients), COUNT) as reduction:
            for _ in range(times):
                total += reduction.average(gradients)
            return total / times, reduction.residual_power(), reduction.bits_per_value()

    def error(self, coding, gradients, times=1):
        exact = gradients.astype(np.float64).mean(0)
        return power(self.reduce(coding, gradients, times)[0] - exact) / power(exact)

    def test_unknown_codec(self):
        with self.assertRaisesRegex(ValueError, "q7"):
            Reduction(self.library, Coding("q7"), 2, COUNT)

    def test_more_bits_are_more_exact(self):
        errors = [self.error(Coding(name), self.gradients()) for name in ("q2", "q3", "q4", "q8")]
        self.assertEqual(errors, sorted(errors, reverse=True))
        self.assertLess(errors[-1], 1e-3)
        self.assertGreater(errors[0], 0.1)

    def test_any_number_of_ranks(self):
        for ranks in (1, 2, 5, 8):
            with self.subTest(ranks=ranks):
                self.assertLess(self.error(Coding("q8"), self.gradients(ranks)), 1e-3)

    def test_what_is_scattered_is_coded_once_and_not_by_its_owner(self):
        for ranks in (1, 2, 5, 8):
            with self.subTest(ranks=ranks):
                gradients = self.gradients(ranks)
                scattered = self.error(Coding("q4", scattered=True), gradients)
                whole = self.error(Coding("q4"), gradients)
                # Of so many ranks' codes all but one count, and the sum is not coded again.
                share = (ranks - 1) / (2 * ranks - 1)
                self.assertAlmostEqual(scattered / whole, share, delta=0.1)

    def test_bits_of_the_wire(self):
        bits = self.reduce(Coding("q4"), self.gradients())[2]
        # 4 bits and a block's scale, in whole tiles.
        self.assertGreater(bits, 4.25)
        self.assertLess(bits, 4.25 * 6 * 1024 / COUNT + 0.1)

    def test_what_is_left_out_comes_later(self):
        gradients = self.gradients()
        once = self.error(Coding("q2"), gradients, times=40)
        for coding in (Coding("q2", 1.0), Coding("q2", 0.2), Coding("q2", 0.2, residual="bf16")):
            with self.subTest(coding=coding):
                self.assertLess(self.error(coding, gradients, times=40), once / 20)

    def test_residuals_hold_what_was_left_out(self):
        gradients = self.gradients(1)
        output, residual, _ = self.reduce(Coding("q2", 0.3), gradients, times=9)
        # One rank codes nothing in stage 1, whose residual is asked for.
        self.assertEqual(residual, 0)
        self.assertGreater(power(output - gradients[0]), 0)
        self.assertGreater(self.reduce(Coding("q2", 0.3), self.gradients())[1], 0)
        self.assertEqual(self.reduce(Coding("q2"), self.gradients())[1], 0)

    def test_decay_forgets(self):
        gradients = self.gradients()
        kept = self.reduce(Coding("sign", 0.8), gradients, times=30)[1]
        self.assertLess(self.reduce(Coding("sign", 0.8, 0.8), gradients, times=30)[1], kept)

    def test_gradients_of_16_bits(self):
        output = self.reduce(Coding("q4", gradient="bf16"), self.gradients())[0]
        bits = output.astype(np.float32).view(np.uint32)
        self.assertFalse(np.any(bits & 0xFFFF))
        self.assertTrue(np.any(bits))


class FiguresTest(unittest.TestCase):
    def test_doubled_gradients(self):
        figures = trial.Figures(COUNT)
        exact = np.random.default_rng(1).standard_normal(COUNT).astype(np.float32)
        for step in range(20):
            figures.add(step, exact, 2 * exact, lambda: 3.0)
        means = figures.means()
        for name, expected in (("nmse", 1), ("lp", 1), ("v", 4), ("residual_ratio", 3)):
            self.assertAlmostEqual(means[name], expected, places=4, msg=name)

    def test_white_noise_is_smoothed_away(self):
        random = np.random.default_rng(1)
        figures = trial.Figures(COUNT)
        exact = np.ones(COUNT, np.float32)
        for step in range(60):
            noise = random.standard_normal(COUNT).astype(np.float32)
            figures.add(step, exact, exact + noise, lambda: 0.0)
        means = figures.means()
        self.assertAlmostEqual(means["nmse"], 1, delta=0.05)
        self.assertLess(means["lp"], 0.2)


class TrialTest(unittest.TestCase):
    def run_trial(self, **changes):
        base = trial.Trial("table", 40, 1)
        return trial.run(replace(base, **changes), TASKS["table"].data(), codec.load(BUILD))

    def test_a_run_is_repeatable(self):
        one, other = (self.run_trial(codec="q2", gain=0.1) for _ in range(2))
        del one["seconds"], other["seconds"]
        self.assertEqual(one, other)

    def test_a_fine_codec_changes_little_and_a_coarse_one_more(self):
        exact = self.run_trial()["loss"]
        fine, coarse = (abs(self.run_trial(codec=name)["loss"] - exact) for name in ("q8", "sign"))
        self.assertGreater(coarse, 10 * fine)
        self.assertGreater(fine, 0)

    def test_every_setting_changes_the_outcome(self):
        base = self.run_trial(codec="q2", gain=0.1)["loss"]
        for changes in (
            {"gain": 0.2},
            {"decay": 0.9},
            {"residual": "bf16"},
            {"gradient": "bf16"},
            {"ranks": 2},
            {"optimiser": "adam"},
            {"rate": 0.5},
            {"clip": 0.1},
            {"seed": 2},
            {"exact": 5},
            {"scattered": True},
        ):
            with self.subTest(**changes):
                changed = self.run_trial(**{"codec": "q2", "gain": 0.1} | changes)["loss"]
                self.assertNotEqual(changed, base)

    def test_a_run_whose_steps_are_all_exact(self):
        exact = self.run_trial(codec="q2", gain=0.1, exact=40)
        self.assertEqual(exact["loss"], self.run_trial()["loss"])

    def test_beta2_is_adams(self):
        losses = {self.run_trial(optimiser="adam", beta2=beta2)["loss"] for beta2 in (0.99, 0.999)}
        self.assertEqual(len(losses), 2)


class MatrixTest(unittest.TestCase):
    def test_every_run_has_its_exact_one_before_it(self):
        for name, trials in matrix.GROUPS.items():
            seen = set()
            for each in trials:
                self.assertNotIn(each.key(), seen, name)
                seen.add(each.key())
                exact = replace(each, **matrix.NONE, decay=1.0, codec=None, exact=0)
                exact = replace(exact, residual="fp32", gradient="fp32", scattered=False)
                self.assertIn(exact.key(), seen, name)

    def test_every_run_is_named_in_the_table(self):
        for trials in matrix.GROUPS.values():
            for each in trials:
                self.assertIn(each.task, TASKS)
                self.assertIn((each.gain, each.decay, 1.0), summary.FEEDBACK)


class StudyTest(unittest.TestCase):
    def run_study(self, path, *groups):
        trials = tuple(
            matrix.rows("table", 10, ("q2",), (matrix.NONE, matrix.LOW, matrix.FULL), seeds=(1, 2))
        )
        with mock.patch.dict(study.GROUPS, {"a": trials[:3], "b": trials}, clear=True):
            with contextlib.redirect_stdout(io.StringIO()) as output:
                study.main(BUILD, path, *groups)
        return json.loads(output.getvalue().splitlines()[-1])

    def test_finished_runs_are_not_repeated(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "results.jsonl")
            self.run_study(path, "a")
            first = study.read(path)
            self.assertEqual(len(first), 3)
            figures = self.run_study(path)
            self.assertEqual(study.read(path)[:3], first)
            self.assertEqual(len(study.read(path)), 8)
            self.assertEqual(set(figures), {"needed", "auto_never_worse", "worse"})


def make_rows(losses, codec_name="q2", task="lm", steps=600, ranks=4, jitter=0.001):
    """Rows of the runs without compression and of others, by feedback, whose losses are given."""
    random = np.random.default_rng(1)
    rules = {name: rule for rule, name in summary.FEEDBACK.items()}
    for seed in (1, 2, 3):
        base = trial.Trial(task, steps, seed, ranks=ranks)
        yield vars(base) | {"loss": 2.0}
        for name, loss in losses.items():
            gain, decay, weight = rules[name]
            row = vars(replace(base, codec=codec_name, gain=gain, decay=decay))
            row = row | {"weight": weight}
            figures = dict.fromkeys(("nmse", "lp", "v", "residual_ratio", "bits"), 1.0)
            yield row | figures | {"loss": loss + jitter * random.standard_normal()}


class SummaryTest(unittest.TestCase):
    def words(self, rows):
        found = summary.comparisons(summary.Study(list(rows)))
        return {other: word for _, _, other, (_, _, word) in found}

    def test_clear_differences(self):
        better = {"none": 2.2, ".1": 2.0, "full": 2.1}
        self.assertEqual(self.words(make_rows(better)), {"none": "better", "full": "better"})
        worse = {"none": 2.0, ".1": 2.2, "full": 2.1}
        self.assertEqual(self.words(make_rows(worse)), {"none": "worse", "full": "worse"})

    def test_differences_within_noise(self):
        rows = make_rows({"none": 2.04, ".1": 2.0, "full": 2.0}, jitter=0.05)
        self.assertEqual(self.words(rows), {"none": "equal", "full": "equal"})
        tiny = make_rows({"none": 2.0, ".1": 2.004, "full": 2.0}, jitter=1e-6)
        self.assertEqual(self.words(tiny), {"none": "equal", "full": "equal"})

    def test_report(self):
        for codec_name, never_worse in (("h2", False), ("q2", True)):
            rows = list(make_rows({"none": 2.0, ".1": 2.2}, codec_name=codec_name))
            figures = summary.report(summary.Study(rows), rows)
            self.assertEqual(figures["auto_never_worse"], never_worse)
            (text,) = figures["worse"]
            self.assertRegex(text, f"lm 600 {codec_name} than none: .(9|10)")

    def test_one_seed_tells_nothing_of_noise(self):
        rows = [row for row in make_rows({"none": 2.2, ".1": 2.0}) if row["seed"] == 1]
        self.assertEqual(self.words(rows), {"none": "unknown"})

    def test_a_run_that_diverged_is_worst(self):
        rows = list(make_rows({"none": 2.1, ".1": 2.0, "full": 2.1}))
        for row in rows:
            if row["gain"] == 1.0:
                row["loss"] = None
        self.assertEqual(self.words(rows)["full"], "better")

    def test_auto_by_codec(self):
        named = {"sign": "decay .8", "q8": "none", "q2": ".1", "h4": ".1", "q3": ".1"}
        self.assertEqual({name: summary.automatic(name) for name in named}, named)

    def test_what_is_needed(self):
        figures = summary.needed(list(make_rows({"none": 2.2, ".1": 2.0}, jitter=0)))
        self.assertEqual(figures, {"without": 2.2, "with": 2.0, "fp32": 2.0})
        for other in ({"steps": 601}, {"ranks": 8}, {"task": "table"}):
            figures = summary.needed(list(make_rows({"none": 2.2}, **other)))
            self.assertEqual(set(figures.values()), {None})

    def test_tables_name_what_is_unusual(self):
        rows = [row | {"ranks": 8, "gradient": "bf16"} for row in make_rows({"none": 2.2})]
        table = summary.loss_table(summary.Study(rows))
        self.assertIn("lm 600, ranks 8", table)
        self.assertIn("bf16", table)
        self.assertIn("+10.0", table)


if __name__ == "__main__":
    BUILD = sys.argv.pop(1)
    main()
