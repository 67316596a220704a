"""How programs that do not end are ended. No GPU."""

import signal
import sys
import tempfile
import unittest
from unittest import mock

import check_support
from check_support import Failure

ENDS_WHEN_ASKED = """
import pathlib, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (pathlib.Path(sys.argv[1]).write_text("asked"), sys.exit(1)))
time.sleep(600)
"""
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"


class RunTest(unittest.TestCase):
    def test_status_and_output_are_those_of_the_program(self):
        program = "import os; print(os.environ['A']); exit(3)"
        status, output = check_support.run([sys.executable, "-c", program], 60, A="b")
        self.assertEqual((status, output), (3, "b\n"))

    def test_a_late_program_is_asked_to_end(self):
        with tempfile.NamedTemporaryFile("r") as file:
            with self.assertRaisesRegex(Failure, "did not end within 5 s"):
                check_support.run([sys.executable, "-c", ENDS_WHEN_ASKED, file.name], 5)
            self.assertEqual(file.read(), "asked")

    def test_one_that_does_not_listen_is_killed(self):
        started = []
        real = check_support.subprocess.Popen

        def start(*arguments, **options):
            started.append(real(*arguments, **options))
            return started[-1]

        with mock.patch.object(check_support, "PATIENCE", 0.5), \
             mock.patch.object(check_support.subprocess, "Popen", start), \
             self.assertRaisesRegex(Failure, "did not end within 5 s"):
            check_support.run([sys.executable, "-c", DEAF], 5)
        self.assertEqual(started[0].returncode, -signal.SIGKILL)


if __name__ == "__main__":
    unittest.main(verbosity=2)
