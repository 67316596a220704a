"""The comparison as a whole, with ranks that train nothing: table, JSON, and what it does about
ranks that die or hang."""

import glob
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import support
from support import is_gone, wait_until

FAKE = os.path.join(support.HERE, "fake_rank.py")
DRIVER = os.path.join(support.TRAIN, "compare.py")
DEADLINE = support.DEADLINE
STALL = 4


class DriverTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.cinch = os.path.join(self.folder, "cinch")
        with open(self.cinch, "w") as file:
            file.write('#!/bin/sh\n[ "$1 $2" = "run --" ] || exit 9\nshift 2\nexec "$@"\n')
        os.chmod(self.cinch, 0o755)
        self.json = os.path.join(self.folder, "results", "all.json")

    def command(self, *arguments, script=FAKE):
        cut = arguments.index("--") if "--" in arguments else len(arguments)
        flags = ["--cinch", self.cinch, "--json", self.json, "--logs", self.folder, "--steps", "8"]
        words = [sys.executable, "-B", DRIVER, script, *flags]
        return [*words, *arguments[:cut], *arguments[cut:]]

    def run_driver(self, *arguments, **options):
        done = subprocess.run(
            self.command(*arguments, **options),
            capture_output=True,
            text=True,
            timeout=DEADLINE,
            # What a user has set is not for the comparison.
            env=dict(os.environ, CINCH_CODEC="q2"),
        )
        return done.returncode, done.stdout, done.stderr

    def results(self):
        with open(self.json) as file:
            return json.load(file)

    def children(self, ranks=2):
        """Of the ranks, as they have written it down."""
        paths = [os.path.join(self.folder, f"child{rank}") for rank in range(ranks)]
        wait_until(lambda: all(map(os.path.exists, paths)))
        return [int(pathlib.Path(path).read_text()) for path in paths]


class ComparisonTest(DriverTest):
    def test_table_and_json(self):
        status, output, errors = self.run_driver("--hosts", "2", "--target", "3.5")
        self.assertEqual((status, errors), (0, ""))
        rows = [line.split() for line in output.splitlines()]
        self.assertIn("plain 200.0 ms 1.000 500 - - 2.0500 0.8 s".split(), rows)
        self.assertIn("bf16 150.0 ms 0.750 667 - - 2.0500 0.6 s".split(), rows)
        self.assertIn("cinch-q4 50.0 ms 0.250 2000 - 1.00 kB 2.0500 0.2 s".split(), rows)
        found = self.results()
        self.assertLess(
            {"date", "commit", "command", "machine", "network", "target_loss", "steps"}, set(found)
        )
        self.assertIn(FAKE, found["command"])
        self.assertEqual(found["machine"]["cores"], len(os.sched_getaffinity(0)))
        self.assertEqual(len(found["runs"]), 2 * 6)
        self.assertEqual(found["variants"]["cinch"]["cinch_wire_bytes"], 500)
        self.assertEqual(found["variants"]["cinch-q8"]["cinch_wire_bytes"], 2000)
        settings = {run["variant"]: run["settings"] for run in found["runs"]}
        self.assertEqual(settings["plain"], None)
        self.assertEqual((settings["cinch"], settings["cinch-q8"]), ({}, {"CINCH_CODEC": "q8"}))
        self.assertEqual({run["seed"] for run in found["runs"] if run["round"] == 2}, {2})

    def test_a_comparison_that_means_nothing_says_so(self):
        for arguments, why in (
            (("--variants", "plain,cinch", "--set", "CINCH_MODE=observe"), "compressed nothing"),
            (("--variants", "plain", "--", "--differ"), "different parameters"),
            (("--variants", "plain", "--", "--nan"), "a loss is no number"),
        ):
            with self.subTest(why=why):
                status, output, _ = self.run_driver("--rounds", "1", *arguments)
                self.assertEqual(status, 1)
                self.assertIn(f"PROBLEM {arguments[1].split(',')[-1]}, round 1: ", output)
                self.assertIn(why, output)
                self.assertTrue(self.results()["problems"])

    def test_bytes_are_counted_where_links_are_limited(self):
        status, output, errors = self.run_driver("--variants", "plain", "--link", "1gbit")
        if "namespaces are not available" in errors:
            self.skipTest("network namespaces are not allowed here")
        self.assertEqual((status, errors), (0, ""))
        self.assertIn("5.00 kB", output)
        self.assertEqual(self.results()["hosts"], 2)


class FailureTest(DriverTest):
    def test_a_dying_rank_ends_the_comparison_and_is_quoted(self):
        status, _, errors = self.run_driver("--", "--die", "--state", self.folder)
        self.assertEqual(status, 1)
        self.assertIn("plain, round 1: rank 1 ended with status 1", errors)
        self.assertIn("the reason", errors)
        self.assertFalse(os.path.exists(self.json))
        for child in self.children():
            wait_until(lambda: is_gone(child))

    def test_the_figures_of_the_jobs_before_stay(self):
        unknown = ("--set", "CINCH_CODEC=q7")
        status, _, errors = self.run_driver("--variants", "plain,cinch", "--rounds", "1", *unknown)
        self.assertEqual(status, 1)
        # Both ranks fail, and either may be the first to be seen.
        self.assertRegex(errors, "cinch, round 1: rank [01] ended with status 1")
        self.assertFalse(os.path.exists(self.json))
        with open(self.json + ".partial") as file:
            found = json.load(file)
        self.assertEqual(list(found["variants"]), ["plain"])
        self.assertEqual(len(found["runs"]), 1)

    def test_a_hanging_rank_ends_the_comparison_in_time(self):
        started = time.monotonic()
        arguments = ("--stall", str(STALL), "--", "--hang", "--state", self.folder)
        status, _, errors = self.run_driver(*arguments)
        self.assertEqual(status, 1)
        self.assertIn(f"rank 0 printed no figures for {STALL} s", errors)
        # What is stated, and Python's start on a busy machine; the ranks would sleep for 1000 s.
        self.assertLess(time.monotonic() - started, STALL + 100)
        # On such a machine a rank may have had no time to start one.
        for path in glob.glob(os.path.join(self.folder, "child[01]")):
            child = int(pathlib.Path(path).read_text())
            wait_until(lambda: is_gone(child))

    def test_an_interrupted_comparison_leaves_no_process(self):
        driver = subprocess.Popen(
            self.command("--", "--hang", "--state", self.folder),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        children = self.children()
        driver.send_signal(signal.SIGTERM)
        self.assertIn("its processes are gone", driver.communicate(timeout=DEADLINE)[1])
        self.assertEqual(driver.returncode, 130)
        for child in children:
            wait_until(lambda: is_gone(child))

    def test_a_variant_of_cinch_without_its_report_is_an_error(self):
        with open(self.cinch, "w") as file:
            file.write('#!/bin/sh\nshift 2\nunset CINCH_STATS\nexec "$@"\n')
        status, _, errors = self.run_driver("--variants", "plain,cinch", "--rounds", "1")
        self.assertEqual(status, 1)
        self.assertIn("cinch, round 1: rank 0 left no report of Cinch's", errors)

    def test_bad_values_are_named(self):
        for arguments, why in (
            (("--link", "fast"), "link rate 'fast'"),
            (("--ranks", "0"), "at least 1"),
            (("--hosts", "3"), "more than the 2 ranks"),
            (("--set", "MODE=off"), "CINCH_NAME=VALUE"),
            (("--variants", "zip"), "'zip' is none of"),
            (("--cinch", "/nonexistent"), "/nonexistent: no such program"),
            (("--wrap", "fsdp2", "--variants", "powersgd"), "hook of DDP"),
            (("--device", "cpu", "--variants", "cinch"), "gloo"),
        ):
            with self.subTest(arguments=arguments):
                status, _, errors = self.run_driver(*arguments)
                self.assertEqual(status, 2)
                self.assertIn(why, errors)
        status, _, errors = self.run_driver(script="bert")
        self.assertEqual(status, 2)
        self.assertIn("bert is neither of gpt, resnet50 nor a file", errors)


class MissingTorchTest(DriverTest):
    """PyTorch may be installed here, so one that is missing is put in front of it."""

    def setUp(self):
        super().setUp()
        with open(os.path.join(self.folder, "torch.py"), "w") as file:
            file.write("raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')\n")
        os.environ["PYTHONPATH"] = self.folder
        self.addCleanup(os.environ.pop, "PYTHONPATH")

    def test_the_scripts_say_what_to_install(self):
        for name in ("gpt", "resnet50"):
            done = subprocess.run(
                [sys.executable, "-B", os.path.join(support.TRAIN, f"{name}.py")],
                capture_output=True,
                text=True,
                timeout=DEADLINE,
            )
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, "^PyTorch is not installed .*: pip install torch\n$")

    def test_so_does_the_driver(self):
        status, _, errors = self.run_driver("--rounds", "1", script="gpt")
        self.assertEqual(status, 1)
        self.assertIn("pip install torch", errors)


if __name__ == "__main__":
    unittest.main(verbosity=2)
