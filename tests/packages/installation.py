"""What the tests of packages share: an environment with nothing of Cinch in it, the quick job, and
what every installed file has to be like."""

import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "wheels"))

import elf  # noqa: E402

DEADLINE = 240
# Two ranks, each a host of its own, on the emulator.
JOB = ["bench", "all_reduce", "--emulator", "--ranks", "2", "--hosts", "2"]
JOB += ["-b", "1M", "-e", "1M", "-n", "5", "-w", "6"]
JOB_SETTINGS = {"CINCH_SLOTS": "signature", "CINCH_CODEC": "q8", "NCCL_SOCKET_IFNAME": "lo"}


def run(*command, cwd=None, **variables):
    """Its output, where the environment is `variables` alone."""
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C", **variables}
    done = subprocess.run([str(word) for word in command], env=environment, cwd=cwd,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=DEADLINE, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{command} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def files_under(folder):
    return {os.path.relpath(os.path.join(parent, name), folder)
            for parent, _, names in os.walk(folder) for name in names}


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def holds(path, text):
    with open(path, "rb") as file:
        return text.encode() in file.read()


class PackageTest(unittest.TestCase):
    """BUILD is the build folder, which main() takes from the command line."""

    BUILD = ""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="cinch-package-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def pack(self, generator):
        """The packages that CPack makes, in a folder of their own."""
        packages = os.path.join(self.folder, "packages")
        run("cpack", "--config", os.path.join(self.BUILD, "CPackConfig.cmake"), "-G", generator,
            "-B", packages, cwd=self.folder, HOME=self.folder)
        return sorted(path for path in glob.glob(f"{packages}/*") if os.path.isfile(path))

    def check_quick_job(self, cinch, prefix):
        """The job compresses, and all that it loads of Cinch lies under `prefix`."""
        stats = os.path.join(self.folder, "stats")
        output = run(*cinch, "run", "--net", "--tuner", "--", *cinch, *JOB, cwd=self.folder, HOME=self.folder,
                     TMPDIR=self.folder, CINCH_STATS=stats, NCCL_DEBUG="INFO", **JOB_SETTINGS)
        self.assertIn("compressed:q8", output)
        self.assertIn("# Out of bounds values : 0 OK", output)
        loaded = re.findall(r"codec library (\S+)", output)
        self.assertEqual({os.path.realpath(path) for path in loaded},
                         {os.path.realpath(f"{prefix}/lib/libcinch-codec-host.so")})
        self.assertIn(f"{os.path.realpath(prefix)}/lib/cinch/emulator/libnccl.so.2", output)
        self.assertRegex(output, f"loaded external network plugin {os.path.realpath(prefix)}/lib/libnccl-net-cinch.so")
        with open(f"{stats}.json", encoding="utf-8") as file:
            slot = json.load(file)["communicators"][0]["slots"][0]
        self.assertGreater(slot["ratio"], 3)

    def check_binaries(self, folder):
        """No file knows where it was built; those of ELF look for others beside themselves alone."""
        binaries = 0
        for name in files_under(folder):
            path = os.path.join(folder, name)
            for place in (ROOT, os.path.realpath(self.BUILD)):
                self.assertFalse(holds(path, place), f"{name} holds {place}")
            if is_elf(path):
                binaries += 1
                facts = elf.dynamic(path)
                self.assertIn(facts["rpath"] + facts["runpath"], ("", "$ORIGIN"), name)
        self.assertGreater(binaries, 6)


def main():
    PackageTest.BUILD = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
