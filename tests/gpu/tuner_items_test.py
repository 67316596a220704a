"""What the checks of the tuner plugin conclude, with scripts in place of the programs. No GPU, no NCCL."""

import os
import stat
import sys
import tempfile
import types
import unittest
from unittest import mock

import tuner_items
from check_support import Context, Failure, Skip

# What the plugin and NCCL would leave behind.
RANK = """#!{python}
import argparse, json, os
parser = argparse.ArgumentParser()
for name in ("--rank", "--ranks"):
    parser.add_argument(name, type=int)
for name in ("--id-file", "--out", "--sizes"):
    parser.add_argument(name)
options = parser.parse_args()
assert os.environ["NCCL_TUNER_PLUGIN"] == "cinch" and options.sizes == "8,8388608"
assert os.environ["LD_LIBRARY_PATH"].split(":")[0].endswith("/lib") and open(os.environ["CINCH_TUNER_RULES"]).read()
with open(os.environ["CINCH_CACHE_DIR"] + "/nccl-costs.host.2ranks.2nodes.csv", "w") as costs:
    costs.write("# c\\ncinch-costs,1,2,2\\nallreduce,8,1,ring,ll,3.5\\nreduce,8,1,ring,ll,3.5\\n")
print("h:1:1 [0] NCCL INFO CINCH/TUNER /own.csv: 2 rules, hash 00aa")
print("h:1:1 [0] NCCL INFO CINCH/TUNER allreduce of 8 bytes: tree, simple, -1 channels (/own.csv:1)")
print("h:1:1 [0] NCCL INFO CINCH/TUNER allreduce of 8388608 bytes: ring, ll, 2 channels (/own.csv:2)")
json.dump({{"nccl": 22809, "correct": True, "first_wrong": "", "collectives": {{"AllReduce": {{"calls": 4, "wrong": 0}}}}}},
          open(options.out, "w"))
"""

CINCH = """#!{python}
import json, os, sys
if sys.argv[1] == "tune":
    with open(os.environ["CINCH_CACHE_DIR"] + "/tuner.csv", "w") as rules:
        rules.write("# comment\\nallreduce,1024,1024,tree,ll,-1,2,2,-1,-1\\n")
    raise SystemExit(0)
time = {tuned} if os.environ.get("NCCL_TUNER_PLUGIN") == "cinch" else 100
row = {{"size": 1024, "out_of_place": {{"time_us": time}}, "in_place": {{"time_us": time}}}}
json.dump({{"results": [row]}}, open(sys.argv[sys.argv.index("-J") + 1], "w"))
"""

LINE = "x NCCL INFO CINCH/TUNER "
RULES_LINE = LINE + "/own.csv: 2 rules, hash 00aa\n"
CHOICES = "".join(f"{LINE}allreduce of 8 bytes: {choice} (/own.csv:1)\n" for choice in tuner_items.CHOICES.values())


class Judges(unittest.TestCase):
    def test_all_ranks_must_have_used_the_same_rules(self):
        good = RULES_LINE + CHOICES
        tuner_items.judge_log([good, good])
        for bad, words in (("", "hashes"), (good.replace("00aa", "00ab"), "hashes"),
                           (RULES_LINE, "rank 1 did not choose tree, simple"),
                           (good.replace("(/own.csv:1)", "(/own.csv:1): not possible here"), "rank 1 did not choose")):
            with self.assertRaisesRegex(Failure, words):
                tuner_items.judge_log([good, bad])

    def test_costs_of_this_shape_are_counted(self):
        self.assertEqual(tuner_items.judge_costs(["cinch-costs,1,2,2\nallreduce,8,1,ring,ll,1\n",
                                                  "cinch-costs,1,2,1\nallreduce,8,1,ring,ll,1\n"]), 1)
        with self.assertRaisesRegex(Failure, "no cost table"):
            tuner_items.judge_costs([])

    def test_slower_is_slower_beyond_the_noise(self):
        def rounds(own, tuned):
            return [({8: a}, {8: b}) for a, b in zip(own, tuned)]
        self.assertEqual(tuner_items.judge_ratios(rounds((100, 100, 100), (90, 109, 80))), {8: 0.9})
        tuner_items.judge_ratios(rounds((80, 100, 120), (100, 130, 160)))
        with self.assertRaisesRegex(Failure, "8 B: 1.2"):
            tuner_items.judge_ratios(rounds((100, 100, 100), (120, 120, 90)))


class Runs(unittest.TestCase):
    """With real processes, but scripts of our own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        mps = types.SimpleNamespace(environment={}, reason=None)
        self.context = Context(root="", build=folder.name, gpu=None, mps=mps, cmake_arguments=[])
        os.mkdir(os.path.join(folder.name, "bin"))
        no_nccl = mock.patch("gpu_machine.nccl_home", return_value=None)
        no_nccl.start()
        self.addCleanup(no_nccl.stop)

    def write(self, name, text):
        path = os.path.join(self.context.build, "bin", name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, stat.S_IRWXU)

    def test_the_plugin(self):
        self.write("net_ranks", RANK.format(python=sys.executable))
        outcome = tuner_items.tuner_plugin(self.context)
        self.assertEqual(outcome.note, "4 calls exact, both rules used, 1 costs of NCCL's kept")

    def test_tuned_times(self):
        self.write("cinch", CINCH.format(python=sys.executable, tuned=80))
        outcome = tuner_items.cinch_tune(self.context)
        self.assertEqual(outcome.note, "1 rules; times 0.80 to 0.80 of NCCL's own")
        self.write("cinch", CINCH.format(python=sys.executable, tuned=150))
        with self.assertRaisesRegex(Failure, "slower than NCCL's own choice at 1024 B: 1.5"):
            tuner_items.cinch_tune(self.context)

    def test_a_command_that_fails_is_named(self):
        self.write("cinch", "#!/bin/sh\necho no luck; exit 1\n")
        with self.assertRaisesRegex(Failure, "cinch tune: no luck"):
            tuner_items.cinch_tune(self.context)

    def test_what_was_not_built_is_a_skip(self):
        for item, target in ((tuner_items.tuner_plugin, "net_ranks"), (tuner_items.cinch_tune, "cinch_tool"),
                             (tuner_items.cinch_tune, "nccl_tuner_cinch")):
            self.context.not_built = {target: "no NCCL"}
            with self.assertRaisesRegex(Skip, "was not built: no NCCL"):
                item(self.context)


if __name__ == "__main__":
    unittest.main()
