"""The driver's pure parts: figures from logs, bounds, checks, tables, the JSON of the report."""

import contextlib
import io
import json
import os
import sys
import tempfile
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "bench"))

import quickstart  # noqa: E402
from lab import checks, figures, machine, outcome, progress, rate, table, training  # noqa: E402
from reports import quickstart as quickstart_report  # noqa: E402

STEPS = 30


def make_log(rank, comm_ms=100.0, bytes_per_step=1000, loss=2.0, hash_="ab"):
    """A rank that enters `rank` ms after rank 0; the first 15 steps take ten times as long and send
    ten times as much."""
    steps, now, sent = [], 10.0, 500
    for step in range(STEPS):
        factor = 10 if step < 15 else 1
        enter = now + rank * 1e-3
        done = now + 3e-3 + factor * comm_ms * 1e-3
        sent += factor * bytes_per_step
        steps.append(
            {
                "step": step,
                "loss": 5.0,
                "t_enter": enter,
                "t_done": done,
                "t_step": done - now + 0.05,
                "rx_bytes": 0,
                "tx_bytes": sent,
            }
        )
        now = done + 0.05
    return {
        "steps": steps,
        "evaluations": [{"eval_step": 0, "train_s": 0, "held_out": 5.5, "hash": hash_}],
        "final": {
            "final": True,
            "held_out": loss,
            "held_out_first": 5.5,
            "hash": hash_,
            "parameters": 4096,
        },
    }


def make_rows():
    """Rows that pass every check."""

    def row(comm, wire, loss):
        return {
            "step_ms": comm + 50,
            "comm_ms": comm,
            "wire_bytes": wire,
            "wire_bytes_whole_run": wire,
            "loss": loss,
            "loss_first": 5.5,
            "hashes": ["a"] * 4,
            "parameters": 4 * 10**6,
            "others_share": 0.01,
        }

    codec = {"nmse": 0.01, "nmse_reduce": 0.01, "nmse_expected": 0.01, "nmse_reduce_expected": 0.01}
    return {
        "fp32": row(850, 26e6, 2.0),
        "bf16": row(430, 13e6, 2.001),
        "q8": row(250, 6.6e6, 2.002) | codec,
        "q4": row(150, 3.4e6, 2.01) | codec,
        "auto": row(140, 2.3e6, 2.01) | codec,
    }


BOUNDS = {"fp32": 768, "bf16": 384, "q8": 198, "q4": 102}
NORMS = {"sent": 1.0, "kept": 0.1, "unexplained": 1e-7, "outputs_equal": True}


def failed(results):
    return [check.name for check in checks.failed(results)]


class RateTest(unittest.TestCase):
    def test_notation_of_tc(self):
        self.assertEqual(rate.bits_per_second("250mbit"), 250e6)
        self.assertEqual(rate.bits_per_second("1.5Gbit"), 1.5e9)
        self.assertEqual(rate.bits_per_second("64kbit"), 64e3)

    def test_anything_else_is_refused(self):
        for text in (
            "",
            "250",
            "mbit",
            "-1gbit",
            "0mbit",
            "1gbps",
            "1 gbit; rm",
            "nanmbit",
            "1e3mbit",
        ):
            with self.assertRaises(ValueError, msg=text):
                rate.bits_per_second(text)


class FiguresTest(unittest.TestCase):
    def test_communication_runs_from_last_entry_to_last_completion(self):
        logs = [make_log(0, 100), make_log(1, 100)]
        logs[1]["steps"][20]["t_done"] += 0.5
        seconds = figures.communication_seconds(logs)
        self.assertEqual(len(seconds), STEPS)
        self.assertAlmostEqual(seconds[25], 0.102, places=9)
        self.assertAlmostEqual(seconds[20], 0.602, places=9)

    def test_summary_takes_steady_steps_only(self):
        row = figures.summarise([make_log(0), make_log(1)], STEPS, False)
        self.assertAlmostEqual(row["comm_ms"], 102, places=6)
        self.assertEqual(row["wire_bytes"], 1000)
        # 14 differences of 10000 bytes and 15 of 1000.
        self.assertAlmostEqual(row["wire_bytes_whole_run"], (14 * 10000 + 15 * 1000) / 29)
        self.assertEqual(row["hashes"], ["ab", "ab"])
        self.assertEqual(row["loss"], 2.0)

    def test_counters_of_a_shared_interface_are_divided(self):
        logs = [make_log(0), make_log(1)]
        self.assertEqual(figures.wire_bytes(logs, True)[0], figures.wire_bytes(logs, False)[0] / 2)

    def test_steady_steps_begin_after_twenty_or_half(self):
        self.assertEqual(figures.steady_from(200), 20)
        self.assertEqual(figures.steady_from(30), 15)

    def test_unfinished_logs_are_refused(self):
        short = make_log(1)
        short["steps"].pop()
        unfinished = make_log(1)
        unfinished["final"] = None
        for log in (short, unfinished):
            with self.assertRaisesRegex(figures.LogError, "rank 1"):
                figures.summarise([make_log(0), log], STEPS, False)

    def test_log_lines_are_sorted_by_kind(self):
        log = make_log(0)
        lines = [
            json.dumps(record) for record in log["evaluations"] + log["steps"] + [log["final"]]
        ]
        self.assertEqual(figures.parse_log(lines), log)

    def test_payload_follows_the_wire_format(self):
        self.assertEqual(figures.payload_bytes(1024, 4), 544)
        self.assertEqual(figures.payload_bytes(1025, 4), 2 * 544)
        self.assertEqual(figures.payload_bytes(1024, 8), 1056)
        self.assertEqual(figures.payload_bytes(1024, 2), 288)
        self.assertEqual(figures.payload_bytes(1000, 16), 2000)
        self.assertEqual(figures.payload_bytes(1000, 32), 4000)

    def test_bound_of_the_measured_example(self):
        # 16.8 MB over four hosts at 250 Mbit/s.
        self.assertAlmostEqual(figures.bound_ms(4194304, 32, 4, 250e6), 805.3, places=1)
        self.assertAlmostEqual(figures.bound_ms(4194304, 4, 4, 250e6), 107.0, places=1)


class ChecksTest(unittest.TestCase):
    def all_checks(self, rows, bounds=None, norms=None):
        return [
            *checks.time_checks(rows, bounds or BOUNDS),
            *checks.wire_checks(rows),
            *checks.loss_checks(rows),
            *checks.codec_checks(rows),
            checks.residual_check(norms or NORMS),
            checks.identical_check(rows),
        ]

    def test_good_figures_pass(self):
        self.assertEqual(failed(self.all_checks(make_rows())), [])

    def test_every_limit_fails_on_its_own(self):
        spoils = {
            "fp32: communication over its bound": ("fp32", "comm_ms", 900),
            "q4: communication over its bound": ("q4", "comm_ms", 170),
            "q4: communication shorter than fp32's": ("q4", "comm_ms", 220),
            "q4: wire bytes fewer than fp32's": ("fp32", "wire_bytes", 23e6),
            "q4: wire bytes fewer than bf16's": ("bf16", "wire_bytes", 11e6),
            "auto: communication shorter than fp32's": ("auto", "comm_ms", 220),
            "auto: wire bytes fewer than fp32's": ("auto", "wire_bytes", 3e6),
            "auto: distance of the held-out loss from fp32's": ("auto", "loss", 2.03),
            "auto: reported over predicted error, encode": ("auto", "nmse", 0.041),
            "fp32: fall of the held-out loss": ("fp32", "loss", 3.4),
            "q8: distance of the held-out loss from fp32's": ("q8", "loss", 1.99),
            "q4: distance of the held-out loss from fp32's": ("q4", "loss", 2.03),
            "q8: reported over predicted error, encode": ("q8", "nmse", 0.021),
            "q4: reported over predicted error, reduce": ("q4", "nmse_reduce", 0.004),
            "parameters identical on all ranks": ("q4", "hashes", ["a", "a", "b", "a"]),
        }
        for name, (row, figure, value) in spoils.items():
            rows = make_rows()
            rows[row][figure] = value
            self.assertIn(name, failed(self.all_checks(rows)))

    def test_a_codec_that_does_nothing_fails(self):
        rows = make_rows()
        rows["q4"] |= {"nmse": 0.0, "nmse_reduce": 0.0}
        self.assertEqual(len(failed(self.all_checks(rows))), 2)

    def test_residuals_must_explain_what_is_missing(self):
        for spoil in (
            {"unexplained": 1e-3},
            {"kept": 0.0},
            {"outputs_equal": False},
            {"unexplained": float("nan")},
        ):
            self.assertFalse(checks.residual_check(NORMS | spoil).passed, spoil)

    def test_not_a_number_never_passes(self):
        rows = make_rows()
        rows["q4"]["loss"] = float("nan")
        self.assertTrue(failed(checks.loss_checks(rows)))

    def test_limits_of_time_need_the_default_link_and_those_of_loss_the_full_length(self):
        def names(*arguments, bounds):
            options = quickstart.parse_arguments(list(arguments))
            return {
                check.name for check in quickstart.make_checks(options, make_rows(), bounds, NORMS)
            }

        everything = names("--full", bounds=BOUNDS)
        self.assertEqual(len(everything), 19)
        self.assertEqual(len(everything - names("--full", "--link", "1gbit", bounds=BOUNDS)), 4)
        self.assertEqual(len(everything - names("--full", bounds={})), 4)
        self.assertEqual(len(everything - names(bounds=BOUNDS)), 4)
        self.assertEqual(len(everything - names("--full", "--text", __file__, bounds=BOUNDS)), 4)

    def test_on_a_busy_machine_times_are_not_judged_and_all_else_is(self):
        options = quickstart.parse_arguments([])
        rows = make_rows()
        rows["fp32"]["comm_ms"] = 1200
        rows["q8"]["others_share"] = 0.34
        results = quickstart.make_checks(options, rows, BOUNDS, NORMS)
        self.assertEqual(failed(results), [])
        self.assertEqual(sum(check.passed is None for check in results), 4)
        self.assertIn("the machine was busy: not judged", outcome.format_checks(results))
        self.assertIn("11 checks passed. 4", quickstart.describe_checks(results, rows))
        self.assertIn("up to 34% of its CPU", quickstart.describe_checks(results, rows))
        rows["q4"]["hashes"] = ["a", "b", "a", "a"]
        results = quickstart.make_checks(options, rows, BOUNDS, NORMS)
        self.assertEqual(failed(results), ["parameters identical on all ranks"])
        self.assertEqual(quickstart.describe_checks(results, rows), "1 of 15 checks failed.")

    def test_on_a_quiet_machine_times_are_judged(self):
        rows = make_rows()
        rows["fp32"]["comm_ms"] = 1200
        results = quickstart.make_checks(quickstart.parse_arguments([]), rows, BOUNDS, NORMS)
        self.assertEqual(failed(results), ["fp32: communication over its bound"])


class ArgumentsTest(unittest.TestCase):
    def error(self, *arguments):
        output = io.StringIO()
        with contextlib.redirect_stderr(output), self.assertRaises(SystemExit) as ended:
            quickstart.parse_arguments(list(arguments))
        self.assertEqual(ended.exception.code, 2)
        return output.getvalue()

    def test_bad_values_are_named(self):
        self.assertIn("fast", self.error("--link", "fast"))
        self.assertIn("--steps", self.error("--steps", "5"))
        self.assertIn("--steps", self.error("--steps", "many"))
        self.assertIn("/nonexistent", self.error("--text", "/nonexistent"))
        self.assertIn("--stepz", self.error("--stepz", "5"))
        self.assertIn("--full", self.error("--full", "--steps", "50"))

    def test_the_full_length_is_twice_the_default(self):
        self.assertEqual(quickstart.parse_arguments([]).steps, 100)
        self.assertEqual(quickstart.parse_arguments(["--full"]).steps, 200)
        self.assertEqual(quickstart.parse_arguments(["--steps", "50"]).steps, 50)


class TableTest(unittest.TestCase):
    def test_columns_line_up(self):
        text = table.format_table([["", "step"], ["fp32", "1000 ms"], ["q4", "9 ms"]])
        self.assertEqual(
            text.splitlines(),
            ["           step", "  ----  -------", "  fp32  1000 ms", "  q4       9 ms"],
        )

    def test_rows_of_variants_line_up_though_printed_one_by_one(self):
        rows = make_rows()
        rows["fp32"]["step_ms"] = 123456
        lines = outcome.format_heading().splitlines()
        lines += [outcome.format_row(name, rows, BOUNDS) for name in rows]
        self.assertEqual({len(line) for line in lines}, {len(lines[0])})
        self.assertIn("123456 ms", lines[2])
        self.assertIn("11.30x fewer", lines[-1])

    def test_bytes_in_three_digits(self):
        self.assertEqual(table.format_bytes(999), "999 B")
        self.assertEqual(table.format_bytes(3468000), "3.47 MB")
        self.assertEqual(table.format_bytes(26.3e9), "26.30 GB")


class ProgressTest(unittest.TestCase):
    def setUp(self):
        self.now = 0.0
        self.output = io.StringIO()
        self.bar = progress.Progress({"a": 3, "b": 1}, self.output, lambda: self.now)

    def test_bar_is_clamped(self):
        self.assertEqual(progress.format_bar(0, 4), "[....]")
        self.assertEqual(progress.format_bar(0.5, 4), "[##..]")
        self.assertEqual(progress.format_bar(7, 4), "[####]")

    def test_time_left_follows_the_share_of_the_work(self):
        self.bar.start("a")
        self.now = 30.0
        self.bar.update(50, 100, "loss 3.0")
        self.assertIn(
            "38%  a: step 50/100  loss 3.0  0:30 gone, about 0:50 minutes left",
            self.output.getvalue(),
        )

    def test_time_left_is_not_guessed_before_work_is_seen(self):
        self.bar.start("a")
        self.now = 5.0
        self.bar.update(2, 100)
        self.assertIn("a: step 2/100  0:05 gone\n", self.output.getvalue())

    def test_files_get_a_line_now_and_then(self):
        self.bar.start("a")
        for _ in range(100):
            self.now += 0.2
            self.bar.update(1, 100)
        self.assertEqual(len(self.output.getvalue().splitlines()), 2)
        self.assertNotIn("\r", self.output.getvalue())

    def test_finished_jobs_count_in_full(self):
        self.bar.start("a")
        self.bar.finish_job("done")
        self.bar.start("b")
        self.bar.update(0, 100)
        self.assertIn(" 75%  b: step 0/100", self.output.getvalue())


class ExpectedSecondsTest(unittest.TestCase):
    def test_a_faster_link_shortens_fp32_most(self):
        slow, fast = (quickstart.expected_seconds(100, bits) for bits in (250e6, 1e9))
        self.assertLess(fast["fp32"] / slow["fp32"], fast["q4"] / slow["q4"])
        self.assertEqual(list(slow), ["fp32", "bf16", "q8", "q4", "auto", "proof"])

    def test_longer_training_leaves_the_proof_as_it_is(self):
        short, full = (quickstart.expected_seconds(steps, 250e6) for steps in (100, 200))
        self.assertGreater(full["q4"], short["q4"])
        self.assertEqual(full["proof"], short["proof"])


class OtherLoadTest(unittest.TestCase):
    def test_counts_user_time_and_steal_of_the_cores_given(self):
        stat = [
            "cpu  1000 1000 1000 1000 1000 1000 1000 1000 0 0",
            "cpu0 1 20 300 300 300 300 300 4000 0 0",
            "cpu1 50000 0 0 0 0 0 0 0 0 0",
            "cpu10 900000 0 0 0 0 0 0 0 0 0",
            "intr 5 5 5",
        ]
        self.assertEqual(machine.user_ticks(stat, {0}), 4021)
        self.assertEqual(machine.user_ticks(stat, {0, 1}), 54021)

    def test_is_a_share(self):
        load = machine.OtherLoad()
        time.sleep(0.1)
        self.assertGreaterEqual(load.share(), 0)


class EndingTest(unittest.TestCase):
    def test_three_lines_name_what_was_measured_and_on_what(self):
        class Network:
            def describe(self):
                return "4 network namespaces, 250mbit per host"

        class Plan:
            network = Network()
            program = "train_lm"

        lines = quickstart.explain_rows(Plan, make_rows(), "the emulator").splitlines()
        self.assertEqual(len(lines), 3)
        self.assertIn("steps of 190 ms instead of 900 ms, 11.3x fewer bytes, held-out loss +0.50 %", lines[0])
        self.assertIn("the emulator; 4 network namespaces, 250mbit", lines[1])
        self.assertIn("this machine's CPU", lines[2])
        Plan.program = "train_lm_gpu"
        self.assertIn("the GPU", quickstart.explain_rows(Plan, make_rows(), "").splitlines()[2])


class LogFollowerTest(unittest.TestCase):
    def test_half_a_line_waits_for_its_end(self):
        with tempfile.NamedTemporaryFile("w") as file:
            reader = training.StepFollower(file.name)
            self.assertEqual(reader.read(9), (0, 9, ""))
            file.write('{"step": 0, "loss": 4.5}\n{"step": 1, "lo')
            file.flush()
            self.assertEqual(reader.read(9), (1, 9, "loss 4.500"))
            file.write('ss": 4.25}\n{"final": true}\n')
            file.flush()
            self.assertEqual(reader.read(9), (2, 9, "loss 4.250"))


class ReportTest(unittest.TestCase):
    def test_has_exactly_the_promised_keys(self):
        results = make_rows() | {
            "fp32_vs_bound": 1.1,
            "q4_vs_bound": 1.4,
            "loss_first": 5.5,
            "ranks_identical": True,
            "first_row_s": 95.1,
            "command": "not reported",
        }
        report = quickstart_report.select(results, 120.5)
        self.assertEqual(
            set(report),
            {
                "fp32",
                "bf16",
                "q8",
                "q4",
                "auto",
                "fp32_vs_bound",
                "q4_vs_bound",
                "loss_first",
                "ranks_identical",
                "first_row_s",
                "passthrough_ns",
            },
        )
        self.assertEqual(set(report["bf16"]), {"step_ms", "comm_ms", "wire_bytes", "loss"})
        self.assertEqual(
            set(report["q4"]), {"step_ms", "comm_ms", "wire_bytes", "loss", "nmse", "nmse_expected"}
        )
        json.dumps(report)


if __name__ == "__main__":
    unittest.main(verbosity=2)
