"""The interposer under unmodified programs. Every test starts ranks of rank_program (interposed.py).

Arguments: PROGRAM PRELOAD.
"""

import json
import os
import shutil
import socket
import tempfile

import interposed
from interposed import BOUND, FLOOR, WARMUP, Base, calls, launch


class Compression(Base):
    def test_every_codec_and_number_of_ranks(self):
        for codec, ranks in (("q8", 2), ("q4", 3), ("q2", 2), ("q4", 5), ("q5", 2), ("q3", 3), ("h4", 2),
                             ("fp8", 2), ("h3", 3), ("sign", 2)):
            with self.subTest(codec=codec, ranks=ranks):
                outcomes = launch(ranks, env={"CINCH_CODEC": codec}, count=100003)
                self.assert_done(outcomes)
                self.assert_identical(outcomes)
                self.assert_compressed(outcomes, codec)

    def test_an_old_name_of_a_codec_is_its_successor(self):
        """Beside ranks that have the new name already, too."""
        outcomes = launch(2, env={"CINCH_CODEC": "q4"}, rank_env={0: {"CINCH_CODEC": "q4-64"}}, count=100003)
        self.assert_done(outcomes)
        self.assert_identical(outcomes)
        self.assert_compressed(outcomes, "q4")
        self.assertIn("the codec q4-64 is no more; using q4", outcomes[0].output)
        self.assertNotIn("is no more", outcomes[1].output)

    def test_residuals_and_rounding(self):
        for env in ({"CINCH_RESIDUAL": "bf16"}, {"CINCH_RESIDUAL": "int8"},
                    {"CINCH_ROUNDING": "stochastic", "CINCH_ERROR_FEEDBACK": "off"}):
            with self.subTest(**env):
                outcomes = launch(3, env={"CINCH_CODEC": "q4", **env}, count=100003, calls=9)
                self.assert_done(outcomes)
                self.assert_identical(outcomes)
                self.assert_compressed(outcomes, "q4")

    def test_types_operations_and_in_place(self):
        for options in ({"type": "fp16"}, {"type": "bf16", "op": "avg"}, {"op": "avg", "in_place": 1},
                        {"grouped": 1}, {"in_place": 1, "type": "bf16"}):
            with self.subTest(**options):
                outcomes = launch(2, env={"CINCH_CODEC": "q4"}, count=65537, **options)
                self.assert_done(outcomes)
                self.assert_identical(outcomes)
                self.assert_compressed(outcomes, "q4")

    def test_what_must_not_be_compressed_is_exact(self):
        plain = launch(2, preload=False, count=1000)
        for name, env in (("small", {}), ("off", {"CINCH_MODE": "off", "CINCH_MIN_BYTES": "1K"}),
                          ("observe", {"CINCH_MODE": "observe", "CINCH_MIN_BYTES": "1K"}),
                          ("one host", {"NCCL_HOSTID": "same", "CINCH_MIN_BYTES": "1K"})):
            with self.subTest(name):
                rank_env = {r: {"NCCL_HOSTID": env["NCCL_HOSTID"]} for r in range(2)} if "NCCL_HOSTID" in env else None
                outcomes = launch(2, env=env, rank_env=rank_env, count=1000)
                self.assert_done(outcomes)
                self.assertEqual([calls(o) for o in outcomes], [calls(o) for o in plain])

    def test_off_is_byte_for_byte_plain(self):
        plain = launch(3, preload=False, count=200000, type="bf16")
        off = launch(3, env={"CINCH_MODE": "off"}, count=200000, type="bf16")
        self.assert_done(plain)
        self.assertEqual([calls(o) for o in plain], [calls(o) for o in off])

    def test_infinity_reaches_every_rank_and_does_not_stay(self):
        outcomes = launch(2, env={"CINCH_CODEC": "q4", "CINCH_ERROR_FEEDBACK": "1"}, count=50000,
                          special=1, calls=8)
        self.assert_done(outcomes)
        self.assert_identical(outcomes)
        for outcome in outcomes:
            bad = [nonfinite for _, _, nonfinite in calls(outcome)]
            self.assertGreater(bad[4], 0, "overflow must be seen by all ranks")
            self.assertEqual(bad[:4] + bad[5:], [0] * 7)
            self.assertLess(max(n for n, _, _ in calls(outcome)[5:]), 2 * BOUND["q4"])

    def test_moving_buffers_drop_the_residual_only(self):
        outcomes = launch(2, env={"CINCH_CODEC": "q4", "CINCH_ERROR_FEEDBACK": "1"}, count=50000, moving=1,
                          calls=9)
        self.assert_done(outcomes)
        self.assert_identical(outcomes)
        self.assert_compressed(outcomes, "q4")

    def test_slow_ranks_are_waited_for(self):
        outcomes = launch(2, env={"CINCH_CODEC": "q8"}, rank_args={1: ["--lag-ms", 400]}, count=50000)
        self.assert_done(outcomes)
        self.assert_compressed(outcomes, "q8")


class Report(Base):
    def report(self, **options):
        with tempfile.TemporaryDirectory() as folder:
            outcomes = launch(2, rank_env={r: {"CINCH_STATS": f"{folder}/r{r}"} for r in range(2)}, **options)
            self.assert_done(outcomes)
            for rank in range(2):
                with open(f"{folder}/r{rank}.txt", encoding="utf-8") as text:
                    self.assertIn("AllReduce fp32 Sum x 100000", text.read())
            with open(f"{folder}/r0.json", encoding="utf-8") as file:
                return json.load(file), outcomes

    def test_counts_bytes_and_error(self):
        # 98 tiles over two ranks, to one peer: all and a header, or 49 tiles and a header, twice.
        for pair, sent in (("auto", 16 + 98 * 544), ("off", 2 * (16 + 49 * 544))):
            env = {"CINCH_CODEC": "q4", "CINCH_MEASURE_EVERY": "1", "CINCH_PAIR": pair}
            report, outcomes = self.report(env=env, calls=10)
            self.assert_identical(outcomes)
            comm = report["communicators"][0]
            slot = comm["slots"][0]
            self.assertEqual(slot["calls"], 10 - WARMUP)
            self.assertEqual(slot["bytes_in"], 400000 * slot["calls"])
            self.assertEqual(slot["wire_bytes"], sent * slot["calls"])
            self.assertGreater(slot["nmse"], 1e-3)
            self.assertLess(slot["nmse"], 2e-2)
            if pair == "off":
                self.assertGreater(slot["nmse_reduce"], 1e-3)
        self.assertEqual(comm["passed"]["warmup"]["calls"] + comm["passed"]["preparing"]["calls"], WARMUP)

    def test_integer_broadcasts_drop_residuals(self):
        report, outcomes = self.report(env={"CINCH_CODEC": "q4"}, calls=8, extra="broadcast")
        slot = report["communicators"][0]["slots"][0]
        self.assertEqual(slot["residual_resets"], slot["calls"] - 1)
        self.assert_compressed(outcomes, "q4")


class Disagreement(Base):
    def test_a_rank_without_cinch_is_named_and_all_pass(self):
        outcomes = launch(3, rank_env={2: {"LD_PRELOAD": None}}, count=50000)
        self.assert_done(outcomes)
        for outcome in outcomes[:2]:
            self.assertRegex(outcome.output, r"WARN.*rank 2.*without Cinch")
        for outcome in outcomes:
            self.assertLess(max(nmse for nmse, _, _ in calls(outcome)), 1e-5)

    def test_other_settings_are_named_and_all_pass(self):
        outcomes = launch(3, rank_env={1: {"CINCH_CODEC": "q4"}}, count=50000)
        self.assert_done(outcomes)
        for outcome in outcomes:
            self.assertRegex(outcome.output, r"WARN.*rank 1 .*CINCH_CODEC=q4")
            self.assertLess(max(nmse for nmse, _, _ in calls(outcome)), 1e-5)

    def test_strict_turns_both_into_errors(self):
        strict = {"CINCH_STRICT": "1"}
        for rank_env in ({1: {"LD_PRELOAD": None}}, {1: {"CINCH_CODEC": "q4"}}):
            outcomes = launch(2, env=strict, rank_env=rank_env, count=50000)
            self.assertEqual(outcomes[0].status, 1, outcomes[0].output)
            self.assertIn("rank 1", outcomes[0].output)
            self.assertIsNotNone(outcomes[1].status, "a rank hung: " + outcomes[1].output)

    def test_the_id_of_a_plain_process_passes(self):
        outcomes = launch(2, rank_env={0: {"LD_PRELOAD": None}}, count=50000)
        self.assert_done(outcomes)
        self.assertRegex(outcomes[1].output, r"WARN.*without Cinch")


    def test_ids_that_nccl_makes_equal_stay_equal(self):
        for variable in ({}, {"CINCH_MODE": "observe"}):
            with self.subTest(**variable):
                with socket.socket() as free:
                    free.bind(("127.0.0.1", 0))
                    address = f"127.0.0.1:{free.getsockname()[1]}"
                outcomes = launch(3, env={"NCCL_COMM_ID": address, **variable})
                self.assert_done(outcomes)
                self.assertEqual(len({str(outcome.lines("id")) for outcome in outcomes}), 1)
                for outcome in outcomes:
                    self.assertLess(max(nmse for nmse, _, _ in calls(outcome)), 1e-12)
                    self.assertIn("is not compressed: NCCL_COMM_ID is set", outcome.output)


class Rules(Base):
    def test_they_let_calls_pass(self):
        plain = launch(2, preload=False, count=50000)
        ruled = launch(2, env={"CINCH_RULES": "pass dtype=fp32 ranks=..2"}, count=50000)
        self.assert_done(ruled)
        self.assertEqual([calls(o) for o in ruled], [calls(o) for o in plain])
        self.assert_compressed(launch(3, env={"CINCH_RULES": "pass dtype=fp32 ranks=..2"}, count=50000), "auto")

    def test_they_compress_what_is_small_and_name_the_codec(self):
        outcomes = launch(2, env={"CINCH_RULES": "compress q4 max_bytes=64K"}, count=8192)
        self.assert_done(outcomes)
        self.assert_identical(outcomes)
        self.assert_compressed(outcomes, "q4")

    def test_a_file_and_a_text_can_say_the_same(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(f"{folder}/rules.csv", "w", encoding="utf-8") as file:
                file.write("dtype,action  # columns in any order\nfp32,q4\n")
            outcomes = launch(2, rank_env={0: {"CINCH_RULES": f"{folder}/rules.csv"},
                                           1: {"CINCH_RULES": "q4 dtype=fp32"}}, count=50000)
        self.assert_done(outcomes)
        self.assert_compressed(outcomes, "q4")

    def test_different_ones_are_named_and_all_pass(self):
        outcomes = launch(3, rank_env={1: {"CINCH_RULES": "pass dtype=bf16"}}, count=50000)
        self.assert_done(outcomes)
        for outcome in outcomes:
            self.assertRegex(outcome.output, r"WARN.*rank 1 .*CINCH_RULES-hash=[0-9a-f]{16} there, none on rank 0")
            self.assertLess(max(nmse for nmse, _, _ in calls(outcome)), 1e-5)

    def test_bad_ones_are_named_and_all_pass(self):
        for rules, message in (("pass dtype=int9", r"rule 1, dtype: 'int9' should be fp32"),
                               ("/no/such/file", r"/no/such/file: there is no such file")):
            with self.subTest(rules):
                outcomes = launch(2, rank_env={1: {"CINCH_RULES": rules}}, count=50000)
                self.assert_done(outcomes)
                for outcome in outcomes:
                    self.assertRegex(outcome.output, "WARN.*rank 1 .*cannot take part: .*" + message)
                    self.assertLess(max(nmse for nmse, _, _ in calls(outcome)), 1e-5)
                self.assertRegex(outcomes[1].output, "INIT .*" + message)


class RecordedPlans(Base):
    """A job in which what is sent, and how precisely, follows from measurements, and jobs that repeat it: CINCH_PLAN."""

    CALLS = 160
    # So many that plain calls have been compared with compressed ones, in blocks of 100 ms.
    CALLS_TO_SELECT = 6000

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = f"{folder.name}/plan"

    def job(self, use, ranks=2, env=None, lag=0, kill_at=-1, **options):
        settings = {"CINCH_WHEN": "auto", "CINCH_GUARD_EVERY": "5", "CINCH_PLAN": f"{use}:{self.file}"}
        return launch(ranks, env={**settings, **(env or {})}, count=50000,
                      rank_args={0: ["--kill-at", kill_at], 1: ["--lag-ms", lag]}, **{"calls": self.CALLS, **options})

    def lines(self, kind):
        with open(self.file, encoding="utf-8") as file:
            return [line.split() for line in file if line.startswith(kind + " ")]

    def write(self, *lines):
        with open(self.file, "w", encoding="utf-8") as file:
            file.write("".join(line + "\n" for line in ("cinch-plan 2", *lines)))

    def test_a_replay_has_the_same_bits(self):
        for ranks, when in ((2, "always"), (2, "auto"), (3, "auto")):
            with self.subTest(when=when, ranks=ranks):
                self.file += "."
                options = {"ranks": ranks, "env": {"CINCH_WHEN": when}, "layered": 1}
                recorded = self.job("record", **options)
                self.assert_done(recorded)
                self.assert_identical(recorded)
                votes = 2  # until the slot is ready
                self.assertGreater(len(self.lines("decision")), votes)
                for lag in (0, 3):
                    replayed = self.job("replay", lag=lag, **options)
                    self.assert_done(replayed)
                    self.assertEqual([calls(o) for o in replayed], [calls(o) for o in recorded])
                if when == "always":
                    self.write(*(" ".join(line) for kind in ("comm", "slot") for line in self.lines(kind)))
                    self.assertNotEqual([calls(o) for o in self.job("replay", **options)],
                                        [calls(o) for o in recorded], "precision followed from the file")

    def test_the_file_decides(self):
        options = {"env": {"CINCH_CODEC": "q4"}, "calls": self.CALLS_TO_SELECT}
        recorded = self.job("record", **options)
        self.assert_done(recorded)
        tried = [nmse for nmse, _, _ in calls(recorded[0]) if nmse > FLOOR["q4"]]
        self.assertGreater(len(tried), 0, "compressed calls are timed, too")
        replayed = self.job("replay", **options)
        self.assertEqual([calls(o) for o in replayed], [calls(o) for o in recorded])
        # Without what was measured plain is the incumbent, and stays so.
        votes = self.lines("decision")[:2]
        self.write(*(" ".join(line) for line in [self.lines("comm")[0], *self.lines("slot"), *votes]))
        outcomes = self.job("replay", **options)
        self.assert_done(outcomes)
        self.assert_identical(outcomes)
        for outcome in outcomes:
            self.assertLess(max(nmse for nmse, _, _ in calls(outcome)), 1e-5)

    def test_a_run_that_was_killed_can_be_replayed(self):
        killed = self.job("record", kill_at=100)
        replayed = self.job("replay")
        self.assert_done(replayed)
        self.assertEqual(killed[0].status, -9)
        for before, after in zip(killed, replayed):
            self.assertEqual(calls(before)[:70], calls(after)[:70])

    def assert_refused(self, outcomes, message):
        self.assert_done(outcomes)
        for outcome in outcomes:
            self.assertRegex(outcome.output, "WARN.*" + message)
            self.assertLess(max(nmse for nmse, _, _ in calls(outcome)), 1e-5)

    def test_what_was_recorded_with_other_ranks_is_refused(self):
        self.assert_done(self.job("record"))
        self.assert_refused(self.job("replay", ranks=3, calls=9),
                            "CINCH_PLAN=replay:.*: comm0 was recorded with 2 ranks and has 3")

    def test_what_was_recorded_under_other_conditions_is_refused(self):
        self.assert_done(self.job("record", calls=9))
        self.assert_refused(self.job("replay", calls=9, env={"CINCH_CODEC": "q4"}),
                            "comm0 was recorded with other settings, or by another version of Cinch")
        together = {rank: {"NCCL_HOSTID": "same"} for rank in range(2)}
        self.assert_refused(self.job("replay", calls=9, rank_env=together),
                            "comm0 was recorded with its ranks on other hosts")

    def test_what_was_not_recorded_is_not_compressed(self):
        self.write()
        self.assert_refused(self.job("replay", calls=9), "comm0 was not compressed in the run that was recorded")
        self.file += ".other"
        self.assert_done(self.job("record", calls=9))
        self.write(" ".join(self.lines("comm")[0]))
        outcomes = self.job("replay", calls=9, env={"CINCH_STATS": self.file + ".stats"})
        self.assert_done(outcomes)
        for outcome in outcomes:
            self.assertLess(max(nmse for nmse, _, _ in calls(outcome)), 1e-5)
        with open(self.file + ".stats.txt", encoding="utf-8") as text:
            self.assertIn("unrecorded", text.read())

    def test_different_files_are_named(self):
        self.write("decision comm0 7 0 01")
        other = self.file + ".other"
        with open(other, "w", encoding="utf-8") as file:
            file.write("cinch-plan 2\n")
        outcomes = launch(2, env={"CINCH_PLAN": f"replay:{self.file}"}, rank_env={1: {"CINCH_PLAN": f"replay:{other}"}},
                          count=50000)
        self.assert_refused(outcomes, "rank 1 .*other settings: CINCH_PLAN-hash=[0-9a-f]{16} there, [0-9a-f]{16} on rank 0")

    def test_bad_files_are_named(self):
        self.write("comm comm0 two 7 8")
        self.assert_refused(self.job("replay", calls=9), "line 2: 'two' is not a number of ranks")
        self.file += ".missing"
        self.assert_refused(self.job("replay", calls=9), "there is no such file")
        self.assert_refused(self.job("repeat", calls=9), "CINCH_PLAN should be record:FILE or replay:FILE")


class Observe(Base):
    def test_the_table_is_printed_and_nothing_changes(self):
        plain = launch(2, preload=False, count=50000)
        outcomes = launch(2, env={"CINCH_MODE": "observe", "CINCH_CODEC": "q8", "NCCL_DEBUG": "INFO"}, count=50000,
                          extra="broadcast")
        self.assert_done(outcomes)
        self.assertEqual([calls(o) for o in outcomes], [calls(o) for o in plain])
        for outcome in outcomes:
            self.assertRegex(outcome.output, r"INFO CINCH/POLICY call +taken for")
            self.assertRegex(outcome.output,
                             r"INFO CINCH/POLICY AllReduce fp32 Sum x 50000 +unknown +\d+ +\d+ +0 +q8 +observe")
            self.assertRegex(outcome.output, r"INFO CINCH/POLICY Broadcast int\d+ x \d+ +other .* - +kind")

    def test_the_first_steps_pass(self):
        outcomes = launch(2, env={"CINCH_WARMUP_STEPS": "6"}, count=50000, calls=9)
        self.assert_done(outcomes)
        self.assert_compressed(outcomes, "auto", first=6)


class Layers(Base):
    """Where layers begin is known to rank 0 alone, which asks for it when it plans the precision."""

    def known(self, ranks=2, env=None, **options):
        """What each rank's log says of layers, in a job whose only bucket is a matrix and a vector."""
        settings = {"CINCH_GUARD_EVERY": "1", "NCCL_DEBUG": "INFO"}
        outcomes = launch(ranks, env={**settings, **(env or {})}, count=100003, calls=30, **options)
        self.assert_done(outcomes)
        self.assert_identical(outcomes)
        return [[line for line in outcome.output.splitlines() if " the layers of " in line] for outcome in outcomes]

    def test_pytorch_says_so_itself(self):
        for ranks, grouped in ((2, 0), (3, 1)):
            with self.subTest(grouped=grouped):
                planner, *others = self.known(ranks, extra="ddp", grouped=grouped)
                self.assertEqual(len(planner), 1)
                self.assertRegex(planner[0], r"the layers of (\d+) of \1 buckets are known from what PyTorch")
                self.assertEqual(others, [[]] * (ranks - 1))

    def test_other_broadcasts_say_nothing(self):
        self.assertEqual(self.known(extra="broadcast"), [[], []])

    def test_a_file_says_so(self):
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("bucket,elements,dims,name\n0,3,1,bias\n0,100000,2,weight\n")
            file.flush()
            planner, other = self.known(env={"CINCH_LAYERS": file.name}, extra="ddp")
        self.assertEqual(len(planner), 1)
        self.assertIn("the layers of 1 of 1 buckets are known from CINCH_LAYERS", planner[0])
        self.assertEqual(other, [])


class Restart(Base):
    """Jobs one after the other, which leave what error feedback owes to the next: CINCH_RESIDUAL_DIR."""

    STEPS = 4  # compressed ones of a job

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = f"{folder.name}/made/by/cinch"

    def job(self, first=0, steps=STEPS, ranks=2, folder=None, count=50000, env=None, hosts=""):
        """The compressed results of a job whose calls begin with that of number `first`."""
        placed = {rank: {"NCCL_HOSTID": host} for rank, host in enumerate(hosts)}
        settings = {"CINCH_CODEC": "q4", "CINCH_SLOTS": "signature", "CINCH_GUARD_EVERY": "0", "NCCL_DEBUG": "INFO",
                    "RANK": None, "SLURM_PROCID": None, **(env or {})}
        if folder is not None:
            settings["CINCH_RESIDUAL_DIR"] = folder
        outcomes = launch(len(hosts) or ranks, env=settings, rank_env=placed, count=count, first=first,
                          calls=WARMUP + steps)
        self.assert_done(outcomes)
        self.assert_identical(outcomes)
        self.assert_compressed(outcomes, "q4")
        return [value for _, value, _ in calls(outcomes[0])[WARMUP:]], outcomes

    def test_is_not_noticed(self):
        whole, _ = self.job(steps=2 * self.STEPS)
        first, _ = self.job(folder=self.folder)
        self.assertEqual(sorted(os.listdir(self.folder)), ["rank0of2.comm0.cinch", "rank1of2.comm0.cinch"])
        second, outcomes = self.job(first=self.STEPS, folder=self.folder)
        self.assertEqual(first + second, whole)
        for rank, outcome in enumerate(outcomes):
            self.assertRegex(outcome.output, f"INFO .*residuals of 1 slots go on from {self.folder}/rank{rank}of2")
        without, _ = self.job(first=self.STEPS)
        self.assertNotEqual(without, second, "feedback changed nothing")

    def test_of_hosts_that_sum_up_first_is_not_noticed(self):
        for hosts in ("aabb", "aaab"):
            with self.subTest(hosts=hosts):
                folder = f"{self.folder}/{hosts}"
                whole, _ = self.job(steps=2 * self.STEPS, hosts=hosts)
                first, _ = self.job(folder=folder, hosts=hosts)
                second, _ = self.job(first=self.STEPS, folder=folder, hosts=hosts)
                self.assertEqual(first + second, whole)

    def test_on_other_hosts_starts_from_zero_where_the_lane_is_another(self):
        self.job(folder=self.folder, hosts="aabb")
        _, outcomes = self.job(first=self.STEPS, folder=self.folder, hosts="abab")
        for rank in (1, 2):
            self.assertRegex(outcomes[rank].output, "WARN .*the slots differ: .* is not there")

    def test_with_other_ranks_or_slots_starts_from_zero(self):
        self.job(folder=self.folder)
        for other, line in (({"ranks": 3}, "INFO .*there is no .*/rank0of3.comm0.cinch"),
                            ({"count": 50001}, "WARN .*the slots differ: AllReduce fp32 Sum x 50001 .* is not there"),
                            ({"env": {"CINCH_RESIDUAL": "bf16"}}, "WARN .*in another form there")):
            with self.subTest(**other):
                expected, _ = self.job(**other)
                with tempfile.TemporaryDirectory() as copy:
                    for name in os.listdir(self.folder):
                        shutil.copy(f"{self.folder}/{name}", copy)
                    results, outcomes = self.job(folder=copy, **other)
                self.assertEqual(results, expected)
                self.assertRegex(outcomes[0].output, "residuals start from zero")
                self.assertRegex(outcomes[0].output, line)

    def test_with_files_that_are_not_its_own_starts_from_zero(self):
        expected, _ = self.job()
        self.job(folder=self.folder)
        mine, other = (f"{self.folder}/rank{rank}of2.comm0.cinch" for rank in range(2))
        with open(mine, "rb") as file:
            content = file.read()
        os.replace(mine, other)
        with open(mine, "wb") as file:
            file.write(content[:-100])
        results, outcomes = self.job(folder=self.folder)
        self.assertEqual(results, expected)
        self.assertRegex(outcomes[0].output, "WARN .*its size is not what it says")
        self.assertRegex(outcomes[1].output, "WARN .*it is of rank 0 of 2")

    def test_without_a_folder_is_a_warning(self):
        expected, _ = self.job()
        with tempfile.NamedTemporaryFile() as file:
            results, outcomes = self.job(folder=f"{file.name}/folder")
        self.assertEqual(results, expected)
        for outcome in outcomes:
            self.assertRegex(outcome.output, "WARN .*residuals start from zero.*cannot make .*/folder")
            self.assertRegex(outcome.output, "WARN .*residuals not saved to .*cannot make .*/folder")


class Failure(Base):
    def test_a_rank_killed_before_any_call_ends_the_others(self):
        for kill_at in (0, 2, 3, 5):
            with self.subTest(kill_at=kill_at):
                outcomes = launch(3, env={"CINCH_CODEC": "q4"}, rank_args={1: ["--kill-at", kill_at]},
                                  count=50000, calls=8)
                self.assertEqual(outcomes[1].status, -9)
                for rank in (0, 2):
                    self.assertEqual(outcomes[rank].status, 1, outcomes[rank].output)
                    self.assertRegex(outcomes[rank].output, "error .*")

    def test_bad_settings_are_named_and_defaults_used(self):
        outcomes = launch(2, env={"CINCH_CODEC": "q9", "CINCH_COEDC": "q4"}, count=50000)
        self.assert_done(outcomes)
        self.assertRegex(outcomes[0].output, r"WARN.*CINCH_CODEC.*q9")
        self.assertRegex(outcomes[0].output, r"WARN.*CINCH_COEDC.*CINCH_CODEC")
        self.assert_compressed(outcomes, "auto")


if __name__ == "__main__":
    interposed.main()
