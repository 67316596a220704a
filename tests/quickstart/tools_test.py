"""The programs behind the driver's checks, on data whose answer is known.

tools_test.py FOLDER_OF_THE_PROGRAMS [unittest arguments]
"""

import array
import json
import os
import random
import subprocess
import sys
import tempfile
import unittest

PROGRAMS = ""
COUNT = 4096 + 100


def write(path, kind, *parts):
    with open(path, "wb") as file:
        for part in parts:
            array.array(kind, part).tofile(file)


class ToolCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.random = random.Random(1)

    def run_tool(self, name, *arguments):
        return subprocess.run(
            [os.path.join(PROGRAMS, name), *arguments], capture_output=True, text=True, timeout=60
        )

    def figures(self, name, *arguments):
        done = self.run_tool(name, *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def expect_error(self, part, name, *arguments):
        done = self.run_tool(name, *arguments)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(part, done.stderr)


class CodecPredictTest(ToolCase):
    def predict(self, codec, *gradients, steps=1):
        paths = []
        for rank, values in enumerate(gradients):
            paths.append(f"{self.folder}/g{rank}")
            write(paths[-1], "f", values)
        return self.figures(
            "codec_predict", "--codec", codec, "--count", str(COUNT), "--steps", str(steps), *paths
        )

    def gaussian(self, count=COUNT):
        return [self.random.gauss(0, 1e-3) for _ in range(count)]

    def test_gaussian_values_have_the_known_errors(self):
        gradients = [self.gaussian() for _ in range(4)]
        for codec, expected in (("q8", 3.5e-5), ("q4", 9.9e-3), ("q2", 0.181)):
            figures = self.predict(codec, *gradients)
            self.assertAlmostEqual(figures["nmse"] / expected, 1, delta=0.1, msg=codec)
        for codec, expected in (("q8", 3.5e-5), ("q4", 9.9e-3)):
            self.assertAlmostEqual(
                self.predict(codec, *gradients)["nmse_reduce"] / expected, 1, delta=0.1, msg=codec
            )

    def test_all_steps_count(self):
        quiet, loud = [0.0] * COUNT, self.gaussian()
        alone = self.predict("q4", loud, loud)
        both = self.predict("q4", quiet + loud, quiet + loud, steps=2)
        self.assertGreater(alone["nmse"], 1e-3)
        self.assertEqual(both, alone)

    def test_constant_blocks_are_exact(self):
        self.assertEqual(
            self.predict("q4", [0.5] * COUNT, [0.25] * COUNT), {"nmse": 0, "nmse_reduce": 0}
        )

    def test_bad_arguments_are_named(self):
        self.expect_error("--codec", "codec_predict", "--codec", "q7", "--count", "5", "file")
        self.expect_error(
            "/nonexistent", "codec_predict", "--codec", "q4", "--count", "5", "/nonexistent"
        )
        write(f"{self.folder}/short", "f", [1.0] * 4)
        self.expect_error(
            "short", "codec_predict", "--codec", "q4", "--count", "5", f"{self.folder}/short"
        )


class ResidualCheckTest(ToolCase):
    """Two ranks that own the halves of ten values."""

    def setUp(self):
        super().setUp()

        def values():
            return [self.random.randint(-1000, 1000) / 64 for _ in range(10)]

        self.sent = [values(), values()]
        self.first = [values(), values()]
        self.second = [values()[:5], values()[:5]]
        owner = self.second[0] + self.second[1]
        out = [a + b - c - d - e for a, b, c, d, e in zip(*self.sent, *self.first, owner)]
        self.reduced = [list(out), list(out)]
        self.type = "fp32"

    def check(self):
        arguments = []
        for rank in (0, 1):
            base = f"{self.folder}/{rank}"
            write(base + ".sums", "d", self.sent[rank], self.reduced[rank])
            # Another, smaller slot comes first in the file.
            write(base + ".bin", "f", [9.0, 9.0], self.first[rank], self.second[rank])
            slot = {"count": 10, "shard_first": 5 * rank, "shard_count": 5, "offset": 8, "residual_type": self.type}
            with open(base + ".json", "w") as file:
                json.dump(
                    {
                        "slots": [
                            {"count": 1, "shard_first": 0, "shard_count": 1, "offset": 0},
                            slot,
                        ]
                    },
                    file,
                )
            arguments += [base + ".sums", base]
        return self.figures("residual_check", *arguments)

    def test_what_the_residuals_hold_is_explained(self):
        figures = self.check()
        self.assertEqual(figures["unexplained"], 0)
        self.assertGreater(figures["kept"], 1)
        self.assertGreater(figures["sent"], 1)
        self.assertIs(figures["outputs_equal"], True)

    def test_a_lost_value_shows(self):
        for values in (self.first[1], self.second[1], self.sent[0]):
            values[3] += 2.0
            self.assertAlmostEqual(self.check()["unexplained"], 2.0)
            values[3] -= 2.0

    def test_ranks_that_got_different_sums_show(self):
        self.reduced[1][9] += 1e-12
        self.assertIs(self.check()["outputs_equal"], False)

    def test_residuals_that_do_not_add_up_are_refused(self):
        self.type = "int8"
        with self.assertRaisesRegex(AssertionError, "only fp32 residuals"):
            self.check()

    def test_missing_files_are_named(self):
        self.expect_error("usage", "residual_check", "one")
        self.expect_error("nothing.json", "residual_check", "sums", f"{self.folder}/nothing")


if __name__ == "__main__":
    PROGRAMS = sys.argv.pop(1)
    unittest.main(verbosity=2)
