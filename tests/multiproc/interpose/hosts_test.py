"""The interposer where ranks share hosts: sums inside them, and what joins the devices of one.

Arguments: PROGRAM PRELOAD (interposed.py).
"""

import json
import os
import tempfile

import interposed
from interposed import Base, calls, launch


class Hosts(Base):
    """Ranks that share hosts, which sum up among themselves first."""

    PLACEMENTS = ("aabb", "aaab", "abab", "abbc", "abcabcabc")

    @staticmethod
    def job(hosts, env=None, rank_env=None, **options):
        placed = {rank: {"NCCL_HOSTID": host, **(rank_env or {}).get(rank, {})} for rank, host in enumerate(hosts)}
        return launch(len(hosts), env={"CINCH_CODEC": "q4", **(env or {})}, rank_env=placed, **options)

    def reports(self, hosts, env=None, calls=5):
        """The slot of every rank."""
        with tempfile.TemporaryDirectory() as folder:
            stats = {rank: {"CINCH_STATS": f"{folder}/r{rank}"} for rank in range(len(hosts))}
            self.assert_done(self.job(hosts, env, stats, calls=calls, count=100000))
            found = []
            for rank in range(len(hosts)):
                with open(f"{folder}/r{rank}.json", encoding="utf-8") as file:
                    found.append(json.load(file)["communicators"][0]["slots"][0])
            return found

    def test_wherever_the_ranks_are(self):
        for hosts in self.PLACEMENTS:
            with self.subTest(hosts=hosts):
                outcomes = self.job(hosts, count=100003)
                self.assert_done(outcomes)
                self.assert_identical(outcomes)
                self.assert_compressed(outcomes, "q4")

    def test_types_operations_and_in_place(self):
        for hosts, options in (("aabb", {"type": "fp16", "in_place": 1}), ("aaab", {"type": "bf16", "op": "avg"}),
                               ("abab", {"op": "avg", "in_place": 1}), ("abba", {"type": "fp16", "op": "avg"}),
                               ("aaab", {"type": "bf16", "grouped": 1, "in_place": 1})):
            with self.subTest(hosts=hosts, **options):
                outcomes = self.job(hosts, count=65537, **options)
                self.assert_done(outcomes)
                self.assert_identical(outcomes)
                self.assert_compressed(outcomes, "q4")

    def test_chunks(self):
        for hosts, options in (("aabb", {}), ("aaab", {"in_place": 1, "type": "bf16"}), ("abab", {"grouped": 1})):
            with self.subTest(hosts=hosts):
                outcomes = self.job(hosts, {"CINCH_CHUNKS": "3"}, count=100003, **options)
                self.assert_done(outcomes)
                self.assert_identical(outcomes)
                self.assert_compressed(outcomes, "q4")

    def test_sizes(self):
        for count in (4097, 16385, 3000001):
            with self.subTest(count=count):
                outcomes = self.job("aaab", {"CINCH_MIN_BYTES": "16K"}, count=count, calls=5)
                self.assert_done(outcomes)
                self.assert_identical(outcomes)
                self.assert_compressed(outcomes, "q4")

    def test_layers_get_their_precision(self):
        outcomes = self.job("aabb", {"CINCH_CODEC": "auto", "CINCH_GUARD_EVERY": "1"}, count=400003, calls=30)
        self.assert_done(outcomes)
        self.assert_identical(outcomes)
        self.assert_compressed(outcomes, "auto")

    def test_infinity_reaches_every_rank_and_does_not_stay(self):
        outcomes = self.job("aabb", {"CINCH_ERROR_FEEDBACK": "1"}, count=50000, special=1, calls=8)
        self.assert_done(outcomes)
        self.assert_identical(outcomes)
        for outcome in outcomes:
            bad = [nonfinite for _, _, nonfinite in calls(outcome)]
            self.assertGreater(bad[4], 0, "overflow must be seen by all ranks")
            self.assertEqual(bad[:4] + bad[5:], [0] * 7)

    def test_wire_bytes_are_what_leaves_the_host(self):
        # 98 tiles in two lanes on two hosts: all 49 of a lane and a header; or 25 and a header, twice.
        for pair, sent in (("auto", 16 + 49 * 544), ("off", 2 * (16 + 25 * 544))):
            for slot in self.reports("aabb", {"CINCH_PAIR": pair}):
                self.assertEqual(slot["wire_bytes"], 2 * sent)
                self.assertEqual(slot["bytes_in"], 400000 * 2)
        # One lane: two of the ranks have none.
        sent = 2 * (16 + 98 * 544)
        self.assertEqual([slot["wire_bytes"] for slot in self.reports("aaab")], [sent, 0, 0, sent])

    def test_off_all_ranks_exchange(self):
        for slot in self.reports("aabb", {"CINCH_HIERARCHY": "off"}):
            self.assertEqual(slot["wire_bytes"], 2 * 3 * (16 + 25 * 544) * 2)

    def test_a_rank_killed_ends_the_others(self):
        for kill_at in (2, 5):
            outcomes = self.job("aaab", rank_args={1: ["--kill-at", kill_at]}, count=50000, calls=8)
            self.assertEqual(outcomes[1].status, -9)
            for rank in (0, 2, 3):
                self.assertEqual(outcomes[rank].status, 1, outcomes[rank].output)


class OldGpu(Base):
    """A rank whose GPU Cinch has no machine code for: all pass, and it is named."""

    def test_all_pass_and_the_gpu_is_named(self):
        for old in (0, 1):
            outcomes = launch(2, env={"CINCH_CODEC": "q4"}, rank_env={old: {"CINCH_EMULATOR_CAPABILITY": "7.0"}},
                              count=50000)
            self.assert_done(outcomes)
            self.assert_identical(outcomes)
            for outcome in outcomes:
                self.assertLess(max(nmse for nmse, _, _ in calls(outcome)), 1e-5)
                self.assertRegex(outcome.output, f"rank {old} .*no machine code for .*compute capability 7.0.*support.md")


class OneHost(Base):
    """All ranks on one host: what joins their devices decides, alike on all of them."""

    def launch(self, links, env=None, ranks=2):
        """`links`: what each rank knows."""
        with tempfile.TemporaryDirectory() as folder:
            outcomes = launch(ranks, env={"CINCH_CODEC": "q4", **(env or {})}, rank_env={
                rank: {"NCCL_HOSTID": "same", "CINCH_STATS": f"{folder}/r{rank}", "CINCH_EMULATOR_LINKS": links[rank],
                       "LD_LIBRARY_PATH": os.path.join(os.path.dirname(interposed.PROGRAM), "..", "emulator")}
                for rank in range(ranks)}, count=50000)
            self.assert_done(outcomes)
            self.assert_identical(outcomes)
            reports = []
            for rank in range(ranks):
                with open(f"{folder}/r{rank}.json", encoding="utf-8") as file:
                    reports.append(json.load(file)["communicators"][0])
        return outcomes, reports

    def assert_passes(self, links, **options):
        outcomes, reports = self.launch(links, **options)
        for outcome, report in zip(outcomes, reports):
            self.assertLess(max(nmse for nmse, _, _ in calls(outcome)), 1e-5)
            self.assertEqual(list(report["passed"]), ["same_host"])

    def test_pcie_is_relieved(self):
        for ranks in (2, 3):
            outcomes, reports = self.launch(["pcie"] * ranks, ranks=ranks)
            self.assert_compressed(outcomes, "q4")
            for report in reports:
                self.assertNotIn("same_host", report["passed"])

    def test_a_device_without_nvlink_is_reached_by_pcie(self):
        self.assert_compressed(self.launch(["nvlink", "pcie"])[0], "q4")

    def test_nvlink_is_fast_enough(self):
        self.assert_passes(["nvlink", "nvlink"])

    def test_what_is_not_known_may_be_nvlink(self):
        self.assert_passes([None, None])
        self.assert_passes(["pcie", "pcie", None], ranks=3)
        self.assert_passes([None, "pcie"])

    def test_the_user_knows_better(self):
        self.assert_compressed(self.launch([None, "nvlink"], env={"CINCH_SAME_HOST": "compress"})[0], "q4")
        self.assert_passes(["pcie", "pcie"], env={"CINCH_SAME_HOST": "pass"})


if __name__ == "__main__":
    interposed.main()
