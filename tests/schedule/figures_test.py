"""What bench/schedule makes of times and errors."""

import os
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "bench"))

try:
    import numpy as np
except ImportError:
    print("skipped: needs the Python package numpy")
    sys.exit(77)

from reports import schedule as report  # noqa: E402
from schedule import adapt, grid, heat, rank  # noqa: E402
from schedule.job import Size  # noqa: E402


def cell(link="1gbit", n_bytes=1 << 20, auto=1.0, plain=2.0, fixed=4.0, bits=8.0, kind="fp32"):
    seconds = {"pass": plain, "auto": auto, "q8": fixed}
    variants = {
        name: {"seconds": value, "passed": 0.0, "nmse": 0.1, "bits": bits}
        for name, value in seconds.items()
    }
    facts = {"link": link, "hosts": 2, "ranks_per_host": 1, "type": kind, "bytes": n_bytes}
    return facts | {"variants": variants} | grid.ratios({name: [value] for name, value in seconds.items()})


class GridTest(unittest.TestCase):
    def test_ratios(self):
        found = grid.ratios({"pass": [2.0], "auto": [3.0], "q8": [4.0]})
        self.assertEqual(found, {"vs_pass": 1.5, "vs_best": 1.5})
        found = grid.ratios({"pass": [2.0], "auto": [3.0], "q8": [1.0]})
        self.assertEqual(found, {"vs_pass": 1.5, "vs_best": 3.0})

    def test_a_burst_is_held_against_those_beside_it(self):
        slowed = {"pass": [2.0, 20.0, 2.0], "auto": [1.0, 10.0, 1.0], "q8": [4.0, 40.0, 4.0]}
        self.assertEqual(grid.ratios(slowed), {"vs_pass": 0.5, "vs_best": 0.5})

    def test_the_best_is_what_was_best_in_other_bursts(self):
        # Two that are alike, each of which has been lucky once.
        lucky = {"pass": [5.0, 9.0, 9.0], "auto": [9.0, 9.0, 9.0], "q8": [9.0, 5.0, 9.0]}
        self.assertEqual(grid.ratios(lucky)["vs_best"], 1.0)

    def test_slow_sizes_get_fewer_calls(self):
        for variant in ("pass", "auto", "q4"):
            times = (1e-5, 0.09, 0.29, 10)
            warm, calls = zip(*(grid.calls_of(variant, seconds) for seconds in times))
            self.assertEqual(list(warm), sorted(warm, reverse=True))
            self.assertEqual(calls, (grid.MOST, grid.FEWEST, grid.CALLS_LONG, grid.FEWEST_SLOWEST))
        self.assertGreaterEqual(grid.calls_of("auto", 10)[0], 2 * adapt.ROUND)

    def test_slow_sizes_get_fewer_bursts(self):
        times = (1e-3, 1e-2, 0.2, 1.5)
        self.assertEqual([grid.bursts_of(seconds) for seconds in times], [15, 5, 1, 2])

    def test_the_first_calls_of_a_burst_do_not_count(self):
        size = Size([9, 9, 1, 2, 3, 1, 4, 5], [], None, {})
        self.assertEqual(size.medians(2, 3), [2.5, 4.5])
        self.assertEqual(Size([9] + [7, 7, 1, 2, 3, 4, 5, 6], [], None, {}).medians(1, 8), [3.5])

    def test_sizes(self):
        self.assertEqual([grid.number_of_bytes(text) for text in ("16K", "64M", "12")],
                         [16384, 64 << 20, 12])
        self.assertEqual([heat.size_text(16384), heat.size_text(64 << 20)], ["16K", "64M"])

    def test_table_and_maps_hold_every_cell(self):
        cells = [cell(auto=auto, n_bytes=size) for auto, size in ((0.5, 1 << 20), (2.5, 1 << 16))]
        table, maps = heat.table(cells), heat.maps(cells)
        self.assertEqual(table.count("\n"), 4)
        self.assertIn("| 64K | 2000.00 | 2500.00 | 4000.00 | compress | 1.25 | 1.25 |", table)
        self.assertIn("| 1gbit | 2x1 fp32 | 🟥 1.25 | 🟦 0.25 |", maps)


class AdaptTest(unittest.TestCase):
    def test_errors_tell_what_was_done(self):
        self.assertEqual([adapt.done_by(nmse) for nmse in (0, 5e-5, 0.05)],
                         ["plain", "stateless", "full"])

    def test_steps_to_settle(self):
        self.assertEqual(adapt.steps_to_settle(["full"] * 40), ("full", 0))
        late = ["plain"] * 30 + ["full", "plain"] + ["full"] * 40
        self.assertEqual(adapt.steps_to_settle(late), ("full", 32))
        self.assertEqual(adapt.steps_to_settle(["plain", "full"] * 20)[1], 40)


class ReportTest(unittest.TestCase):
    def test_bound(self):
        bound = cell(report.BOUND_LINK, report.BOUND_BYTES, auto=1.0, plain=4.0, bits=8.0)
        self.assertEqual(report.bound_fraction([cell(), bound]), 1.0)
        with self.assertRaises(LookupError):
            report.bound_fraction([cell()])

    def test_a_sleeper(self):
        for choice, unmoved in (("full", True), ("plain", False)):
            found = {"awake": {"choice": "full"}, "asleep": {"choice": choice}}
            self.assertEqual(report.is_unmoved(found), unmoved)

    def test_tuner_conformance(self):
        def results(**failures):
            cases = [{"name": name, "failures": [{"failure": text}]} for name, text in failures.items()]
            return {"testsuites": [{"testsuite": [{"name": "Good"}, *cases]}]}

        self.assertEqual(set(report.conformance(results()).values()), {"pass"})
        found = report.conformance(results(Marks="trace: v4", Version2Answers="wrong"))
        self.assertEqual(found, {"v2": "Version2Answers", "v3": "pass", "v4": "Marks", "v5": "pass",
                                 "v6": "pass"})
        self.assertEqual(set(report.conformance(results(Crash="?")).values()), {"Crash"})


class RankTest(unittest.TestCase):
    def test_sums_are_exact_in_every_type(self):
        parts = [rank.values_of(i, 5000) for i in range(4)]
        for kind in ("fp32", "bf16"):
            for values in (*parts, sum(parts)):
                found = rank.to_values(rank.to_bits(values, kind), kind)
                np.testing.assert_array_equal(found, values)
        self.assertFalse(np.array_equal(parts[0], parts[1]))


if __name__ == "__main__":
    unittest.main(verbosity=2)
