"""The Grafana dashboard asks for what Cinch's metrics have, in queries that Prometheus can parse.

    dashboard_test.py BUILD [unittest arguments]"""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import job  # noqa: E402
import promtool  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DASHBOARD = os.path.join(ROOT, "packaging", "grafana", "cinch.json")
SOURCE = os.path.join(ROOT, "common", "metrics_format.cc")
BUILD = None
WIDTH = 24  # of Grafana's grid
METRIC = re.compile(r"\bcinch_\w+")


def queries(board):
    return [target["expr"] for panel in board["panels"] for target in panel["targets"]]


def check_syntax(expressions):
    """What promtool says against them; empty: nothing."""
    rules = [{"record": f"q{i}", "expr": e.replace("$__rate_interval", "5m")} for i, e in enumerate(expressions)]
    with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
        json.dump({"groups": [{"name": "dashboard", "rules": rules}]}, file)
        file.flush()
        done = subprocess.run([promtool.find(), "check", "rules", file.name], capture_output=True, text=True,
                              check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def overlap(one, other):
    return (one["x"] < other["x"] + other["w"] and other["x"] < one["x"] + one["w"]
            and one["y"] < other["y"] + other["h"] and other["y"] < one["y"] + one["h"])


class Dashboard(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with open(DASHBOARD, encoding="utf-8") as file:
            cls.board = json.load(file)

    def test_every_metric_is_written(self):
        with open(SOURCE, encoding="utf-8") as file:
            written = set(re.findall(r'"(cinch_\w+)"', file.read()))
        asked = set(METRIC.findall(json.dumps(self.board["panels"])))
        self.assertEqual(asked - written, set())
        # cinch_start_time_seconds and how often the guard looked serve alerts.
        self.assertLessEqual(len(written - asked), 5, written - asked)

    @unittest.skipUnless(promtool.find(), "needs promtool, of Debian's prometheus")
    def test_queries(self):
        self.assertEqual(check_syntax(queries(self.board)), "")
        self.assertNotEqual(check_syntax(["sum(cinch_info"]), "")

    def test_labels_are_those_of_a_job(self):
        with tempfile.TemporaryDirectory() as folder, job.Job(BUILD, folder) as running:
            running.wait_for_slots()
            text = ""
            for path in running.left(".prom"):
                with open(path, encoding="utf-8") as file:
                    text += file.read()
        # `job` is what Prometheus adds, `cause` and `stage` are those of figures that are rare.
        known = set(re.findall(r'[{,](\w+)="', text)) | {"job", "cause", "stage"}
        for query in queries(self.board):
            used = re.findall(r"[{,](\w+)=~", query)
            for names in re.findall(r"by \(([\w, ]+)\)", query):
                used += names.split(", ")
            self.assertEqual(set(used) - known, set(), query)

    def test_panels_lie_side_by_side(self):
        places = [panel["gridPos"] for panel in self.board["panels"]]
        for i, place in enumerate(places):
            self.assertLessEqual(place["x"] + place["w"], WIDTH)
            self.assertFalse([other for other in places[:i] if overlap(place, other)])
        self.assertEqual(len({panel["id"] for panel in self.board["panels"]}), len(places))


if __name__ == "__main__":
    BUILD = sys.argv.pop(1)
    unittest.main(verbosity=2)
