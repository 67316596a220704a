"""What the checks of the net plugin conclude, with a script in place of the program. No GPU, no NCCL."""

import os
import stat
import sys
import tempfile
import types
import unittest

import net_items
from check_support import Context, Failure, Skip

PLAN = net_items.Plan(ranks=2, large=1000, sweep=(8, 1000), grid=((1, 1), (2, 4)), rounds=3)

# Microseconds by network and size; `spoil` may change what a rank says.
PROGRAM = """#!{python}
import argparse, json, os
parser = argparse.ArgumentParser()
for name in ("--rank", "--ranks"):
    parser.add_argument(name, type=int)
for name in ("--id-file", "--out", "--counts", "--sizes"):
    parser.add_argument(name)
options = parser.parse_args()
env, rank = os.environ, options.rank
assert env["NCCL_DEBUG"] == "INFO" and env["NCCL_SOCKET_IFNAME"] == "lo"
network = env["NCCL_NET"]
if network == "Cinch":
    assert env["NCCL_NET_PLUGIN"] == "cinch" and env["LD_LIBRARY_PATH"].split(":")[0].endswith("/lib")
    us = {{8: 11.0, 1000: 80.0}}
else:
    assert env["NCCL_NET_PLUGIN"] == "none"
    few = env["NCCL_SOCKET_NTHREADS"] == "1" and env["NCCL_NSOCKS_PERTHREAD"] == "1"
    us = {{8: 10.0, 1000: 200.0}} if few else {{8: 20.0, 1000: 100.0}}
result = {{"nccl": 22809, "correct": options.counts != "", "first_wrong": "", "collectives": {{}},
          "allreduce": {{size: {{"us": us[int(size)] - rank}} for size in options.sizes.split(",")}}}}
if options.counts != "":
    result["collectives"] = {{"AllReduce": {{"calls": 40, "wrong": 0}}, "Reduce": {{"calls": 2, "wrong": 0}}}}
{spoil}
print("host:1:1 [0] NCCL INFO Using network", network)
json.dump(result, open(options.out, "w"))
"""


def result(**changes):
    return {"correct": True, "first_wrong": "", "collectives": {"AllReduce": {"calls": 3, "wrong": 0}}, **changes}


def times(small, large):
    return {PLAN.small: {"us": small}, PLAN.large: {"us": large}}


class Judges(unittest.TestCase):
    def test_every_rank_must_have_used_the_network_and_no_other(self):
        cinch, socket = "x NCCL INFO Using network Cinch\n", "x NCCL INFO Using network Socket\n"
        net_items.judge_network([cinch, cinch + cinch], "Cinch")
        for output, words in ((socket, "rank 1 used Socket instead of Cinch"), ("", "rank 1 used no network"),
                              (cinch + socket, "rank 1 used Cinch, Socket"),
                              (cinch.replace("Cinch", "Cinchy"), "rank 1 used Cinchy")):
            with self.assertRaisesRegex(Failure, words):
                net_items.judge_network([cinch, output], "Cinch")

    def test_every_call_of_every_rank_must_be_right(self):
        self.assertEqual(net_items.judge_collectives([result(), result()]), {"AllReduce": 3})
        for changes, words in (({"first_wrong": "Reduce of 3"}, "wrong: Reduce of 3"), ({"correct": False}, "nothing"),
                               ({"collectives": {"AllReduce": {"calls": 3, "wrong": 1}}}, "wrong or unchecked")):
            with self.assertRaisesRegex(Failure, words):
                net_items.judge_collectives([result(), result(**changes)])
        with self.assertRaisesRegex(Failure, "wrong or unchecked"):
            net_items.judge_collectives([result(collectives={"AllReduce": {"calls": 0, "wrong": 0}})])

    def test_the_slowest_rank_counts(self):
        results = [{"allreduce": {"1000": {"us": us}}} for us in (2.0, 4.0)]
        self.assertEqual(net_items.timings(results), {1000: {"us": 4.0, "algbw_gbps": 0.25}})

    def test_the_best_sockets_may_differ_by_what_they_are_best_at(self):
        measured = {"1x1": times(10, 200), "2x4": times(20, 100), "4x4": times(15, 150)}
        self.assertEqual(net_items.best_sockets(PLAN, measured), {"bandwidth": "2x4", "latency": "1x1"})

    def test_ratios_are_medians_of_rounds(self):
        best = {"bandwidth": "2x4", "latency": "1x1"}
        rounds = [{"plugin": times(small, large), "1x1": times(10, 1), "2x4": times(1, 100)}
                  for small, large in ((10, 50), (12, 80), (90, 900))]
        self.assertEqual(net_items.compare(PLAN, best, rounds), {"bandwidth_ratio": 1.25, "latency_ratio": 1.2})

    def test_missed_targets_are_named(self):
        for bandwidth, latency, words in ((1.2, 1.1, "2 of 2 targets reached$"),
                                          (1.19, 1.0, "1 of 2 targets reached, missed: algbw wanted 1.2$"),
                                          (float("nan"), 1.11, "missed: algbw wanted 1.2, latency wanted 1.1$")):
            ratios = {"bandwidth_ratio": bandwidth, "latency_ratio": latency}
            self.assertRegex(net_items.target_note(ratios), words)


class Runs(unittest.TestCase):
    """With real processes, but a script of our own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        mps = types.SimpleNamespace(environment={}, reason=None)
        self.context = Context(root="", build=folder.name, gpu=None, mps=mps, cmake_arguments=[])
        os.mkdir(os.path.join(folder.name, "bin"))
        self.program = os.path.join(folder.name, "bin", "net_ranks")

    def check(self, spoil=""):
        with open(self.program, "w", encoding="utf-8") as file:
            file.write(PROGRAM.format(python=sys.executable, spoil=spoil))
        os.chmod(self.program, stat.S_IRWXU)
        return net_items.item(PLAN)(self.context)

    def test_figures_and_note_say_what_was_measured(self):
        outcome = self.check()
        self.assertEqual(outcome.note, "42 calls exact; algbw 1.25 x, latency 1.10 x the sockets' best; "
                                       "2 of 2 targets reached")
        figures = outcome.figures
        self.assertEqual(figures["best"], {"bandwidth": "2x4", "latency": "1x1"})
        self.assertEqual(figures["sweep"][1000], {"us": 80.0, "algbw_gbps": 0.0125})
        self.assertEqual([set(each) for each in figures["rounds"]], [{"plugin", "1x1", "2x4"}] * 3)

    def test_a_missed_target_is_no_failure(self):
        outcome = self.check('if network == "Cinch": result["allreduce"]["8"]["us"] = 12.0')
        self.assertEqual(outcome.state, "pass")
        self.assertTrue(outcome.note.endswith("1 of 2 targets reached, missed: latency wanted 1.1"), outcome.note)

    def test_one_wrong_result_of_one_rank_fails(self):
        with self.assertRaisesRegex(Failure, "wrong: Gather of 3 int8"):
            self.check('if rank == 1: result["correct"], result["first_wrong"] = False, "Gather of 3 int8"')

    def test_another_network_than_the_plugin_fails(self):
        with self.assertRaisesRegex(Failure, "rank 0 used Socket instead of Cinch"):
            self.check('network = "Socket"')

    def test_sockets_that_are_none_fail(self):
        with self.assertRaisesRegex(Failure, "rank 0 used Cinch instead of Socket"):
            self.check('network = "Cinch"')

    def test_a_rank_that_ends_badly_is_named(self):
        with self.assertRaisesRegex(Failure, "rank 1 ended with 3: no peer"):
            self.check('if rank == 1: print("no peer"); raise SystemExit(3)')

    def test_without_time_one_round_is_measured(self):
        self.check()
        plan = net_items.Plan(**{**vars(PLAN), "seconds": 0})
        self.assertEqual(len(net_items.item(plan)(self.context).figures["rounds"]), 1)

    def test_what_was_not_built_is_a_skip(self):
        for target in ("net_ranks", "nccl_net_cinch"):
            self.context.not_built = {target: "no NCCL"}
            with self.assertRaisesRegex(Skip, "was not built: no NCCL"):
                self.check()


if __name__ == "__main__":
    unittest.main()
