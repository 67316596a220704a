"""Traces of CINCH_TRACE: every rank's can be opened, whenever it is looked at, and its stages lie within their
calls.

    trace_test.py BUILD [unittest arguments]"""

import json
import os
import re
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "support")]

import job  # noqa: E402
from ranks import run_ranks  # noqa: E402

BUILD = None
STAGES = {"encode", "exchange", "reduce", "gather", "decode"}
DEADLINE = 60


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def spans(trace):
    return [event for event in trace["traceEvents"] if event["ph"] == "X"]


def tracks(trace, ending):
    """Threads of a trace that are called so, with a number or without."""
    return {event["tid"] for event in trace["traceEvents"] if event["name"] == "thread_name"
            and re.search(f": {ending}( \\d)?$", event["args"]["name"])}


def calls(trace):
    """Those of the device, each with the stages that lie within it."""
    on_stream = [span for span in spans(trace) if span["tid"] in tracks(trace, "caller's stream")]
    found = []
    for whole in on_stream:
        if whole["name"] in STAGES:
            continue
        end = whole["ts"] + whole["dur"]
        inner = [span for span in spans(trace) if span["name"] in STAGES and whole["ts"] <= span["ts"] < end]
        found.append((whole, inner))
    return found


class Trace(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def start(self, **settings):
        settings.setdefault("CINCH_TRACE", f"{self.folder}/report.%p")
        running = job.Job(BUILD, self.folder, CINCH_TRACE_EVERY="50", **settings)
        self.addCleanup(running.kill)
        return running

    def wait_for_spans(self, running):
        running.wait_until(lambda: len(running.left(".trace.json")) == job.RANKS
                           and all(spans(read(path)) for path in running.left(".trace.json")), DEADLINE)
        return [read(path) for path in running.left(".trace.json")]

    def test_stages_lie_within_their_calls(self):
        for trace in self.wait_for_spans(self.start()):
            self.assertTrue(calls(trace))
            for whole, inner in calls(trace):
                self.assertRegex(whole["name"], "^AllReduce fp32 Sum x 262144")
                self.assertEqual(whole["args"]["codec"], "q4")
                # A pair has no stage of its own to gather and decode in.
                self.assertLessEqual({"encode", "exchange", "reduce"}, {span["name"] for span in inner})
                for span in inner:
                    self.assertLessEqual(span["ts"] + span["dur"], whole["ts"] + whole["dur"] + 0.5)
                    self.assertGreaterEqual(span["dur"], 0)

    def test_stages_of_one_track_follow_each_other(self):
        for trace in self.wait_for_spans(self.start(CINCH_CHUNKS="4", CINCH_PAIR="off")):
            for whole, inner in calls(trace):
                self.assertEqual(sum(span["name"] == "decode" for span in inner), 4)
                for track in {span["tid"] for span in inner}:
                    ordered = sorted((span for span in inner if span["tid"] == track), key=lambda span: span["ts"])
                    for first, second in zip(ordered, ordered[1:]):
                        self.assertLessEqual(first["ts"] + first["dur"], second["ts"] + 2, (first, second))

    def test_calls_of_a_group_do_not_cross(self):
        self.hashes("--grouped", "1", CINCH_TRACE=f"{self.folder}/t", CINCH_TRACE_EVERY="1", NCCL_DEBUG="WARN")
        trace = read(f"{self.folder}/t.trace.json")
        for track in {span["tid"] for span in spans(trace)}:
            ordered = sorted((span for span in spans(trace) if span["tid"] == track and span["name"] not in STAGES),
                             key=lambda span: span["ts"])
            for first, second in zip(ordered, ordered[1:]):
                self.assertLessEqual(first["ts"] + first["dur"], second["ts"] + 2, (first, second))

    def test_times_are_those_of_the_clock(self):
        before = time.time() * 1e6
        for trace in self.wait_for_spans(self.start()):
            for span in spans(trace):
                self.assertGreater(span["ts"], before)
                self.assertLess(span["ts"] + span["dur"], time.time() * 1e6)

    def test_what_is_killed_leaves_a_trace(self):
        for _ in range(3):
            running = self.start()
            self.wait_for_spans(running)
            running.kill()
            for path in running.left(".trace.json"):
                self.assertTrue(spans(read(path)))
                os.remove(path)

    def test_a_folder_that_is_not_there(self):
        running = self.start(CINCH_TRACE="/dev/null/none")
        running.wait_for_slots()
        time.sleep(1.5)  # and it has been tried again
        self.assertIsNone(running.process.poll())
        with open(f"{self.folder}/log", encoding="utf-8") as file:
            warnings = re.findall(r"WARN.*CINCH_TRACE says where.*", file.read())
        self.assertEqual(len(warnings), job.RANKS, warnings)

    def test_results_are_the_same_bits(self):
        """As the hashes of rank_program show, which makes its values from its rank."""
        hashes = [self.hashes(), self.hashes(CINCH_TRACE=f"{self.folder}/t.%p", CINCH_TRACE_EVERY="1")]
        self.assertEqual(len(hashes[0]), 12)
        self.assertEqual(*hashes)

    def hashes(self, *options, **settings):
        program = os.path.join(BUILD, "tests", "interpose_rank")
        settings.update(LD_PRELOAD=os.path.join(BUILD, "lib", "libcinch.so"), CINCH_SLOTS="signature",
                        CINCH_WHEN="always", CINCH_CODEC="q4")
        outcomes = run_ranks([program, "--count", "300000", "--calls", "6", *options], 2, settings, deadline=DEADLINE)
        self.assertEqual([outcome.status for outcome in outcomes], [0, 0], outcomes[0].output)
        return [words[4] for outcome in outcomes for words in outcome.lines("call")]


if __name__ == "__main__":
    BUILD = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
