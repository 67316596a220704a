#!/usr/bin/env python3
"""bench/simulate: its answers for many ranks, and that it finds planted costs in measured times.

simulate_test.py BUILD
"""

import json
import os
import subprocess
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "bench"))
sys.dont_write_bytecode = True

from scaling import measured  # noqa: E402
from scaling.model import Model, ModelFailed  # noqa: E402

BUILD = sys.argv.pop(1)


def simulate(*arguments):
    return subprocess.run(
        [sys.executable, "-B", os.path.join(ROOT, "bench", "simulate"), "--build", BUILD, *arguments],
        capture_output=True,
        text=True,
    )


class Sweep(unittest.TestCase):
    def rows(self, *arguments):
        done = simulate(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout.splitlines()[-1])["predicted"]

    def test_from_2_to_4096_ranks(self):
        rows = self.rows()
        self.assertEqual([row["ranks"] for row in rows], [2**i for i in range(1, 13)])
        for row in rows:
            self.assertIsNone(row["hierarchical"])
            self.assertEqual(row["grid"] is not None, row["ranks"] > 32)
            self.assertEqual(row["pair"] is not None, row["ranks"] == 2)
        self.assertAlmostEqual(rows[0]["pair"]["nmse"] / rows[0]["flat"]["nmse"], 1 / 1.5, places=3)
        errors = [row["flat"]["nmse"] for row in rows]
        self.assertEqual(errors, sorted(errors))
        self.assertAlmostEqual(errors[-1] / errors[0], 2 / 1.5, places=3)

    def test_hosts_of_eight(self):
        nvlink = ("--local-link", "2800gbit")
        rows = self.rows("--ranks-per-host", "8", "--link", "400gbit", "--codec-rate", "1000", *nvlink)
        self.assertEqual(rows[0]["hosts"], 2)
        for row in rows:
            self.assertLess(row["hierarchical"]["seconds"], row["flat"]["seconds"])

    def test_what_is_wrong_is_named(self):
        for arguments, part in (
            (("--link", "fast"), "fast"),
            (("--codec-rate", "0"), "0 is not above 0"),
            (("--codec", "zip"), "unknown codec: zip"),
            (("--build", "/none"), "/none/bin/scaling_model"),
            (("--measure", "--measured-link", "fast"), "fast"),
        ):
            done = simulate(*arguments)
            self.assertNotEqual(done.returncode, 0, arguments)
            self.assertIn(part, done.stderr)


class Fit(unittest.TestCase):
    """Runs that the model itself has made."""

    NETWORK = {"fixed_s": 30e-6, "s_per_byte": 16e-9}
    CODEC = {"fixed_s": 200e-6, "s_per_byte": 1e-9}
    CORES = 2

    def setUp(self):
        self.model = Model(BUILD)

    def runs(self):
        made = {}
        for ranks in measured.RANKS:
            slower = ranks / self.CORES
            codec = self.CODEC | {"s_per_byte": slower * self.CODEC["s_per_byte"]}
            fit = {"network": self.NETWORK, "codec": codec}
            sizes = [1 << power for power in range(16, 25)]
            questions = [measured.question_of(ranks, size, fit) for size in sizes]
            answers = self.model.predict(questions)
            made[ranks] = {
                name: [
                    {"bytes": size, "seconds": answer[scheme]["seconds"], "nmse": 0}
                    for size, answer in zip(sizes, answers)
                ]
                for name, scheme in (("fp32", "ring"), ("fp32 q4", "flat"))
            }
        return made

    def test_planted_costs_are_found(self):
        fits, rows = measured.check(self.model, self.runs(), cores=self.CORES)
        for ranks, fit in fits.items():
            for part, planted in (("network", self.NETWORK), ("codec", self.CODEC)):
                self.assertAlmostEqual(fit[part]["fixed_s"] / planted["fixed_s"], 1, places=6)
            slower = ranks / self.CORES
            self.assertAlmostEqual(
                fit["codec"]["s_per_byte"] / (slower * self.CODEC["s_per_byte"]), 1, places=6
            )
        for what in measured.summary(rows).values():
            for found in what.values():
                self.assertLess(found["worst"], 1e-6)

    def test_what_is_foretold_was_not_fitted(self):
        _, rows = measured.check(self.model, self.runs(), cores=self.CORES)
        others = [row for row in rows if row["check"] == "other sizes"]
        self.assertEqual(len(others), len(measured.RANKS) * 2 * 4)
        self.assertEqual({row["ranks"] for row in rows if row["check"] == "other ranks"}, {8})

    def test_a_question_that_is_none(self):
        with self.assertRaises(ModelFailed):
            self.model.ask([{"fit": []}])
        with self.assertRaises(ModelFailed):
            self.model.ask([{"op": "broadcast"}])


if __name__ == "__main__":
    unittest.main()
