"""bench/report codec, with the programs that it runs played by others."""

import json
import os
import sys
import unittest
from unittest import mock

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "bench"))
from reports import codec  # noqa: E402

KERNELS = ({"encode_q4_fp32": 28.5}, 0, None)


def explained(scale):
    """As if error grew with the scale, and fp16 had no room for the largest."""
    error = float(scale) * 1e-6
    rows = {"q4": error, "fp16": None if scale == "1e4" else error}
    return [{"name": name, "nmse": dict.fromkeys(codec.DATA, value)} for name, value in rows.items()]


def benched(*arguments):
    if "--benchmark_list_tests" in arguments:
        return "copy\nencode/wide/q2/fp32\nencode/narrow/q2/fp32\n"
    rows = [
        {"run_name": row.format("wide"), "run_type": kind, "bytes_per_second": rate}
        for row in codec.HOST_ROWS.values()
        for kind, rate in (("iteration", 4e9), ("iteration", 5.004e9), ("aggregate", 9e9))
    ]
    return json.dumps({"benchmarks": rows})


class MeasureTest(unittest.TestCase):
    def measure(self, kernels=KERNELS):
        with (
            mock.patch.object(codec, "build"),
            mock.patch.object(codec, "explain_codecs", side_effect=explained),
            mock.patch.object(codec, "run_program", side_effect=lambda _, *rest: benched(*rest)),
            mock.patch.object(codec, "kernels", return_value=kernels),
            mock.patch.object(codec, "print_tables"),
        ):
            return codec.measure()

    def test_errors_are_the_worst_of_all_scales(self):
        nmse = self.measure()[0]["nmse"]
        self.assertEqual(nmse["q4"], dict.fromkeys(codec.DATA, 1e-2))
        self.assertEqual(nmse["fp16"], dict.fromkeys(codec.DATA, None))

    def test_speeds_are_the_best_of_all_repetitions_of_the_fastest_compilation(self):
        speeds = self.measure()[0]["host_gbps"]
        self.assertEqual(speeds, dict.fromkeys(codec.HOST_ROWS, 5.0))

    def test_the_line_has_what_is_asked_for(self):
        figures, passed = self.measure()
        self.assertTrue(passed)
        self.assertEqual(figures["instr_per_elem"], KERNELS[0])
        self.assertEqual(figures["spills"], 0)
        self.assertEqual(figures["families"], ["q4", "fp16"])

    def test_missing_kernels_are_explained(self):
        figures, passed = self.measure((None, None, "no nvcc"))
        self.assertTrue(passed)
        self.assertIsNone(figures["instr_per_elem"])
        self.assertEqual(figures["kernels_missing"], "no nvcc")

    def test_a_spill_fails_the_report(self):
        self.assertFalse(self.measure(({}, 4, None))[1])


if __name__ == "__main__":
    unittest.main()
