"""What the checks of the codec conclude, with scripts in place of the programs. No GPU."""

import json
import os
import stat
import tempfile
import textwrap
import types
import unittest
from unittest import mock

import codec_items
import gpu_machine
from check_support import Context, Failure, Skip

PASSED = "[  PASSED  ] 3 tests.\\n[  SKIPPED ] 1 test, listed below:"


def row(**changes):
    return {"kernel": "encode", "codec": "q4", "type": "fp32", "residual": "fp32", "rounding": "nearest", "mib": 64,
            "us": 50.0, "gvalues": 300.0, "gbps": 3900, "fcb": 0.9, **changes}


class ItemsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        gpu = types.SimpleNamespace(capability=90)
        mps = types.SimpleNamespace(environment={"MPS": "1"}, reason=None)
        self.context = Context("/nowhere", self.folder, gpu, mps, [])

    def write_program(self, path, script):
        """A shell script in place of a program."""
        path = os.path.join(self.folder, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\n" + textwrap.dedent(script))
        os.chmod(path, stat.S_IRWXU)
        return path

    def write_bench(self, *rows):
        first = {"kernel": "copy", "mib": 64, "gbps": 4300}
        lines = "\n".join(json.dumps(each) for each in [first, *rows])
        self.write_program("bin/codec_gpu_bench", f"cat <<'END'\n{lines}\nEND\n")

    def sanitize(self, script):
        self.write_program("tests/codec_gpu_test", "exit 3")
        sanitizer = self.write_program("sanitizer", script)
        with mock.patch.object(gpu_machine, "find_tool", return_value=sanitizer):
            return codec_items.codec_under_sanitizers(self.context)


class CorrectnessTest(ItemsTest):
    def test_every_share_counts(self):
        self.write_program("tests/codec_gpu_test", f'test -n "$CINCH_GPU_TEST_SHARE" -a "$MPS" = 1 && printf "{PASSED}"')
        figures = codec_items.codec_equals_scalar_core(self.context).figures
        self.assertEqual(figures, {"tests": 3 * codec_items.SHARES, "skipped": codec_items.SHARES})

    def test_one_failing_share_fails(self):
        self.write_program("tests/codec_gpu_test", f'printf "{PASSED}"; test "${{CINCH_GPU_TEST_SHARE%/*}}" != 2')
        with self.assertRaises(Failure):
            codec_items.codec_equals_scalar_core(self.context)

    def test_nothing_but_skipped_tests_fails(self):
        self.write_program("tests/codec_gpu_test", 'echo "[  SKIPPED ] 1 test, listed below:"')
        with self.assertRaises(Failure):
            codec_items.codec_equals_scalar_core(self.context)


class SmokeTest(ItemsTest):
    def test_it_runs_every_kernel_once(self):
        self.write_program("tests/codec_gpu_test", f'test "$GTEST_FILTER" = {codec_items.SMOKE} && printf "{PASSED}"')
        self.assertEqual(codec_items.codec_smoke(self.context).state, "pass")

    def test_a_smoke_without_tests_fails(self):
        for script in ("true", "exit 1"):
            self.write_program("tests/codec_gpu_test", script)
            with self.assertRaises(Failure):
                codec_items.codec_smoke(self.context)


class SanitizerTest(ItemsTest):
    def test_every_tool_runs(self):
        outcome = self.sanitize(f'test "$CINCH_GPU_TEST_ROUNDS" = 2 && printf "{PASSED}"')
        self.assertEqual(outcome.figures, dict.fromkeys(codec_items.SANITIZERS, 3))

    def test_an_error_of_one_tool_fails(self):
        with self.assertRaisesRegex(Failure, "racecheck"):
            self.sanitize(f'printf "{PASSED}"; test "$2" != racecheck || exit $4')

    def test_a_tool_that_ran_nothing_fails(self):
        with self.assertRaises(Failure):
            self.sanitize("exit 0")

    def test_a_device_that_no_tool_supports_is_skipped(self):
        with self.assertRaises(Skip):
            self.sanitize("echo Device not supported; exit 1")


class BandwidthTest(ItemsTest):
    def test_figures_are_the_rows(self):
        self.write_bench(row())
        outcome = codec_items.codec_bandwidth(self.context)
        self.assertEqual(outcome.figures["kernels"], [row()])
        self.assertEqual(outcome.note, "1 measurements, copy 4300 GB/s, 1 of 7 targets reached")

    def test_what_misses_its_target_is_named(self):
        self.write_bench(row(fcb=0.8), row(mib=1, fcb=0.1), row(kernel="reduce", fcb=0.1))
        note = codec_items.codec_bandwidth(self.context).note
        self.assertTrue(note.endswith("0 of 7 targets reached, below: encode q4 fp32 fp32 0.80 of 0.85"), note)

    def test_the_table_has_a_line_for_each_codec(self):
        lines = codec_items.rate_table([row(), row(codec="h4", residual="none", fcb=0.61), row(codec="q2", mib=1)])
        self.assertEqual([line.split()[0] for line in lines], ["fcb", "q4", "h4", "q2"])
        self.assertEqual(lines[2].split()[1:], ["0.61"] + ["-"] * 7)

    def test_a_failing_benchmark_fails(self):
        self.write_program("bin/codec_gpu_bench", "echo broken; exit 1")
        with self.assertRaisesRegex(Failure, "broken"):
            codec_items.codec_bandwidth(self.context)


if __name__ == "__main__":
    unittest.main()
