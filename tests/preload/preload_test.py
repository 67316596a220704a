"""What libcinch.so does to a process that it is preloaded into, beyond compressing.

Arguments: BUILD_DIR PRELOAD FAKE_NCCL_DIR SOURCE_DIR
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = FAKE = PRELOAD = BUILD = None
SANITIZED = os.environ.get("CINCH_SANITIZED") == "1"


def run(command, **env):
    values = dict(os.environ, LD_PRELOAD=PRELOAD, LD_LIBRARY_PATH=FAKE, NCCL_DEBUG="INFO", **env)
    return subprocess.run(command, env=values, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=60)


def number_of_sources(file):
    """That an object was compiled from: the build may have put several into one."""
    made = file.removesuffix(".o")
    if os.path.basename(os.path.dirname(made)) != "Unity":
        return 1
    with open(made, encoding="utf-8") as source:
        return sum(line.startswith("#include") for line in source)


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



# What a job starts besides its ranks. Each prints something that a stray line would change.
PYTHON_WORKERS = """
import multiprocessing, os, subprocess

def square(n):
    return n * n, subprocess.run(["/bin/echo", "child", str(n)], capture_output=True, text=True).stdout

if __name__ == "__main__":
    for start in ("fork", "spawn"):
        with multiprocessing.get_context(start).Pool(2) as pool:
            print(pool.map(square, range(4)), flush=True)
    pid = os.fork()
    if pid == 0:
        os.execv("/bin/sh", ["sh", "-c", "echo replaced; exit 3"])
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""
BASH = 'for i in 1 2 3; do (echo "sub $i"; ls / | wc -l); done; echo "$(date +%Y | wc -c)" >&2; exit 7'
NINJA = """
rule line
  command = sh -c 'echo $in $out; touch $out'
build one: line
build two: line one
"""


class Bystanders(unittest.TestCase):
    """Programs that have nothing to do with NCCL, with and without the preload: the same bytes."""

    def outcome(self, command, folder, preload):
        # Settings that a job has; bad ones must not be mentioned to those whom they do not concern. Their
        # own leaks are not ours to report, where a sanitizer's runtime is preloaded too.
        env = dict(os.environ, CINCH_STATS="/nonexistent/report", CINCH_CODEC="nonsense", NCCL_DEBUG="INFO",
                   ASAN_OPTIONS="detect_leaks=0")
        if preload:
            env["LD_PRELOAD"] = preload
        done = subprocess.run(command, env=env, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=120)
        return done.returncode, done.stdout, done.stderr

    def assert_unnoticed(self, command, files=()):
        outcomes = []
        for preload in (None, PRELOAD):
            with tempfile.TemporaryDirectory() as folder:
                for name, text in files:
                    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                        file.write(text)
                outcomes.append(self.outcome(command, folder, preload))
        self.assertEqual(outcomes[0], outcomes[1], command)
        return outcomes[1]

    def test_small_programs(self):
        for command in (["/bin/true"], ["/bin/sh", "-c", "echo out; exit 5"], ["/bin/ls", "/"],
                        [sys.executable, "-c", "import json, ctypes; print(json.dumps([1]))"]):
            self.assert_unnoticed(command)

    def test_bash(self):
        status, out, err = self.assert_unnoticed(["bash", "-c", BASH])
        self.assertEqual((status, err), (7, b"5\n"))
        self.assertIn(b"sub 3", out)

    def test_ninja(self):
        if shutil.which("ninja") is None:
            self.skipTest("ninja is not installed")
        status, out, _ = self.assert_unnoticed(["ninja", "-v", "-j1"], [("build.ninja", NINJA)])
        self.assertEqual(status, 0)
        self.assertIn(b"one two", out)

    def test_python_workers(self):
        status, out, _ = self.assert_unnoticed([sys.executable, "workers.py"], [("workers.py", PYTHON_WORKERS)])
        self.assertEqual(status, 0)
        self.assertIn(b"replaced\n3\n", out)

    @unittest.skipIf(SANITIZED, "nvcc does not survive a sanitizer's runtime")
    def test_nvcc(self):
        if shutil.which("nvcc") is None:
            self.skipTest("nvcc is not installed")
        status, _, _ = self.assert_unnoticed(["nvcc", "-ptx", "-o", "-", "empty.cu"],
                                             [("empty.cu", "__global__ void nothing() {}\n")])
        self.assertEqual(status, 0)


def symbols_of(library):
    listing = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True)
    return {line.split()[-1] for line in listing.stdout.splitlines()}


def read(*path):
    with open(os.path.join(SOURCE, *path), encoding="utf-8") as file:
        return file.read()


class Binary(unittest.TestCase):
    libcinch = property(lambda self: PRELOAD.split(":")[-1])
    drop_in = property(lambda self: os.path.join(BUILD, "lib", "nccl", "libnccl.so.2"))

    def test_exports_exactly_the_map(self):
        wanted = set(re.findall(r"^\s+(\w+);", read("interpose", "exports.map"), re.M))
        self.assertEqual(symbols_of(self.libcinch), wanted)
        self.assertGreater(len(wanted), 10)

    def test_the_drop_in_exports_every_name_of_nccl(self):
        names = re.findall(r"^CINCH_NCCL_NAME\((\w+)\)", read("interpose", "reach", "nccl_names.def"), re.M)
        self.assertEqual(len(names), len(set(names)))
        self.assertGreater(len(names), 70)
        wanted = {prefix + name for name in names for prefix in ("nccl", "pnccl")} | {"cinchDropIn"}
        self.assertEqual(symbols_of(self.drop_in), wanted)

    def test_the_drop_in_is_called_like_nccl(self):
        dynamic = subprocess.run(["readelf", "-d", self.drop_in], check=True, capture_output=True, text=True).stdout
        self.assertRegex(dynamic, r"SONAME.*\[libnccl\.so\.2\]")

    @unittest.skipIf(SANITIZED, "sanitizers add constructors")
    def test_nothing_of_ours_runs_at_load_time(self):
        """No object of Cinch's has a constructor: those of the library are libstdc++'s own."""
        objects = []
        for folder in ("common", "interpose"):
            for root, _, files in os.walk(os.path.join(BUILD, folder)):
                objects += [os.path.join(root, file) for file in files if file.endswith(".o")]
        self.assertGreater(sum(map(number_of_sources, objects)), 30)
        for file in objects:
            sections = subprocess.run(["readelf", "-SW", file], check=True, capture_output=True, text=True).stdout
            self.assertNotRegex(sections, r"\.(init_array|ctors|preinit_array)", file)

    @unittest.skipIf(SANITIZED, "sanitizers link their own runtime")
    def test_needs_nothing_but_the_c_library(self):
        for library in (self.libcinch, self.drop_in):
            dynamic = subprocess.run(["readelf", "-d", library], check=True, capture_output=True, text=True).stdout
            needed = set(re.findall(r"NEEDED.*\[(.+?)\]", dynamic))
            self.assertIn("libc.so.6", needed)
            self.assertLessEqual(needed, {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"})
            self.assertNotRegex(dynamic, "TEXTREL|STATIC_TLS")


if __name__ == "__main__":
    SOURCE, FAKE, PRELOAD, BUILD = (sys.argv.pop() for _ in range(4))
    unittest.main(verbosity=2)
