"""What emulator/torch/run does around PyTorch: arguments, names, the environment, the end of all processes.

run_parts_test.py BUILD_FOLDER [unittest arguments]; needs no PyTorch.
"""
import contextlib
import importlib.util
import io
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

import torch_environment
import environment
import launch
import names
import report
import supervise
from errors import Unusable

BUILD = ""
RUN = os.path.join(torch_environment.ROOT, "emulator", "torch", "run")
MODULES = os.path.join(torch_environment.ROOT, "emulator", "torch")
NEEDS_VENV = unittest.skipUnless(importlib.util.find_spec("ensurepip"), "this Python makes no virtual environments")


class FolderTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)
        return path


class ArgumentsTest(FolderTest):
    def refusal(self, *arguments, uid=0):
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors), mock.patch("os.geteuid", return_value=uid):
            with self.assertRaises(SystemExit) as refused:
                launch.parse(arguments)
        self.assertEqual(refused.exception.code, 2)
        return errors.getvalue()

    def test_each_mistake_is_named(self):
        script = self.write("train.py", "")
        for arguments, expected in (
                (("-n", "2", "/no/train.py"), "/no/train.py: there is no such file"),
                (("-n", "0", script), "-n 0: at least one rank"),
                (("-n", "3", "--hosts", "2", script), "3 (-n) cannot be divided by 2"),
                (("-n", "2", "--hosts", "2", "--link", "fast", script), "link rate 'fast' is not one of the form"),
                (("-n", "2", "--link", "1gbit", script), "add --hosts 2"),
                (("-n", "2", "--hosts", "2", "--link", "1gbit", "--shared-network", script), "needs network namespaces"),
                (("-n", "2", "--python", "/no/python", script), "--python /no/python: there is no such program"),
                ((script,), "-n/--ranks")):
            self.assertIn(expected, self.refusal(*arguments))

    def test_a_number_of_devices_is_one(self):
        script = self.write("train.py", "")
        for devices in ("abc", "0", "65", "2x"):
            with mock.patch.dict(os.environ, CINCH_EMULATOR_DEVICES=devices):
                self.assertIn(f"CINCH_EMULATOR_DEVICES={devices}: a process can see 1 to 64", self.refusal("-n", "2", script))
        with mock.patch.dict(os.environ, CINCH_EMULATOR_DEVICES="64"):
            self.assertEqual(launch.parse(["-n", "2", script]).ranks, 2)

    def test_a_link_needs_root(self):
        script = self.write("train.py", "")
        self.assertIn("start this as root", self.refusal("-n", "2", "--hosts", "2", "--link", "1gbit", script, uid=1000))

    def test_the_scripts_arguments_are_its_own(self):
        options = launch.parse(["-n", "2", self.write("train.py", ""), "--hosts", "7", "-n", "x"])
        self.assertEqual(options.arguments, ["--hosts", "7", "-n", "x"])
        self.assertEqual(options.hosts, 1)

    def test_a_module_is_no_file(self):
        self.assertEqual(launch.parse(["-n", "2", "-m", "package.train", "1"]).script, "package.train")


class VariablesTest(unittest.TestCase):
    def test_cinch_comes_before_the_emulator_and_the_users_libraries_last(self):
        found = environment.variables(BUILD, "/operators.so", True, {"LD_PRELOAD": "/mine.so", "OMP_NUM_THREADS": "3"})
        loaded = [os.path.basename(path) for path in found["LD_PRELOAD"].split(":")]
        self.assertEqual(loaded, ["libcinch.so", "libcudart.so.13", "libnccl.so.2", "mine.so"])
        self.assertNotIn("OMP_NUM_THREADS", found)

    def test_a_build_without_cinch_is_refused(self):
        with self.assertRaisesRegex(Unusable, "/none/lib/libcinch.so is not there: build"):
            environment.variables("/none", "/operators.so", True, {})


class NamesTest(FolderTest):
    """A PyTorch of another version: its names are told before anything is started."""

    def make_torch(self, version, cuda, wanted="cudaMalloc"):
        self.write("torch/__init__.py", "")
        self.write("torch/version.py", f"__version__ = {version!r}\ncuda = {cuda!r}\n")
        source = self.write("source.c", f"void {wanted}(void); void cublasCreate(void); void cuFileRead(void);\n"
                            f"void use(void) {{ {wanted}(); cublasCreate(); cuFileRead(); }}\n")
        os.makedirs(os.path.join(self.folder, "torch", "lib"))
        library = os.path.join(self.folder, "torch", "lib", "libtorch_cuda.so")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
        return os.path.join(self.folder, "torch")

    def refusal(self, *arguments):
        with self.assertRaises(Unusable) as refused:
            names.require(self.make_torch(*arguments), BUILD, self.folder)
        return str(refused.exception)

    def test_known_names_are_found(self):
        torch = self.make_torch("2.15.0", "13.2")
        names.require(torch, BUILD, self.folder)
        self.assertEqual(names.wanted_names(torch, self.folder), {"cudaMalloc"})

    def test_new_names_are_listed(self):
        text = self.refusal("3.1.0", "13.9", "cudaFromTheFuture")
        self.assertIn("version 3.1.0) wants 1 names that the emulator does not have: cudaFromTheFuture", text)

    def test_other_cuda_versions_and_none_are_named(self):
        self.assertIn("was built for CUDA 12.8", self.refusal("2.9.0", "12.8"))

    def test_a_build_for_cpus_is_named(self):
        self.assertIn("was built without CUDA", self.refusal("2.15.0+cpu", None))

    def test_run_says_so_and_starts_nothing(self):
        self.make_torch("3.1.0", "13.9", "ncclFromTheFuture")
        script = self.write("train.py", "raise SystemExit('started')\n")
        done = subprocess.run([RUN, "-n", "2", "--build", BUILD, "--python", sys.executable, script], text=True,
                              capture_output=True,
                              env=os.environ | {"PYTHONPATH": self.folder, "XDG_CACHE_HOME": self.folder})
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("ncclFromTheFuture", done.stderr)
        self.assertNotIn("started", done.stdout + done.stderr)


class EnvironmentTest(FolderTest):
    def setUp(self):
        super().setUp()
        patch = mock.patch.dict(os.environ, {"XDG_CACHE_HOME": self.folder})
        patch.start()
        self.addCleanup(patch.stop)

    def test_a_half_made_environment_is_not_used(self):
        python = environment.environment_python()
        os.makedirs(os.path.dirname(python))
        os.symlink(sys.executable, python)
        self.assertFalse(environment.is_made())
        with open(os.path.join(environment.environment_folder(), environment.COMPLETE), "w"):
            pass
        self.assertTrue(environment.is_made())

    @NEEDS_VENV
    def test_without_an_index_it_says_so_and_leaves_nothing(self):
        # Nobody listens on port 9 of this machine.
        nowhere = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_EXTRA_INDEX_URL": "", "PIP_FIND_LINKS": ""}
        with mock.patch.dict(os.environ, nowhere), mock.patch.object(environment, "DISK_GB", 0):
            with self.assertRaisesRegex(Unusable, "(?s)index cannot be reached.*--python.*pip install"):
                environment.make()
        self.assertFalse(os.path.exists(environment.environment_folder()))

    @NEEDS_VENV
    def test_a_deadline_ends_the_installation(self):
        with mock.patch.object(environment, "DISK_GB", 0):
            with self.assertRaisesRegex(Unusable, "not installed in the time"):
                environment.make(time.monotonic())
        self.assertFalse(os.path.exists(environment.environment_folder()))

    @NEEDS_VENV
    def test_a_full_disk_is_told_before(self):
        with mock.patch.object(environment, "DISK_GB", 10**9):
            with self.assertRaisesRegex(Unusable, r"has [\d.]+ GB of free disk.*XDG_CACHE_HOME"):
                environment.make()

    def test_a_folder_that_cannot_be_written_to_is_told(self):
        with mock.patch.dict(os.environ, XDG_CACHE_HOME=self.write("file", "")):
            with self.assertRaisesRegex(Unusable, "cannot be written to .*set XDG_CACHE_HOME"):
                environment.make()

    def test_pips_words_are_explained(self):
        for output, meaning in (("ERROR: No matching distribution found for torch==2.15.0", "does not have a pinned"),
                                ("OSError: [Errno 28] No space left on device", "the disk is full"),
                                ("connection broken by 'SSLError(... CERTIFICATE_VERIFY_FAILED] ...", "set PIP_CERT"),
                                ("error: something else", "could not be installed")):
            text = environment.explain_failure(["pip", "install"], output)
            self.assertIn(meaning, text)
            self.assertIn(output, text)

    def test_check_makes_nothing(self):
        done = subprocess.run([sys.executable, "-B", os.path.join(MODULES, "environment.py"), "--check"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("is not there", done.stdout)
        self.assertEqual(os.listdir(self.folder), [])

    def test_every_requirement_is_pinned(self):
        with open(environment.REQUIREMENTS) as file:
            lines = [line.strip() for line in file if line.strip() and not line.startswith("#")]
        for line in lines:
            self.assertRegex(line, r"^[\w.-]+==[\w.]+$")


class ReportTest(unittest.TestCase):
    COMMUNICATOR = {
        "name": "communicator 1 rank 0 of 2", "rank": 0, "ranks": 2,
        "verdict": "all ranks run Cinch with the same settings",
        "slots": [{"name": "AllReduce fp32 Sum x 1000 at 0", "bytes_in": 8000, "wire_bytes": 1000, "bits_per_value": 4.0}],
        "totals": {"bytes_in": 8000},
        "sending": {"examinations": 1, "plain_ms": 2.0, "stateless_ms": 0.0, "full_ms": 1.0, "choice": "full"},
        "calls": [{"name": "AllReduce fp32 Sum x 1000", "class": "gradient", "calls": 4, "bytes": 16000, "compressed": 2,
                   "outcomes": {"compressed": 2, "warmup": 2}},
                  {"name": "Broadcast fp32 x 1000", "class": "other", "calls": 1, "bytes": 4000, "compressed": 0,
                   "outcomes": {"kind": 1}}]}

    def test_shares_and_bits(self):
        calls = report.merged_calls([self.COMMUNICATOR, self.COMMUNICATOR])
        lines = report.totals(calls, [self.COMMUNICATOR, self.COMMUNICATOR])
        self.assertEqual(lines, ["gradients       32.0 kB, 50 % of it compressed",
                                 "compressed      16.0 kB, to 4.00 bits a value at the end",
                                 "all NCCL calls  40.0 kB"])

    def test_small_calls_share_a_line(self):
        small = dict(self.COMMUNICATOR["calls"][1], name="Broadcast int32 x 2", bytes=8)
        lines = report.call_table([*self.COMMUNICATOR["calls"], small, small])
        self.assertEqual([line.split()[0] for line in lines], ["CALL", "AllReduce", "Broadcast", "and"])
        self.assertEqual(lines[-1], "and 2 others, 16 B in all")

    def test_only_what_may_be_a_gradient_is_explained(self):
        calls = report.merged_calls([self.COMMUNICATOR])
        self.assertEqual(report.reasons(calls, {"warmup": ["why"], "kind": ["never"]}), ["why"])

    def test_no_report_is_told(self):
        self.assertIn("made no NCCL communicator", report.summary("/none", "", "cinch"))


class SuperviseTest(FolderTest):
    """A job of two hosts, each a shell that starts something which outlives it."""

    JOB = """
import os, subprocess, sys
sys.path.insert(0, {modules!r})
import supervise
host = ["sh", "-c", "setsid sh -c 'trap \\"\\" TERM; echo $$ >> {folder}/pids; sleep 1000; :' & {rest}"]
clean_up = lambda: os.path.exists({folder!r} + "/scratch") and os.rmdir({folder!r} + "/scratch")
if {prepare!r}:
    try:
        with supervise.interruptible():
            subprocess.run([*host[:2], host[2] + "& " + host[2]])
    except supervise.Interrupted as interrupted:
        sys.exit(interrupted.status)
os.mkdir({folder!r} + "/scratch")
sys.exit(supervise.supervised(lambda: supervise.run_hosts([host, host], [os.environ] * 2), clean_up))
"""

    def start(self, rest, prepare=False):
        job = self.JOB.format(modules=MODULES, folder=self.folder, rest=rest, prepare=prepare)
        process = subprocess.Popen([sys.executable, "-B", "-c", job], stderr=subprocess.DEVNULL)
        self.addCleanup(process.kill)
        deadline = time.monotonic() + 30
        while len(self.pids()) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(len(self.pids()), 2)
        return process

    def pids(self):
        try:
            with open(os.path.join(self.folder, "pids")) as file:
                return [int(line) for line in file]
        except FileNotFoundError:
            return []

    def check_gone(self, seconds=15):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            left = [pid for pid in self.pids() if os.path.exists(f"/proc/{pid}")]
            if not left and not os.path.exists(os.path.join(self.folder, "scratch")):
                return
            time.sleep(0.1)
        self.fail(f"still there: {left} {os.listdir(self.folder)}")

    def test_what_outlives_a_good_end_is_ended(self):
        self.assertEqual(self.start("sleep 1").wait(30), 0)
        self.check_gone(0.5)

    def test_the_first_bad_status_is_the_jobs(self):
        self.assertEqual(self.start("sleep 1; exit 7").wait(30), 7)
        self.check_gone(0.5)

    def test_a_host_that_is_killed(self):
        self.assertEqual(self.start("sleep 1; kill -9 $$").wait(30), 128 + signal.SIGKILL)
        self.check_gone(0.5)

    def test_signals(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            job = self.start("sleep 1000")
            job.send_signal(number)
            self.assertEqual(job.wait(15), 128 + number)
            self.check_gone(0.5)
            os.remove(os.path.join(self.folder, "pids"))

    def test_a_signal_while_things_are_made(self):
        job = self.start("sleep 1000", prepare=True)
        job.send_signal(signal.SIGTERM)
        self.assertEqual(job.wait(15), 128 + signal.SIGTERM)
        self.check_gone(0.5)

    def test_the_first_process_is_killed(self):
        job = self.start("sleep 1000")
        job.kill()
        self.check_gone()

    def test_the_keeper_is_killed(self):
        job = self.start("sleep 1000")
        [keeper] = [pid for pid in supervise.descendants(job.pid)
                    if pid not in self.pids() and self.parent(pid) == job.pid]
        os.kill(keeper, signal.SIGKILL)
        self.assertEqual(job.wait(15), 128 + signal.SIGKILL)
        self.check_gone(0.5)

    @staticmethod
    def parent(pid):
        with open(f"/proc/{pid}/stat") as file:
            return int(file.read().rpartition(")")[2].split()[1])


if __name__ == "__main__":
    BUILD = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
