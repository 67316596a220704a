"""Every mistake in a job's settings is named in its log, once, with what to do; nothing hangs.

    job_mistakes_test.py BUILD [unittest arguments]"""

import copy
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import job_mistakes  # noqa: E402
from ranks import Outcome  # noqa: E402

BUILD = None


class Mistakes(unittest.TestCase):
    def test_each_is_named(self):
        for mistake in job_mistakes.MISTAKES:
            with self.subTest(mistake.name):
                self.assertEqual(job_mistakes.run(mistake, BUILD), "")

    def test_what_is_not_named_is_found(self):
        mistake = copy.copy(job_mistakes.MISTAKES[0])
        mistake.settings = {}
        self.assertIn("no line has", job_mistakes.run(mistake, BUILD))

    def test_hangs_errors_and_silence_are_faults(self):
        mistake = job_mistakes.Mistake("", {}, "cause", "remedy")
        for status, output, expected in ((None, "cause, remedy", "hangs"), (1, "cause, remedy", "ended with"),
                                         (0, "cause\nremedy", "without /remedy/"), (0, "cause, remedy", "")):
            found = job_mistakes.fault(mistake, [Outcome(0, ""), Outcome(status, output)])
            self.assertIn(expected, found)
            self.assertEqual(found == "", expected == "")


if __name__ == "__main__":
    BUILD = sys.argv.pop(1)
    unittest.main(verbosity=2)
