"""Training through NCCL: the pure parts of the job and of the comparison, and one small job.

    training_test.py BUILD
"""

import contextlib
import io
import json
import math
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

from support import main, skip_without_packages

skip_without_packages()

import numpy as np  # noqa: E402

from training import compare, experiment, rank  # noqa: E402
from training.experiment import Experiment, Outcome  # noqa: E402

BUILD = ""


class BucketTest(unittest.TestCase):
    def test_whole_parameters_last_ones_first(self):
        self.assertEqual(list(rank.cuts([5, 3, 4, 2], 6)), [(8, 14), (0, 8)])
        self.assertEqual(list(rank.cuts([1, 6, 6], 6)), [(7, 13), (0, 7)])
        self.assertEqual(list(rank.cuts([5, 6], 6)), [(0, 11)])
        self.assertEqual(list(rank.cuts([5, 3, 4, 2], 100)), [(0, 14)])
        self.assertEqual(list(rank.cuts([7, 7], 1)), [(7, 14), (0, 7)])

    def test_every_value_is_in_one_bucket(self):
        random = np.random.default_rng(1)
        for _ in range(200):
            sizes = random.integers(1, 50, size=random.integers(1, 12)).tolist()
            at_least = int(random.integers(1, 200))
            buckets = list(rank.cuts(sizes, at_least))
            if len(buckets) > 1:
                self.assertGreaterEqual(min(last - first for first, last in buckets), at_least)
            self.assertEqual(buckets[0][1], sum(sizes))
            self.assertEqual(buckets[-1][0], 0)
            for (first, _), (_, last) in zip(buckets, buckets[1:]):
                self.assertEqual(first, last)

    def test_shapes_as_ddp_sends_them(self):
        numbers = rank.shape_numbers([(3, 4), (4,), (2, 3, 5)])
        self.assertEqual(numbers.tolist(), [3, 4, 4, 1, 4, 1, 2, 3, 5, 15, 5, 1])
        self.assertEqual(numbers.dtype, np.int64)


class FigureTest(unittest.TestCase):
    def test_bits_on_the_wire(self):
        # 1000 values of 4 ranks: 750 leave a rank in each of two stages, at 4 bits.
        slot = {"bytes_in": 4000, "wire_bytes": 2 * 750 * 4 // 8}
        self.assertEqual(experiment.bits_per_value([slot, slot], 4), 4.0)

    def figures(self, loss, bits=3.0, share=1.0):
        found = {"fp32": [Outcome(2.0), Outcome(4.0)], "q4": [Outcome(loss, bits, share)] * 2}
        return compare.summarise(found)

    def failures(self, *arguments):
        return list(compare.failures("lm", self.figures(*arguments), "q4", 0.5, 3.3))

    def test_summary(self):
        self.assertEqual(
            self.figures(2.5),
            {
                "fp32": 3.0,
                "fp32_seeds": [2.0, 4.0],
                "q4": 2.5,
                "q4_seeds": [2.5, 2.5],
                "q4_bits": 3.0,
                "q4_share": 1.0,
            },
        )

    def test_what_fails(self):
        self.assertEqual(self.failures(3.014), [])
        self.assertEqual(self.failures(2.5), [])
        for arguments, text in (
            ((3.016,), "behind"),
            ((math.nan,), "behind"),
            ((3.0, 3.4), "bits"),
            ((3.0, 3.0, 0.8), "compressed"),
        ):
            with self.subTest(arguments=arguments):
                (sentence,) = self.failures(*arguments)
                self.assertIn(text, sentence)


class ComparisonTest(unittest.TestCase):
    """The comparison with jobs whose outcome is given."""

    def compare(self, loss, *arguments):
        def run(each, _build, _folder):
            return Outcome(2.0) if each.codec is None else Outcome(loss, 4.3, 0.99)

        with mock.patch.object(compare, "run", run):
            with contextlib.redirect_stdout(io.StringIO()) as output:
                status = compare.main(["build", *arguments])
        return status, json.loads(output.getvalue().splitlines()[-1])

    def test_all_tasks_and_seeds(self):
        status, summary = self.compare(2.0, "--codec", "q3")
        self.assertEqual(status, 0)
        self.assertEqual(set(summary), {"lm", "digits", "table"})
        self.assertEqual(summary["table"]["q3_seeds"], [2.0] * 3)

    def test_limits(self):
        self.assertEqual(self.compare(2.02)[0], 1)
        self.assertEqual(self.compare(2.02, "--within", "1.5")[0], 0)
        self.assertEqual(self.compare(2.0, "--bits", "4")[0], 1)


class JobTest(unittest.TestCase):
    def run_job(self, codec, **settings):
        with tempfile.TemporaryDirectory() as folder:
            job = Experiment("table", 30, 1, codec, settings)
            return experiment.run(job, BUILD, folder)

    def test_compression_changes_a_little(self):
        exact, compressed = self.run_job(None), self.run_job("q4", CINCH_GUARD_EVERY="0")
        self.assertTrue(math.isfinite(exact.loss))
        self.assertNotEqual(exact.loss, compressed.loss)
        self.assertLess(abs(compressed.loss / exact.loss - 1), 0.05)
        self.assertGreater(compressed.bits, 4.25)
        self.assertLess(compressed.bits, 4.6)
        self.assertGreater(compressed.share, 0.7)

    def test_a_job_of_which_nothing_is_compressed_is_an_error(self):
        with self.assertRaisesRegex(experiment.TrainingError, "nothing"):
            self.run_job("q4", CINCH_MODE="observe")


if __name__ == "__main__":
    BUILD = str(pathlib.Path(sys.argv.pop(1)).resolve())
    main()
