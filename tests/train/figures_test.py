"""The pure parts of the comparison: variants, order, figures, table."""

import math
import unittest

import support  # noqa: F401  first: it says where the modules are
from train import compare, figures, variants


def run_of(name, number=1, step=0.2, losses=(5.0, 3.0, 2.0), cinch=None, **facts):
    checkpoints = [
        {"step": 10 * i, "loss": loss, "seconds": 10.0 * i * step} for i, loss in enumerate(losses)
    ]
    final = {
        "final": True,
        "steps": 20,
        "checkpoints": checkpoints,
        "step_seconds": step,
        "tokens_per_second": 100 / step,
        "wire_bytes_per_step": None,
        "ranks": 2,
        "ranks_identical": True,
    }
    return {"variant": name, "round": number, "final": final | facts, "cinch": cinch}


class VariantTest(unittest.TestCase):
    def names(self, wrap, device):
        text = variants.default_names(wrap, device)
        return [variant.name for variant in variants.parse(text, wrap, device, {})]

    def test_defaults_are_what_the_wrap_and_the_device_have(self):
        ours = ["cinch", "cinch-q8", "cinch-q4"]
        self.assertEqual(self.names("ddp", "cuda"), ["plain", "bf16", "powersgd", *ours])
        self.assertEqual(self.names("fsdp2", "cuda"), ["plain", "bf16", *ours])
        self.assertEqual(self.names("ddp", "cpu"), ["plain", "bf16", "powersgd"])

    def test_settings_are_those_of_cinch_alone(self):
        settings = {"CINCH_MIN_BYTES": "1M"}
        plain, ours, q4 = variants.parse("plain, cinch,cinch-q4", "ddp", "cuda", settings)
        self.assertIsNone(plain.settings)
        self.assertEqual(ours.settings, settings)
        self.assertEqual(q4.settings, settings | {"CINCH_CODEC": "q4"})

    def test_what_there_is_not_is_named(self):
        for text, wrap, device, why in (
            ("plain,gzip", "ddp", "cuda", "'gzip' is none of"),
            ("plain,cinch-", "ddp", "cuda", "'cinch-' is none of"),
            ("", "ddp", "cuda", "'' is none of"),
            ("plain,plain", "ddp", "cuda", "twice"),
            ("powersgd", "fsdp2", "cuda", "powersgd is a hook of DDP"),
            ("cinch-q4", "ddp", "cpu", "gloo"),
        ):
            with self.subTest(text=text), self.assertRaisesRegex(variants.VariantError, why):
                variants.parse(text, wrap, device, {})


class OrderTest(unittest.TestCase):
    def test_every_second_round_runs_backwards(self):
        self.assertEqual(
            list(compare.turns(["a", "b", "c"], 3)),
            [(1, "a"), (1, "b"), (1, "c"), (2, "c"), (2, "b"), (2, "a")]
            + [(3, "a"), (3, "b"), (3, "c")],
        )


class RecordTest(unittest.TestCase):
    def test_other_lines_are_left_out(self):
        lines = ["a warning", "{half", '{"step": 1}', "", '{"final": true, "steps": 3}']
        records = figures.parse_records(lines)
        self.assertEqual(records, [{"step": 1}, {"final": True, "steps": 3}])
        self.assertEqual(figures.final_of(records, 3), records[-1])

    def test_an_unfinished_job_is_refused(self):
        for records, why in (
            ([], "after 0 lines"),
            ([{"step": 1}], "after 1 lines"),
            ([{"final": True, "steps": 3}], "3 steps instead of 4"),
        ):
            with self.assertRaisesRegex(figures.FigureError, why):
                figures.final_of(records, 4)

    def test_reports_of_all_ranks_are_summed(self):
        report = {
            "format": 2,
            "communicators": [{"passed": {"small": {"calls": 2, "bytes": 9}}}],
            "totals": {"compressed_calls": 3, "wire_bytes": 50},
        }
        self.assertEqual(
            figures.sum_reports([report, report]),
            {"compressed_calls": 6, "wire_bytes": 100, "passed": {"small": 4}},
        )
        with self.assertRaisesRegex(figures.FigureError, "format 3"):
            figures.sum_reports([report | {"format": 3}])


class FigureTest(unittest.TestCase):
    def test_time_to_a_loss(self):
        points = run_of("plain")["final"]["checkpoints"]  # 5, 3, 2 after 0, 2 and 4 s
        for loss, seconds in ((6, 0), (5, 0), (4, 1), (3, 2), (2.5, 3), (2, 4), (1.9, None)):
            self.assertEqual(figures.seconds_to(points, loss), seconds, loss)

    def test_target_is_what_all_have_reached(self):
        runs = [run_of("a", losses=(5, 2, 3)), run_of("b", losses=(5, 4, 2.5))]
        self.assertEqual(figures.default_target(runs), 2.5)
        runs.append(run_of("c", losses=(math.nan, math.nan)))
        self.assertIsNone(figures.default_target(runs))

    def test_ratios_are_taken_within_a_round(self):
        # The machine is three times as slow in the second round.
        runs = [run_of("plain", 1, 0.2), run_of("x", 1, 0.1)]
        runs += [run_of("x", 2, 0.3), run_of("plain", 2, 0.6)]
        rows = figures.summarise(runs, 2.5)
        self.assertEqual(list(rows), ["plain", "x"])
        self.assertEqual(rows["plain"]["step_ratio"], 1)
        self.assertAlmostEqual(rows["x"]["step_ratio"], 0.5)
        self.assertAlmostEqual(rows["x"]["step_ms"], 200)
        self.assertAlmostEqual(rows["x"]["seconds_to_target"], 3.0)

    def test_a_round_that_lacks_the_first_variant_has_no_ratio(self):
        runs = [run_of("plain", 1, step=0.4), run_of("x", 1, step=0.2), run_of("x", 2, step=0.4)]
        self.assertAlmostEqual(figures.summarise(runs, 2.5)["x"]["step_ratio"], 0.5)

    def test_losses_are_means_over_the_rounds(self):
        runs = [run_of("plain", 1, losses=(5, 2)), run_of("plain", 2, losses=(5, 3))]
        row = figures.summarise(runs, 2.5)["plain"]
        self.assertEqual(row["loss"], 2.5)
        self.assertIsNone(row["seconds_to_target"])

    def test_bytes_of_cinch_are_those_of_a_rank_and_step(self):
        cinch = {"wire_bytes": 80000, "compressed_calls": 20, "passed": {}}
        row = figures.summarise([run_of("cinch", cinch=cinch)], None)["cinch"]
        self.assertEqual(row["cinch_wire_bytes"], 2000)
        self.assertIsNone(row["wire_bytes"])

    def test_what_spoils_a_comparison(self):
        nothing = {"compressed_calls": 0, "wire_bytes": 0, "passed": {"same_host": 9}}
        fine = run_of("cinch", cinch=nothing | {"compressed_calls": 1})
        sharded = run_of("plain", ranks_identical=None)
        self.assertEqual(list(figures.problems([run_of("plain"), fine, sharded])), [])
        for run, why in (
            (run_of("cinch", cinch=nothing), "compressed nothing; calls that passed: same_host 9"),
            (run_of("plain", ranks_identical=False), "different parameters"),
            (run_of("plain", 2, losses=(5, math.nan)), "plain, round 2: a loss is no number"),
        ):
            (sentence,) = figures.problems([run])
            self.assertIn(why, sentence)

    def test_table(self):
        cinch = {"wire_bytes": 80000, "compressed_calls": 20, "passed": {}}
        runs = [run_of("plain", wire_bytes_per_step=5e6), run_of("cinch", step=0.1, cinch=cinch)]
        lines = figures.format_rows(figures.summarise(runs, 2.5), 2.5).splitlines()
        self.assertEqual(
            [" ".join(line.split()) for line in (lines[0], *lines[2:])],
            [
                "step of plain's tokens/s wire bytes/step Cinch's part loss to 2.5",
                "plain 200.0 ms 1.000 500 5.00 MB - 2.0000 3.0 s",
                "cinch 100.0 ms 0.500 1000 - 2.00 kB 2.0000 1.5 s",
            ],
        )


if __name__ == "__main__":
    unittest.main(verbosity=2)
