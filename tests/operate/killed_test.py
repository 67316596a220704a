"""Jobs that are killed with SIGKILL at random moments leave reports and metrics that can be read.

    killed_test.py BUILD [unittest arguments]

CINCH_KILLS says how many (6)."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import job  # noqa: E402

BUILD = None
KILLS = int(os.environ.get("CINCH_KILLS", "6"))


class Killed(unittest.TestCase):
    def test_what_is_left(self):
        for turn, faults in enumerate(job.kill_jobs(BUILD, KILLS)):
            with self.subTest(turn=turn):
                self.assertEqual(faults, [])


if __name__ == "__main__":
    BUILD = sys.argv.pop(1)
    unittest.main(verbosity=2)
