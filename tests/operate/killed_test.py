"""Jobs that are killed with SIGKILL at random moments leave reports and metrics that can be read.

    killed_test.py BUILD [unittest arguments]

CINCH_KILLS says how many (6)."""

import os
import random
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import job  # noqa: E402

BUILD = None
KILLS = int(os.environ.get("CINCH_KILLS", "6"))
# Reports are written after 0, 1, 2, 3 ... seconds.
LONGEST = 2.5


class Killed(unittest.TestCase):
    def test_what_is_left(self):
        moments = random.Random(1)
        for turn in range(KILLS):
            with self.subTest(turn=turn), tempfile.TemporaryDirectory() as folder:
                with job.Job(BUILD, folder) as running:
                    running.wait_for_reports()
                    time.sleep(moments.uniform(0, LONGEST))
                    running.kill()
                    self.assertEqual(job.faults(running), [])


if __name__ == "__main__":
    BUILD = sys.argv.pop(1)
    unittest.main(verbosity=2)
