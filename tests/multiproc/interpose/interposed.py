"""Jobs of rank_program, which knows nothing of Cinch and checks each result against the exact sum: real
processes over real sockets, on the emulator."""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "support"))
from ranks import run_ranks  # noqa: E402

PROGRAM = PRELOAD = None
WARMUP = 3  # calls that pass before the first compressed one
# Two quantisations of independent uniform data, from the block codec's own error on it.
BOUND = {"auto": 0.2, "q8": 2.5e-4, "q4": 5e-2, "q2": 1.2, "q5": 1e-2, "q3": 0.2, "h4": 5e-2, "fp8": 5e-3,
         "h3": 0.2, "sign": 1.2}
FLOOR = {"auto": 5e-3, "q8": 1e-6, "q4": 1e-3, "q2": 3e-2, "q5": 2e-4, "q3": 1e-2, "h4": 5e-3, "fp8": 2e-4,
         "h3": 1e-2, "sign": 5e-2}


def arguments(**options):
    return [word for name, value in options.items() for word in ("--" + name.replace("_", "-"), str(value))]


def launch(ranks=2, preload=True, env=None, rank_env=None, rank_args=None, deadline=60, **options):
    # A call that is made over and over is no step of a job: its signature has to do.
    values = {"LD_PRELOAD": PRELOAD, "CINCH_SLOTS": "signature", "CINCH_WHEN": "always"} if preload else {}
    values.update(env or {})
    return run_ranks([PROGRAM] + arguments(**options), ranks, values, rank_env, rank_args, deadline)


def calls(outcome):
    """[(nmse, hash, nonfinite)] by call."""
    return [(float(w[2]), w[4], int(w[6])) for w in outcome.lines("call")]


class Base(unittest.TestCase):
    def assert_done(self, outcomes):
        for rank, outcome in enumerate(outcomes):
            self.assertEqual(outcome.status, 0, f"rank {rank}: {outcome.output}")
            self.assertIn("done", outcome.output)
            self.assertEqual(outcome.lines("async"), [["0"]])

    def assert_identical(self, outcomes):
        for call in zip(*(calls(outcome) for outcome in outcomes)):
            self.assertEqual(len({h for _, h, _ in call}), 1, "ranks ended with different bits")

    def assert_compressed(self, outcomes, codec, first=WARMUP):
        for outcome in outcomes:
            errors = [nmse for nmse, _, _ in calls(outcome)]
            self.assertGreater(len(errors), first)
            self.assertLess(max(errors[:first]), 1e-5, "the warm-up calls must pass")
            self.assertLess(max(errors[first:]), BOUND[codec])
            self.assertGreater(min(errors[first:]), FLOOR[codec], "nothing was compressed")


def main():
    """The tests of a program that was called with PROGRAM PRELOAD (what goes into LD_PRELOAD)."""
    global PROGRAM, PRELOAD
    PRELOAD = sys.argv.pop()
    PROGRAM = sys.argv.pop()
    unittest.main(verbosity=2)
