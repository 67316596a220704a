"""What losses.py and race.py make of runs, on runs that are made up. Needs no PyTorch."""
import json
import os
import tempfile
import unittest

import losses
import race
import truth
from judge import Row


def row(plain, cinch, first=4, share=1.0):
    return Row("a_job", has_gradients=True, plain_loss=plain, cinch_loss=cinch, plain_mean_loss=2 * plain,
               cinch_mean_loss=cinch and plain + cinch, from_step=first, compressed_when_known=share)


class Losses(unittest.TestCase):
    def test_means_are_compared_and_the_worst_seed_says_what_was_compressed(self):
        result = losses.result_of("a_job", "", [row(1.0, 1.1), row(3.0, 2.94, first=9, share=0.96)])
        self.assertAlmostEqual(result.above, 0.01)
        self.assertAlmostEqual(result.above_in_all, 0.005)
        self.assertEqual((result.from_step, result.share), (9, 0.96))
        self.assertIn("+1.00 %", result.line())

    def test_a_job_that_did_not_end_with_one_seed_has_no_figure(self):
        result = losses.result_of("a_job", "8 bits", [row(1.0, 1.0), row(1.0, None)])
        self.assertIsNone(result.above)
        self.assertIn("did not end", result.line())

    def test_what_is_never_compressed_has_no_first_step(self):
        result = losses.result_of("a_job", "", [row(1.0, 1.0), row(1.0, 1.0, first=None, share=None)])
        self.assertIsNone(result.from_step)
        self.assertIsNone(result.share)


class Race(unittest.TestCase):
    def test_ranks_and_seeds_are_summed_up(self):
        figures = [{"step_ms": 10.0, "held_out": 2.0, "reported": None},
                   {"step_ms": 30.0, "held_out": 3.0, "reported": None}]
        self.assertEqual(race.summary(figures), {"step_ms": 20.0, "heldout": 2.5})
        figures[1]["reported"] = 0.75
        self.assertEqual(race.summary(figures)["compressed"], 0.75)


class Reported(unittest.TestCase):
    def share(self, *calls):
        names = ("name", "calls", "compressed", "bytes")
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "7.json"), "w", encoding="utf-8") as file:
                json.dump({"communicators": [{"calls": [dict(zip(names, call)) for call in calls]}]}, file)
            return truth.reported_share(folder, 7)

    def test_only_large_reductions_count(self):
        large = truth.MIN_BYTES
        self.assertEqual(self.share(("AllReduce fp32 Sum x 1", 10, 9, 10 * large), ("AllGather fp32 x 1", 10, 0, 90 * large),
                                    ("AllReduce fp32 Sum x 2", 10, 0, 10 * large - 10)), 0.9)

    def test_without_reductions_or_a_report_there_is_none(self):
        self.assertIsNone(self.share(("AllGather fp32 x 1", 10, 0, 1 << 30)))
        self.assertIsNone(truth.reported_share("/nowhere", 7))


if __name__ == "__main__":
    unittest.main()
