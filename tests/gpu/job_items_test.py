"""What the job items conclude, on results whose meaning is known, and how they run jobs, with scripts in place of
PyTorch's and JAX's. No GPU, no framework."""

import glob
import json
import os
import tempfile
import textwrap
import types
import unittest
from unittest import mock

import check_support
import job_items
from check_support import RANKS, Context, Failure, Skip

Ended = types.SimpleNamespace

# A job of either framework. Its body sets `report`, which is left where the job is preloaded, and `result`.
SCRIPT = """
import argparse, json, os, signal, sys
parser = argparse.ArgumentParser()
for name in ("--rank", "--ranks"):
    parser.add_argument(name, type=int)
parser.add_argument("--id-file")
parser.add_argument("--out")
options = parser.parse_args()
rank, preloaded = options.rank, "LD_PRELOAD" in os.environ
assert os.environ["NCCL_HOSTID"].endswith(str(rank)) and os.environ["NCCL_SOCKET_IFNAME"] == "lo"
assert preloaded == ("CINCH_STATS" in os.environ)
def leave_report():
    if preloaded:
        with open(os.environ["CINCH_STATS"] + ".json", "w") as file:
            json.dump(report, file)
{body}
leave_report()
if options.out:
    with open(options.out, "w") as file:
        json.dump(result, file)
"""


def report(calls, kind="AllReduce"):
    slots = [{"name": f"{kind} fp32 Sum x {count}", "calls": n} for count, n in calls]
    return {"communicators": [{"name": "communicator 1", "verdict": "compressing", "slots": slots,
                               "passed": {"small": {"calls": 3, "bytes": 12}}}]}


def trained(losses, weights=5):
    return [{"losses": losses, "weights": weights} for _ in range(RANKS)]


def replayed(*errors):
    return [{"replays": [{"nmse": error, "checksum": number} for number, error in enumerate(errors)]}
            for _ in range(RANKS)]


class Judges(unittest.TestCase):
    def test_compressed_calls_are_counted_by_kind(self):
        mixed = report([(100, 4), (200, 5)])
        mixed["communicators"] += report([(100, 7)], "ReduceScatter")["communicators"]
        self.assertEqual(job_items.compressed_calls(mixed, "AllReduce"), 9)
        self.assertEqual(job_items.compressed_calls(mixed, "ReduceScatter"), 7)
        self.assertEqual(job_items.compressed_calls(mixed, "AllGather"), 0)
        self.assertEqual(job_items.compressed_calls({"communicators": []}, "AllReduce"), 0)

    def test_every_rank_must_have_compressed_the_kind(self):
        good = report([(100, 4)])
        self.assertEqual(job_items.judge_reports([good, good], "AllReduce"), 4)
        with self.assertRaisesRegex(Failure, "rank 1 compressed no AllReduce: communicator 1: compressing.*small"):
            job_items.judge_reports([good, report([(100, 0)])], "AllReduce")
        with self.assertRaisesRegex(Failure, "rank 0 compressed no ReduceScatter"):
            job_items.judge_reports([good, good], "ReduceScatter")
        with self.assertRaisesRegex(Failure, "no communicators"):
            job_items.judge_reports([{"communicators": []}] * 2, "AllReduce")
        with self.assertRaisesRegex(Failure, r"different numbers.*\[4, 5\]"):
            job_items.judge_reports([good, report([(100, 5)])], "AllReduce")

    def test_training_may_differ_a_little_in_the_loss_and_must_differ_in_the_weights(self):
        start = [9.0] * 30
        outcome = job_items.judge_training(trained(start + [2.0] * 10),
                                           trained(start + [2.039] * 10, weights=6))
        self.assertEqual(outcome.state, "pass")
        self.assertAlmostEqual(outcome.figures["compressed"], 2.039)
        for loss in (2.05, 1.95, float("nan")):
            with self.assertRaisesRegex(Failure, "loss .* against 2.0"):
                job_items.judge_training(trained([2.0] * 10), trained([loss] * 10, weights=6))
        with self.assertRaisesRegex(Failure, "same weights"):
            job_items.judge_training(trained([2.0] * 10), trained([2.0] * 10))

    def test_the_ranks_of_either_run_must_hold_the_same_weights(self):
        good, torn = trained([2.0] * 10, weights=6), trained([2.0] * 10)
        torn[1]["weights"] = 7
        with self.assertRaisesRegex(Failure, "compressed: the ranks' weights differ"):
            job_items.judge_training(good, torn)
        with self.assertRaisesRegex(Failure, "plain: the ranks' weights differ"):
            job_items.judge_training(torn, good)

    def test_each_replay_must_be_compressed_and_right(self):
        plain = replayed(1e-15, 1e-15)
        outcome = job_items.judge_replays(plain, replayed(4e-5, 3e-5))
        self.assertEqual(outcome.figures["nmse"], 4e-5)
        for error in (1e-15, 1e-3, 1.0, float("nan")):  # exact, noisy, stale, broken
            with self.assertRaisesRegex(Failure, "q8: replay 1"):
                job_items.judge_replays(plain, replayed(4e-5, error))
        with self.assertRaisesRegex(Failure, "plain: replay 0"):
            job_items.judge_replays(replayed(1e-5, 1e-15), replayed(4e-5, 3e-5))
        torn = replayed(4e-5, 3e-5)
        torn[1]["replays"][1]["checksum"] = 77
        with self.assertRaisesRegex(Failure, "q8: the ranks differ in replay 1"):
            job_items.judge_replays(plain, torn)
        with self.assertRaisesRegex(Failure, "nothing was replayed"):
            job_items.judge_replays(replayed(), replayed())

    def test_an_abort_must_end_everybody(self):
        job_items.judge_abort([Ended(status=1, output=""), Ended(status=0, output="")])
        job_items.judge_abort([Ended(status=-6, output=""), Ended(status=0, output="")])
        for statuses, words in (((None, 0), "rank 0 hung: last words"), ((1, None), "rank 1 hung"),
                                ((1, -11), "the rank that aborts ended with -11"),
                                ((0, 0), "rank 0 did not notice")):
            with self.assertRaisesRegex(Failure, words):
                job_items.judge_abort([Ended(status=status, output="last words") for status in statuses])


class Runs(unittest.TestCase):
    """With real processes, but scripts of our own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        for name, value in (("JOBS", self.folder), ("lacks", lambda framework: ""), ("ABORT_SECONDS", 20),
                            ("JOB_SECONDS", 20)):
            patch = mock.patch.object(job_items, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        # An LD_PRELOAD that the loader finds, and that does nothing.
        self.context = Context(root="", build=self.folder, gpu=None, mps=Ended(environment={}, reason=None),
                               cmake_arguments=[])
        preload = mock.patch.object(self.context, "preload",
                                    lambda **settings: {"LD_PRELOAD": "libc.so.6", **settings})
        preload.start()
        self.addCleanup(preload.stop)

    def script(self, body, name="job.py"):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write(SCRIPT.replace("{body}", body))

    def training(self, body, **options):
        self.script(body)
        return job_items.job_item("job.py", "torch", "AllReduce", job_items.judge_training, **options)(self.context)

    GOOD = textwrap.dedent(f"""
        report = {json.dumps(report([(100, 40)]))}
        result = {{"losses": [2.0] * 10, "weights": 6 if preloaded else 5, "torch": "2.0"}}
        """)

    def test_a_good_job_passes_with_its_figures(self):
        outcome = self.training(self.GOOD)
        self.assertEqual((outcome.state, outcome.figures["calls"]), ("pass", 40))
        self.assertEqual(outcome.figures["framework"], "2.0")
        self.assertIn("40 AllReduces compressed", outcome.note)

    def test_settings_of_an_item_reach_both_runs(self):
        body = 'assert os.environ["EXTRA"] == "1"' + self.GOOD
        self.assertEqual(self.training(body, environment={"EXTRA": "1"}).state, "pass")

    def test_a_job_that_fails_only_under_cinch_fails(self):
        with self.assertRaisesRegex(Failure, "rank 1 ended with 3: broken"):
            self.training('if preloaded and rank == 1: print("broken"); sys.exit(3)' + self.GOOD)

    def test_a_job_that_fails_plain_too_is_skipped_with_the_reason(self):
        with self.assertRaisesRegex(Skip, "fails without Cinch, too: rank 0 ended with 3: old"):
            self.training('print("old"); sys.exit(3)')

    def test_a_job_that_says_what_it_lacks_is_skipped_with_its_words(self):
        with self.assertRaisesRegex(Skip, "^no fully_shard$"):
            self.training('print("no fully_shard"); sys.exit(77)')

    def test_a_hanging_job_is_named(self):
        with mock.patch.object(job_items, "JOB_SECONDS", 2):
            with self.assertRaisesRegex(Failure, "rank 0 hung"):
                self.training("if preloaded: signal.pause()" + self.GOOD)

    def test_a_job_that_cinch_never_saw_fails(self):
        with self.assertRaisesRegex(Failure, "rank 0 wrote no report"):
            self.training(self.GOOD + "preloaded = False")

    def test_a_missing_framework_is_a_skip(self):
        with mock.patch.object(job_items, "lacks", lambda framework: f"no {framework}"):
            for _, item in job_items.ITEMS:
                with self.assertRaisesRegex(Skip, "^no (torch|jax)$"):
                    item(self.context)

    def test_an_overlap_tells_what_both_shares_of_the_gpu_cost(self):
        body = textwrap.dedent(f"""
            report = {json.dumps(report([(100, 9)]))}
            both = 4 + 8 / int(os.environ["CINCH_SM_PERCENT"]) * 25 + rank if preloaded else 3
            result = {{"ms": {{"products": 1.0, "reduce": 2.0, "both": both}}}}
            """)
        self.script(body, "overlap.py")
        figures = job_items.overlap_item(self.context).figures
        self.assertEqual([figures[f"{name} both_ms"] for name in ("25%", "100%", "plain")], [13.0, 7.0, 3])
        self.script("if not preloaded: sys.exit(3)" + body, "overlap.py")
        outcome = job_items.overlap_item(self.context)
        self.assertIn("100%: products 1.00 ms, reduce 2.00 ms, both 7.00 ms", outcome.note)
        self.assertNotIn("plain", outcome.note)

    ABORTING = textwrap.dedent(f"""
        report, result = {json.dumps(report([(100, 9)]))}, {{}}
        leave_report()
        if rank != options.ranks - 1: os.abort()
        """)

    def test_an_abort_that_ends_everybody_passes(self):
        self.script(self.ABORTING, "abort.py")
        outcome = job_items.abort_item(self.context)
        self.assertEqual((outcome.state, outcome.figures["calls"]), ("pass", 9))

    def test_an_abort_that_leaves_a_rank_hanging_only_under_cinch_fails(self):
        self.script(self.ABORTING.replace("os.abort()", "signal.pause() if preloaded else os.abort()"), "abort.py")
        with mock.patch.object(job_items, "ABORT_SECONDS", 2), self.assertRaisesRegex(Failure, "rank 0 hung"):
            job_items.abort_item(self.context)

    def test_an_abort_before_anything_was_compressed_proves_nothing(self):
        self.script(self.ABORTING.replace('"calls": 9', '"calls": 0'), "abort.py")
        with self.assertRaisesRegex(Failure, "nothing had been compressed"):
            job_items.abort_item(self.context)


class Scripts(unittest.TestCase):
    PATHS = sorted(glob.glob(os.path.join(job_items.JOBS, "*.py")))

    def test_are_plain_programs(self):
        self.assertGreaterEqual(len(self.PATHS), 8)
        for path in self.PATHS:
            with self.subTest(os.path.basename(path)), open(path, encoding="utf-8") as file:
                text = file.read()
                self.assertNotIn("cinch", text.lower())
                compile(text, path, "exec")

    def test_a_probe_of_what_is_not_there_says_so(self):
        with mock.patch.dict(job_items.SEES_GPU, torch="import nosuchmodule"):
            job_items.lacks.cache_clear()
            self.addCleanup(job_items.lacks.cache_clear)
            self.assertIn("has no torch that sees the GPU", job_items.lacks("torch"))


class ReadResult(unittest.TestCase):
    def test_tells_how_a_rank_ended(self):
        for status, error, words in ((77, Skip, "^last$"), (None, Failure, "rank 1 hung: first . last"),
                                     (-9, Failure, "rank 1 ended with -9")):
            with self.assertRaisesRegex(error, words):
                check_support.read_result(1, Ended(status=status, output="first\nlast\n"), "/nowhere")


if __name__ == "__main__":
    unittest.main()
