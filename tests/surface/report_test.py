"""bench/report surface, with the tests that it runs played by others."""

import contextlib
import io
import os
import sys
import tempfile
import unittest
from unittest import mock

import api_table

sys.path.insert(0, os.path.join(api_table.ROOT, "bench"))
from reports import surface  # noqa: E402

FIGURES = {
    "surface/transparency.py": {"functions": 73, "passed": 73},
    "fuzz/fuzz_driver.py": {"programs": 300, "failures": 0, "first_seed": 1},
    "loader/loader_rows.py": {"loader_rows": 40, "loader_rows_passed": 40, "rows": []},
    "wheels/nccl_releases.py": {
        "releases": [
            {"package": "nvidia-nccl-cu12", "version": "2.18.1", "problems": []},
            {"package": "nvidia-nccl-cu13", "version": "2.28.9", "problems": ["wrong"]},
        ],
        "unavailable": {},
    },
}


class MeasureTest(unittest.TestCase):
    def measure(self, **statuses):
        def run_test(path, *arguments):
            return FIGURES[path], statuses.get(os.path.dirname(path), 0)

        with mock.patch.object(surface, "build"):
            with mock.patch.object(surface, "run_test", side_effect=run_test):
                return surface.measure()

    def test_figures_are_those_of_the_tests(self):
        figures, passed = self.measure()
        self.assertTrue(passed)
        self.assertEqual(
            figures,
            {
                "api_functions": 73,
                "api_functions_tested": 73,
                "fuzz_programs": 300,
                "fuzz_failures": 0,
                "loader_rows": 40,
                "loader_rows_passed": 40,
                "nccl_releases_checked": ["2.18.1 (nvidia-nccl-cu12)"],
            },
        )

    def test_every_failing_test_fails_the_report(self):
        for folder in ("surface", "fuzz", "loader", "wheels"):
            self.assertFalse(self.measure(**{folder: 1})[1], folder)

    def test_only_the_releases_may_be_out_of_reach(self):
        self.assertTrue(self.measure(wheels=surface.SKIPPED)[1])
        self.assertFalse(self.measure(fuzz=surface.SKIPPED)[1])


class RunTestTest(unittest.TestCase):
    def run_script(self, script):
        with tempfile.TemporaryDirectory() as root:
            os.mkdir(os.path.join(root, "tests"))
            with open(os.path.join(root, "tests", "some.py"), "w") as file:
                file.write(script)
            with mock.patch.object(surface, "ROOT", root):
                with contextlib.redirect_stderr(io.StringIO()) as shown:
                    return surface.run_test("some.py", "argument"), shown.getvalue()

    def test_the_last_line_is_the_result_and_all_lines_are_shown(self):
        found, shown = self.run_script(
            "import sys\nprint('hello', *sys.argv[1:])\nprint('{\"a\": 2}')\nsys.exit(3)\n"
        )
        self.assertEqual(found, ({"a": 2}, 3))
        self.assertIn("hello argument", shown)

    def test_a_test_that_gives_no_figures_ends_the_report(self):
        for script in ("", "print('no figures')"):
            with self.assertRaisesRegex(SystemExit, "gave no figures"):
                self.run_script(script)


if __name__ == "__main__":
    unittest.main(verbosity=2)
