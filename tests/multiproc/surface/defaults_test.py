"""What a program gets where LD_PRELOAD is all that was set: real processes on the emulator. CINCH_STATS is set
too, which only writes the report that is read here.

Arguments: PROGRAM PRELOAD CINCH (the command).
"""

import os
import random
import subprocess
import sys
import tempfile
import unittest

import surface_test

PROGRAM = PRELOAD = CINCH = None
RANKS = 2
BUCKETS = {"AllReduce fp32 Sum x 30000 at 0", "AllReduce fp32 Sum x 80000 at 1", "AllReduce fp32 Sum x 80000 at 2"}


class Defaults(surface_test.OutcomeTest):
    def run_case(self, case, settings=None):
        """What each rank reports of its communicator, and what `cinch explain` makes of the first report."""
        with tempfile.TemporaryDirectory() as folder:
            # Loopback is faster than any codec.
            settings = {"CINCH_WHEN": "always", **(settings or {})}
            outcomes = surface_test.launch(PROGRAM, case, RANKS, folder, PRELOAD, settings)
            self.check_outcomes(outcomes)
            reports = surface_test.read_reports(folder)
            explained = subprocess.run([CINCH, "explain", "--report", f"{folder}/report-0.json"], check=True,
                                       capture_output=True, text=True, timeout=60).stdout
        self.assertEqual([len(communicators) for communicators in reports], [1] * RANKS)
        return [communicators[0] for communicators in reports], explained

    def check_training(self, settings, least_plans):
        comms, explained = self.run_case("default-training", settings)
        self.assertRegex(explained, r"AllReduce fp32 Sum x 80000 +gradient .* auto +compressed")
        for comm in comms:
            self.assertEqual({slot["name"] for slot in comm["slots"]}, BUCKETS)
            self.assertNotIn("ambiguous", comm["passed"])
            for slot in comm["slots"]:
                with self.subTest(rank=comm["rank"], slot=slot["name"]):
                    self.assertEqual(slot["codec"], "auto")
                    self.assertAlmostEqual(slot["gain"], 0.1, places=6)
                    # All but the steps in which the ranks learn what a step is, and get ready.
                    self.assertGreaterEqual(slot["calls"], 35)
                    self.assertGreaterEqual(slot["plans"], least_plans)
                    # Layers of different scales need fewer bits than h3's 3.1 for all.
                    self.assertGreater(slot["bits_per_value"], 2)
                    self.assertLess(slot["bits_per_value"], 3)
        planner = comms[0]["slots"]
        self.assertTrue(all(slot["guard"]["checks"] >= least_plans for slot in planner))
        self.assertEqual(sum(slot["guard"]["breaches"] for slot in planner), 0)
        plans = [[slot["plans"] for slot in comm["slots"]] for comm in comms]
        self.assertEqual(plans[0], plans[1], "the ranks obeyed different words")

    def test_training_gets_feedback_and_adaptive_precision(self):
        self.check_training({}, least_plans=1)

    def test_training_is_the_same_where_ranks_prove_a_key(self):
        with tempfile.NamedTemporaryFile("w") as key:
            key.write("k" * 32)
            key.flush()
            self.check_training({"CINCH_KEY_FILE": key.name}, least_plans=1)

    def test_precision_follows_every_checkup(self):
        self.check_training({"CINCH_GUARD_EVERY": "5"}, least_plans=2)

    def test_captured_calls_pass(self):
        comms, explained = self.run_case("default-graph")
        for comm in comms:
            self.assertEqual({slot["name"] for slot in comm["slots"]}, BUCKETS)
            self.assertEqual(comm["passed"]["capturing"]["calls"], len(BUCKETS))
        self.assertIn("capturing: ", explained)

    def test_captures_of_one_rank_alone_change_nothing(self):
        for case in ("default-graph-earlier-on-one-rank", "default-graph-again-on-one-rank"):
            with self.subTest(case):
                comms, _ = self.run_case(case)
                calls = [{slot["name"]: slot["calls"] for slot in comm["slots"]} for comm in comms]
                self.assertEqual(calls[0], calls[1])
                self.assertGreaterEqual(min(calls[0].values()), 35)

    def test_captures_at_random_change_nothing(self):
        for seed in random.sample(range(1 << 20), int(os.environ.get("TEST_PROGRAMS", 3))):
            with self.subTest(seed=seed):
                comms, _ = self.run_case("default-graph-at-random", {"TEST_SEED": str(seed)})
                calls = [{slot["name"]: slot["calls"] for slot in comm["slots"]} for comm in comms]
                self.assertEqual(calls[0], calls[1])
                self.assertGreaterEqual(min(calls[0].values()), 35)

    def test_gradients_in_a_graph_of_one_rank_pass(self):
        for case in ("default-graph-of-gradients-on-rank-0", "default-graph-of-gradients-on-rank-1"):
            with self.subTest(case):
                comms, _ = self.run_case(case)
                self.assertEqual([slot["calls"] for comm in comms for slot in comm["slots"] if slot["calls"]], [])

    def test_no_rank_waits_for_another_ones_program(self):
        for when in ("always", "auto"):
            with self.subTest(when):
                comms, _ = self.run_case("default-run-ahead", {"CINCH_WHEN": when, "CINCH_GUARD_EVERY": "5"})
                calls = [{slot["name"]: slot["calls"] for slot in comm["slots"]} for comm in comms]
                self.assertEqual(calls[0], calls[1])
                if when == "always":
                    self.assertGreaterEqual(min(calls[0].values()), 35)

    def test_nccl_makes_no_rank_wait_for_another_ones_program(self):
        for ahead in (1, 8, 40):
            with self.subTest(ahead=ahead):
                comms, _ = self.run_case("default-always-ahead", {"CINCH_WHEN": "always", "TEST_AHEAD": str(ahead)})
                self.assertEqual([slot["calls"] for comm in comms for slot in comm["slots"] if slot["calls"]], [])

    def test_ranks_that_differ_are_told_which_call_is_the_first(self):
        for case, n_before in (("default-one-rank-leaves-out-an-early-call", 0),
                               ("default-one-rank-leaves-out-a-call", 60)):
            with self.subTest(case), tempfile.TemporaryDirectory() as folder:
                outcomes = surface_test.launch(PROGRAM, case, RANKS, folder, PRELOAD, {"CINCH_WHEN": "always"})
                self.check_outcomes(outcomes)
                for outcome, count in zip(outcomes, (30000, 80000)):
                    self.assertRegex(outcome.output, r"rank \d and rank \d no longer make the same calls .* way: "
                                     rf".* the first {n_before} are the same, and the next one is not; "
                                     rf"on this rank that is AllReduce fp32 Sum x {count}\n")

    def test_a_call_over_and_over_stays_exact(self):
        """As nccl-tests: nothing shows that these are gradients."""
        for case, call in (("default-repeated-sum", "Sum"), ("default-repeated-average", "Avg")):
            with self.subTest(case):
                comms, explained = self.run_case(case)
                for comm in comms:
                    self.assertEqual(comm["slots"], [])
                    self.assertGreater(comm["passed"]["ambiguous"]["calls"], 200)
                self.assertRegex(explained, rf"AllReduce fp32 {call} x 20000 .*ambiguous")
                self.assertRegex(explained, r"ambiguous: .* could be activations\.\n.*CINCH_SLOTS=signature")


if __name__ == "__main__":
    # Nothing but what a case sets.
    for name in [name for name in os.environ if name.startswith("CINCH_")]:
        del os.environ[name]
    CINCH = sys.argv.pop()
    PRELOAD = sys.argv.pop()
    PROGRAM = sys.argv.pop()
    unittest.main(verbosity=2)
