"""What the checks over slow links conclude, with figures and scripts in place of the programs. No GPU, no NCCL."""

import os
import stat
import tempfile
import types
import unittest
from unittest import mock

import link_items
from check_support import Context, Failure, Skip
from lab.job import JobFailed
from lab.network import Loopback

COMPARE = """
import json, os, sys
words = sys.argv[1:]
assert words[:5] == ["gpt", "--link", "10gbit", "--steps", "100"], words
assert os.access(words[words.index("--cinch") + 1], os.X_OK) and os.environ["MPS"] == "1"
{spoil}
rows = {{"plain": {{"step_ms": 500.2}}, "cinch": {{"step_ms": 99.9}}}}
path = words[words.index("--json") + 1]
with open(path + ".partial", "w") as file:
    json.dump({{"variants": rows}}, file)
{end}
os.replace(path + ".partial", path)
"""


def row(time_us, path="plain"):
    return {"time_us": time_us, "alg_bw": 1000 / time_us, "path": path}


def context_of(folder):
    os.makedirs(os.path.join(folder, "bin"))
    for name in ("cinch", "cinch_tool"):
        path = os.path.join(folder, "bin", name)
        open(path, "w", encoding="utf-8").close()
        os.chmod(path, stat.S_IRWXU)
    mps = types.SimpleNamespace(environment={"MPS": "1"}, reason=None)
    return Context(root="", build=folder, gpu=None, mps=mps, cmake_arguments=[])


class Judges(unittest.TestCase):
    def test_ratios_are_taken_within_rounds(self):
        rounds = [({16: row(100)}, {16: row(50, "compressed")}), ({16: row(400)}, {16: row(100, "compressed")}),
                  ({16: row(100)}, {16: row(70, "mixed")})]
        self.assertEqual(link_items.compare(4, rounds)[64],
                         {"plain_gb_per_s": 10, "cinch_gb_per_s": 1000 / 70, "times": 0.5, "path": "mixed"})

    def test_what_is_slower_is_named(self):
        figures = {"fp32": {1 << 16: {"times": 1.06}, 1 << 20: {"times": 0.25}}, "bf16": {1 << 20: {"times": 1.05}}}
        self.assertEqual(link_items.gain_note(figures), "fp32 4.00 x at 1M, bf16 0.95 x at 1M; "
                                                        "takes longer than plain NCCL: fp32 64K: 1.06")
        del figures["fp32"][1 << 16]
        self.assertTrue(link_items.gain_note(figures).endswith("; nowhere slower"))


class Runs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.context = context_of(os.path.join(folder.name, "build"))

    def test_a_machine_without_namespaces_is_a_skip(self):
        with mock.patch("link_items.open_network", return_value=Loopback(2, "no ip")), \
                self.assertRaisesRegex(Skip, "iproute2.*no ip"):
            link_items.collectives_item("1gbit", 2, 1)(self.context)

    def test_a_wrong_sum_is_a_failure(self):
        with mock.patch("link_items.open_network"), \
                mock.patch("link_items.Bench.sweep", side_effect=JobFailed("rank 0 ended with status 1\n3 wrong")), \
                self.assertRaisesRegex(Failure, "3 wrong"):
            link_items.collectives_item("1gbit", 2, 1)(self.context)

    def test_every_size_is_swept_once(self):
        for largest in (1 << 16, 1 << 20, 4 << 20, 16 << 20, 256 << 20):
            plan = link_items.Plan("1gbit", 2, 1, largest=largest)
            sizes = [values for sweep in plan.sweeps(2, link_items.CINCH) for values in
                     (sweep.smallest << 2 * i for i in range(20)) if values <= sweep.largest]
            powers = (1 << 15 + 2 * i for i in range(20))
            self.assertEqual(sizes, [values for values in powers if 2 * values <= largest])

    def train(self, spoil="", end=""):
        os.makedirs(os.path.join(self.folder, "train"), exist_ok=True)
        with open(os.path.join(self.folder, "train", "compare.py"), "w", encoding="utf-8") as file:
            file.write(COMPARE.format(spoil=spoil, end=end))
        with mock.patch("link_items.BENCH", self.folder), mock.patch("link_items.lacks", return_value=""):
            return link_items.training_item("gpt", "10gbit", 100)(self.context)

    def test_the_steps_of_all_variants_are_told(self):
        self.assertEqual(self.train().note, "a step: plain 500 ms, cinch 100 ms")

    def test_training_that_fails_is_a_failure_with_what_there_is_and_no_network_a_skip(self):
        outcome = self.train('sys.exit("PROBLEM ranks differ")')
        self.assertEqual((outcome.state, outcome.note, outcome.figures), ("fail", "PROBLEM ranks differ", {}))
        with mock.patch("link_items.TRAIN_SECONDS", 5):
            late = self.train("", "import time; time.sleep(600)")
        self.assertEqual(late.state, "fail")
        self.assertRegex(late.note, "did not end within 5 s; a step: plain 500 ms")
        self.assertEqual(late.figures["cinch"]["step_ms"], 99.9)
        with self.assertRaisesRegex(Skip, "network namespaces are not available"):
            self.train('sys.exit("--link 10gbit: network namespaces are not available: no")')

    def test_without_pytorch_or_cinch_there_is_nothing_to_train(self):
        with mock.patch("link_items.lacks", return_value="no torch"), self.assertRaisesRegex(Skip, "no torch"):
            link_items.training_item("gpt", "1gbit", 1)(self.context)
        self.context.not_built = {"cinch": "no nvcc"}
        with self.assertRaisesRegex(Skip, "no nvcc"):
            link_items.collectives_item("1gbit", 2, 1)(self.context)

    def test_every_link_is_measured_with_two_and_four_ranks(self):
        names = [name for name, _ in link_items.ITEMS]
        for link in ("1gbit", "10gbit", "25gbit"):
            for rest in ("2 ranks, AllReduce", "4 ranks, AllReduce", "2 ranks, resnet50", "2 ranks, gpt"):
                self.assertIn(f"{link}, {rest}", names)


if __name__ == "__main__":
    unittest.main()
