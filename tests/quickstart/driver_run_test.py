"""The whole driver in a short run: five variants, the proof run, every check that it allows.

driver_run_test.py BUILD_FOLDER [unittest arguments]
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DRIVER = [sys.executable, "-B", os.path.join(ROOT, "bench", "quickstart.py")]
BUILD = ""


class DriverRunTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def drive(self, *arguments):
        return subprocess.run(
            [*DRIVER, "--build", BUILD, "--output", self.folder, *arguments],
            capture_output=True,
            text=True,
            timeout=500,
            stdin=subprocess.DEVNULL,
        )

    def test_short_run_passes_its_checks(self):
        # auto begins with 4 bits, and has its own precision after 27 calls at most (docs/decisions/009-checkups.md).
        done = self.drive("--steps", "40", "--link", "1gbit")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"All 11 checks passed")
        with open(os.path.join(self.folder, "quickstart.json")) as file:
            results = json.load(file)
        self.assertTrue(results["ranks_identical"])
        for name in ("fp32", "bf16", "q8", "q4", "auto"):
            self.assertGreater(results[name]["comm_ms"], 0)
            self.assertGreater(results[name]["step_ms"], results[name]["comm_ms"])
        self.assertGreater(results["q4"]["nmse"], results["q8"]["nmse"])
        self.assertEqual(len(results["checks"]), 11)

    def test_a_rank_that_cannot_start_ends_the_run_with_its_reason(self):
        short = os.path.join(self.folder, "short.txt")
        with open(short, "w") as file:
            file.write("too short")
        done = self.drive("--steps", "12", "--text", short)
        self.assertEqual(done.returncode, 1)
        self.assertIn("short.txt has 9 bytes; training needs at least 65536", done.stderr)


if __name__ == "__main__":
    BUILD = sys.argv.pop(1)
    unittest.main(verbosity=2)
