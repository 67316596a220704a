"""CINCH_CALL_LOG under rank_program: the lines say what the program did, and the program does the same.

Arguments: PROGRAM PRELOAD.
"""

import json
import os
import tempfile
import time

import interposed
from interposed import WARMUP, Base, calls, launch

COUNT = 100000
KINDS = ["AllGather", "Broadcast", "Broadcast", "Broadcast"]  # what DDP says before its first reduction


def read(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


class CallLog(Base):
    def launch(self, ranks=2, env=None, **options):
        """(outcomes, the lines of each rank)"""
        with tempfile.TemporaryDirectory() as folder:
            logs = {rank: {"CINCH_CALL_LOG": f"{folder}/{rank}"} for rank in range(ranks)}
            outcomes = launch(ranks, env=env, rank_env=logs, count=COUNT, **options)
            self.assert_done(outcomes)
            self.left = os.listdir(folder)
            return outcomes, [read(f"{folder}/{rank}.calls.jsonl") for rank in range(ranks) if self.left]

    def assert_like_the_program(self, lines, n_calls, **expected):
        self.assertEqual([line["call"] for line in lines], list(range(1, len(lines) + 1)))
        times = [line["time"] for line in lines]
        self.assertEqual(times, sorted(times))
        self.assertLess(0, time.monotonic() * 1e6 - times[-1], "it is the clock of time.monotonic()")
        self.assertLess(time.monotonic() * 1e6 - times[0], 120e6)
        self.assertEqual([line["kind"] for line in lines], KINDS + ["AllReduce"] * n_calls)
        for line in lines:
            self.assertEqual([line["comm"], line["thread"], line["result"], line["captured"]],
                             [1, "main", 0, False])
        for line in lines[len(KINDS):]:
            self.assertEqual({name: line[name] for name in expected}, expected)

    def test_lines_are_what_the_program_did(self):
        outcomes, logs = self.launch(3, env={"CINCH_CODEC": "q4"}, extra="ddp", calls=8)
        for rank, lines in enumerate(logs):
            self.assert_like_the_program(lines, 8, op="Sum", type="fp32", count=COUNT, root=-1, group=0,
                                         rank=rank, ranks=3)
            self.assertEqual([line["outcome"] for line in lines[len(KINDS):]],
                             ["warmup"] + ["preparing"] * (WARMUP - 1) + ["compressed"] * 5)
            self.assertEqual(len({(line["send"], line["recv"]) for line in lines[len(KINDS):]}), 1)
            self.assertEqual([line["output"] for line in lines[:len(KINDS)]],
                             [[2, 2, 2], [1000, 100, 100, 1, 0, 1], [1, 0, 1], [2]])
        self.assert_compressed(outcomes, "q4")

    def test_samples_add_up(self):
        _, logs = self.launch(2, env={"CINCH_MODE": "observe"}, extra="ddp")
        for one, other in list(zip(*logs))[len(KINDS):]:
            self.assertEqual([a + b for a, b in zip(one["input"], other["input"])], one["output"])
            self.assertEqual(one["output"], other["output"])
            self.assertEqual(len(one["input"]), 16)

    def test_in_place_and_in_groups(self):
        _, (lines, _) = self.launch(2, env={"CINCH_CODEC": "q4"}, in_place=1, grouped=1, type="bf16",
                                    op="avg", extra="ddp")
        self.assert_like_the_program(lines, 6, op="Avg", type="bf16")
        reductions = lines[len(KINDS):]
        for line in reductions:
            self.assertEqual(line["send"], line["recv"])
            self.assertNotEqual(line["input"], line["output"])
        groups = [line["group"] for line in reductions]
        self.assertEqual(groups, list(range(groups[0], groups[0] + 6)))

    def test_the_program_computes_the_same(self):
        for env, options in (({"CINCH_CODEC": "q4"}, {}), ({"CINCH_MODE": "observe"}, {"in_place": 1}),
                             ({"CINCH_CODEC": "q4"}, {"grouped": 1, "moving": 1})):
            with self.subTest(**env, **options):
                plain = launch(2, env=env, count=COUNT, **options)
                logged, logs = self.launch(2, env=env, **options)
                self.assertEqual([calls(o) for o in logged], [calls(o) for o in plain])
                self.assertEqual([len(lines) for lines in logs], [6, 6])

    def test_off_is_off(self):
        self.launch(2, env={"CINCH_MODE": "off"})
        self.assertEqual(self.left, [])

    def test_a_file_that_cannot_be_written_is_named(self):
        outcomes = launch(2, env={"CINCH_CALL_LOG": "/dev/null/none"}, count=COUNT)
        self.assert_done(outcomes)
        for outcome in outcomes:
            self.assertRegex(outcome.output, "WARN.*/dev/null/none.calls.jsonl.*CINCH_CALL_LOG says where")

    def test_what_is_killed_leaves_its_calls(self):
        with tempfile.TemporaryDirectory() as folder:
            log = {"CINCH_CALL_LOG": f"{folder}/log"}
            launch(2, rank_env={1: log}, rank_args={1: ["--kill-at", 4]}, count=COUNT)
            lines = read(f"{folder}/log.calls.jsonl")
            self.assertGreaterEqual(len(lines), 3)
            self.assertTrue(all("output" in line for line in lines[:3]))


if __name__ == "__main__":
    interposed.main()
