"""What libcinch.so does to a process that it is preloaded into, beyond compressing.

Arguments: BUILD_DIR PRELOAD FAKE_NCCL_DIR EXPORTS_MAP
"""

import os
import re
import subprocess
import sys
import unittest

EXPORTS = FAKE = PRELOAD = BUILD = None


def run(command, **env):
    values = dict(os.environ, LD_PRELOAD=PRELOAD, LD_LIBRARY_PATH=FAKE, NCCL_DEBUG="INFO", **env)
    return subprocess.run(command, env=values, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=60)


def program(name):
    return os.path.join(BUILD, "tests", name)


class Preload(unittest.TestCase):
    def test_every_override_forwards_its_arguments_and_results(self):
        for mode in ("on", "observe", "off"):
            with self.subTest(mode=mode):
                done = run([program("preload_forwarding")], CINCH_MODE=mode)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertIn("forwarded", done.stdout)

    def test_finds_nccl_of_an_extension_in_a_local_scope(self):
        done = run([program("preload_local_scope"), program("libpreload_extension.so")])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"CINCH/INIT using NCCL 22809 from .*libnccl\.so\.2")

    def test_a_named_nccl_is_preferred_and_a_bad_name_is_said(self):
        library = os.path.join(FAKE, "libnccl.so.2")
        done = run([program("preload_forwarding")], CINCH_NCCL_LIB=library)
        self.assertEqual(done.returncode, 0, done.stdout)
        done = run([program("preload_forwarding")], CINCH_NCCL_LIB="/nowhere/libnccl.so.2")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, r"WARN.*CINCH_NCCL_LIB=/nowhere/libnccl\.so\.2 cannot be used")

    def test_programs_without_nccl_do_not_notice(self):
        for command in (["/bin/true"], ["/bin/sh", "-c", "exit 0"], [sys.executable, "-c", "import json"]):
            # Their own leaks are not ours to report, where a sanitizer's runtime is preloaded too.
            done = run(command, CINCH_STATS="/nonexistent/report", CINCH_CODEC="nonsense",
                       ASAN_OPTIONS="detect_leaks=0")
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""), command)


class Binary(unittest.TestCase):
    binary = property(lambda self: PRELOAD.split(":")[-1])

    def test_exports_exactly_the_map(self):
        with open(EXPORTS, encoding="utf-8") as file:
            wanted = set(re.findall(r"^\s+(nccl\w+);", file.read(), re.M))
        symbols = subprocess.run(["nm", "-D", "--defined-only", self.binary], check=True,
                                 capture_output=True, text=True).stdout
        self.assertEqual({line.split()[-1] for line in symbols.splitlines()}, wanted)
        self.assertGreater(len(wanted), 10)

    @unittest.skipIf(os.environ.get("CINCH_SANITIZED") == "1", "sanitizers link their own runtime")
    def test_needs_nothing_but_the_c_library(self):
        dynamic = subprocess.run(["readelf", "-d", self.binary], check=True, capture_output=True,
                                 text=True).stdout
        needed = set(re.findall(r"NEEDED.*\[(.+?)\]", dynamic))
        self.assertIn("libc.so.6", needed)
        self.assertLessEqual(needed, {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"})
        self.assertNotIn("TEXTREL", dynamic)


if __name__ == "__main__":
    EXPORTS, FAKE, PRELOAD, BUILD = (sys.argv.pop() for _ in range(4))
    unittest.main(verbosity=2)
