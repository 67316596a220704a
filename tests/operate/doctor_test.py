"""`cinch doctor` names every planted misconfiguration, and none where nothing is planted.

    doctor_test.py BUILD [unittest arguments]"""

import json
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import misconfigurations  # noqa: E402

BUILD = None


class Doctor(unittest.TestCase):
    def report(self, row, *options):
        with misconfigurations.planted(BUILD, row) as place:
            return misconfigurations.doctor(place, *options)

    def test_every_row(self):
        for row in misconfigurations.rows(BUILD):
            with self.subTest(row.title):
                self.assertEqual(misconfigurations.faults(BUILD, row), "")

    def test_nothing_of_it_without_being_planted(self):
        """A row that is named anyway would prove nothing."""
        checks = json.loads(self.report(None, "--json").stdout)["checks"]
        for row in misconfigurations.rows(BUILD):
            with self.subTest(row.title):
                self.assertFalse([check for check in checks if misconfigurations.says(
                    row, check["name"], check["verdict"], check["fix"])])

    def test_every_problem_has_a_fix(self):
        for row in (None, misconfigurations.ROWS[0]):
            report = json.loads(self.report(row, "--json").stdout)
            self.assertEqual(report["format"], 1)
            for check in report["checks"]:
                self.assertEqual(sorted(check), ["fix", "found", "name", "verdict"])
                self.assertTrue(check["found"])
                self.assertEqual(bool(check["fix"]), check["verdict"] in ("warn", "fail"), check)

    def test_two_ranks_reduce(self):
        checks = json.loads(self.report(None, "--json").stdout)["checks"]
        (exchange,) = [check for check in checks if check["name"] == "exchange"]
        self.assertEqual(exchange["verdict"], "pass", exchange["found"])

    def test_a_row_that_is_not_named_is_found(self):
        row = misconfigurations.Row("nothing", lambda place: None, "descriptors", "fail", "ulimit")
        self.assertIn("not in the text", misconfigurations.faults(BUILD, row))

    def test_wrong_usage(self):
        done = self.report(None, "--no-such-option")
        self.assertEqual((done.returncode, done.stdout), (2, ""))


if __name__ == "__main__":
    BUILD = sys.argv.pop(1)
    unittest.main(verbosity=2)
