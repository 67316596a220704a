"""`cinch stats` beside a running job, and what it says of files that are no reports; the metrics as
Prometheus's own checker sees them.

    stats_test.py BUILD [unittest arguments]"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import job  # noqa: E402
import promtool  # noqa: E402

BUILD = None
DEADLINE = 60


def stats(*words):
    return subprocess.run([os.path.join(BUILD, "bin", "cinch"), "stats", *words], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, check=False, timeout=DEADLINE)


class Running(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        cls.job = job.Job(BUILD, cls.folder, SLURM_JOB_ID="4711")
        cls.addClassCleanup(cls.job.kill)
        cls.job.wait_for_slots()

    def slot(self, view):
        (comm,) = (comm for comm in view["communicators"] if comm["slots"])
        self.assertEqual((comm["ranks"], comm["reports"]), (job.RANKS, job.RANKS))
        return comm["slots"][0]

    def test_all_ranks_are_one_table(self):
        done = stats(*self.job.left(".json"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"^2 reports, written \d+ to \d+ s ago\n")
        self.assertRegex(done.stdout, r"AllReduce fp32 Sum x 262144 +0 +q4 +2 ")

    def test_watching(self):
        done = stats("--watch", "0.5", "--views", "6", "--json", self.folder)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        slots = [self.slot(json.loads(line)) for line in done.stdout.splitlines()]
        self.assertEqual(len(slots), 6)
        self.assertGreater(slots[-1]["calls"], slots[0]["calls"])
        self.assertGreater(slots[-1]["payload_bytes_per_second"], 0)
        # q4 of two ranks: 8 times fewer bytes, but for the scales.
        self.assertAlmostEqual(slots[-1]["ratio"], 7.5, delta=0.5)

    @unittest.skipUnless(promtool.find(), "needs promtool, of Debian's prometheus")
    def test_metrics(self):
        for path in self.job.left(".prom"):
            self.assertEqual(job.faults_of_metrics(path), "")
            with open(path, encoding="utf-8") as file:
                text = file.read()
            self.assertIn('slurm_job_id="4711"', text)
            self.assertIn("cinch_compression_ratio{", text)

    def test_that_something_wrong_is_found(self):
        path = os.path.join(self.folder, "wrong.prom")
        with open(path, "w", encoding="utf-8") as file:
            file.write("cinch_calls{ 1\n")
        if promtool.find():
            self.assertNotEqual(job.faults_of_metrics(path), "")
        self.assertNotEqual(job.faults_of_report(path), "")


class Refused(unittest.TestCase):
    def test_files_that_are_no_reports(self):
        with tempfile.TemporaryDirectory() as folder:
            self.refuse(folder, "no report is in", folder)
            missing = os.path.join(folder, "missing.json")
            self.refuse(missing, "there is no such file", missing)
            for content in ("", "[]", '{"format": 2}'):
                path = os.path.join(folder, "other.json")
                with open(path, "w", encoding="utf-8") as file:
                    file.write(content)
                self.refuse(path, "no report that CINCH_STATS has written", path)
        self.refuse("--watch", "FILE")

    def refuse(self, path, *parts):
        done = stats(path)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        for part in parts:
            self.assertIn(part, done.stderr)


if __name__ == "__main__":
    BUILD = sys.argv.pop(1)
    unittest.main(verbosity=2)
