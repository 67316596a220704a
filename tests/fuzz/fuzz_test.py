"""The fuzzer's own comparison: it must see what it is there to see."""

import copy
import unittest

from fuzz_compare import compare_modes, compressed_calls
from fuzz_run import CONFIGURATIONS, Output, Result

Q8 = CONFIGURATIONS[0]


def output(data="aa", kind="AllReduce", seen=5, worst=0.0, mean_square=0.0, op=0, value="fp32", members=2):
    return Output(kind, value, op, 0, members, 1024, seen, False, data, "rest", worst, mean_square)


def result(**changes):
    """Two ranks, one call each; `changes` go to both."""
    outputs = {(rank, 7, 0, "AllReduce"): output(**changes) for rank in range(2)}
    return Result(codes=["codes 0 0 5"], outputs=outputs)


class Comparison(unittest.TestCase):
    def wrong(self, on, plain=None, off=None):
        plain = plain or result()
        return compare_modes(plain, off or copy.deepcopy(plain), on, Q8)

    def test_equal_runs_and_errors_within_the_bound_are_right(self):
        self.assertEqual(self.wrong(result()), [])
        self.assertEqual(self.wrong(result(data="bb", worst=0.9, mean_square=0.9)), [])

    def test_what_may_not_differ_is_compared_bit_by_bit(self):
        for exact in ({"op": 2}, {"value": "int32"}, {"value": "fp64"}, {"seen": 2}, {"members": 1},
                      {"kind": "Broadcast"}):
            with self.subTest(**exact):
                self.assertRegex(self.wrong(result(data="bb", **exact), result(**exact))[0], "differs from plain")

    def test_errors_beyond_the_bound_are_seen(self):
        self.assertIn("bound", self.wrong(result(data="bb", worst=1.1))[0])
        self.assertIn("bound", self.wrong(result(data="bb", worst=float("inf")))[0])
        self.assertIn("mean square", self.wrong(result(data="bb", mean_square=1.1))[0])

    def test_ranks_must_agree(self):
        on = result(data="bb")
        on.outputs[(1, 7, 0, "AllReduce")].data = "cc"
        self.assertIn("differs from rank", self.wrong(on)[0])

    def test_switched_off_must_be_plain(self):
        self.assertTrue(self.wrong(result(), off=result(data="bb")))
        off = result()
        off.codes = ["code 0 0 3 AllReduce 4"]
        self.assertTrue(self.wrong(result(), off=off))

    def test_codes_ends_and_missing_results_are_seen(self):
        for change in ("codes", "ends"):
            on = result()
            setattr(on, change, ["something else"])
            self.assertTrue(self.wrong(on))
        on = result()
        del on.outputs[(1, 7, 0, "AllReduce")]
        self.assertTrue(self.wrong(on))

    def test_memory_around_the_result_is_compared(self):
        on = result(data="bb")
        on.outputs[(0, 7, 0, "AllReduce")].rest = "overwritten"
        self.assertIn("around", self.wrong(on)[0])

    def test_wrong_plain_results_are_seen(self):
        self.assertIn("plain", self.wrong(result(), plain=result(worst=2))[0])

    def test_compressed_results_are_counted(self):
        self.assertEqual(compressed_calls(result(), result()), 0)
        self.assertEqual(compressed_calls(result(), result(data="bb")), 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
