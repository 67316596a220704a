"""Whether the test of the calling surface would notice: one_call under an interposer that does
everything wrong, and what transparency.py makes of its outcomes.

Arguments: ONE_CALL BROKEN_PRELOAD FAKE_NCCL_DIR
"""

import os
import subprocess
import sys
import tempfile
import unittest

import api_table
import transparency

ONE_CALL = BROKEN = FAKE = None

HARM = {
    "ncclSend": "an argument changed",
    "ncclRecv": "did not arrive exactly once",
    "ncclBcast": "did not arrive exactly once",
    "ncclGroupStart": "its answer did not come back",
    "ncclGetErrorString": "its answer did not come back",
}


class OneCallTest(unittest.TestCase):
    def call(self, function, preload=""):
        env = dict(os.environ, LD_PRELOAD=preload, LD_LIBRARY_PATH=FAKE)
        command = [ONE_CALL, function]
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)

    def test_notices_each_kind_of_harm(self):
        for function, complaint in HARM.items():
            with self.subTest(function=function):
                done = self.call(function, BROKEN)
                self.assertEqual(done.returncode, 1)
                self.assertIn(complaint, done.stderr)
                self.assertEqual(os.path.basename(done.stdout.strip()), os.path.basename(BROKEN))

    def test_is_content_without_an_interposer(self):
        for function in HARM:
            done = self.call(function)
            self.assertEqual((done.returncode, done.stderr), (0, ""), function)
            self.assertEqual(os.path.basename(done.stdout.strip()), "libnccl.so.2")

    def test_refuses_what_it_does_not_know(self):
        for function in ("ncclFrobnicate", "Send", ""):
            self.assertEqual(self.call(function).returncode, 2, function)


class TransparencyTest(unittest.TestCase):
    def complaint(self, script, role):
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "one_call")
            with open(program, "w") as file:
                file.write(f"#!/bin/sh\n{script}\n")
            os.chmod(program, 0o755)
            function = api_table.Function("ncclSend", (2, 18, 1), role, "")
            return transparency.complaint(function, "on", program, "", folder)

    def test_a_function_is_bound_to_the_library_that_its_role_says(self):
        self.assertIsNone(self.complaint("echo /x/libcinch.so", "observe"))
        self.assertIsNone(self.complaint("echo /x/libnccl.so.2", "untouched"))
        self.assertIn("is bound to", self.complaint("echo /x/libnccl.so.2", "compress"))
        self.assertIn("is bound to", self.complaint("echo /x/libcinch.so", "untouched"))

    def test_a_failure_is_told_with_its_reason(self):
        complaint = self.complaint("echo wrong >&2; echo /x/libcinch.so; exit 1", "follow")
        self.assertIn("exit status 1", complaint)
        self.assertIn("wrong", complaint)

    def test_the_mode_is_set(self):
        self.assertIsNone(
            self.complaint('[ "$CINCH_MODE" = on ] && echo /x/libcinch.so', "follow")
        )


if __name__ == "__main__":
    FAKE, BROKEN, ONE_CALL = (sys.argv.pop() for _ in range(3))
    unittest.main(verbosity=2)
