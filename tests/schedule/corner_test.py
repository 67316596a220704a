"""A corner of the grid of bench/schedule, and a link that changes: what Cinch does where there can be
no doubt, and that every result is right. How fast that is, benchmarks say. What rests on times is judged only where
nobody else used the machine."""

import contextlib
import os
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "bench"))

try:
    import numpy  # noqa: F401
except ImportError:
    print("skipped: needs the Python package numpy")
    sys.exit(77)

from lab.machine import Busy, OtherLoad, judged_when_quiet  # noqa: E402
from lab.network import NetworkError, SlowLinks  # noqa: E402
from schedule import adapt, grid, overlap  # noqa: E402

BUILD = None
SLOW = "50mbit"


class CornerTest(unittest.TestCase):
    def setUp(self):
        self.load = OtherLoad()

    @contextlib.contextmanager
    def quiet(self):
        """Around assertions on times."""
        try:
            with judged_when_quiet(self.load):
                yield
        except Busy as busy:
            self.skipTest(str(busy))

    def test_cells(self):
        cells = grid.measure(grid.parse([BUILD, "--corner"]))["cells"]
        self.assertEqual(len(cells), 4)
        for cell in cells:
            with self.subTest(link=cell["link"], bytes=cell["bytes"]):
                variants = cell["variants"]
                self.assertEqual(variants["pass"]["nmse"], 0)
                self.assertTrue(all(v["nmse"] < adapt.WORST for v in variants.values()))
                for codec in ("q8", "q4", "h3"):
                    self.assertGreater(variants[codec]["nmse"], 0, "fixed choices compress")
                if cell["link"] == SLOW:
                    with self.quiet():
                        self.assertEqual(variants["auto"]["passed"], 0)
                        self.assertLess(cell["vs_pass"], 0.5)

    def test_a_link_that_changes(self):
        fast, n_bytes = adapt.CHANGES[1]
        found = adapt.follow(BUILD, [fast, SLOW, fast], n_bytes)
        self.assertEqual(found["wrong"], 0)
        self.assertTrue(found["ranks_alike"])
        with self.quiet():
            self.assertNotEqual(found["phases"][1]["choice"], "plain")
            self.assertLessEqual(found["phases"][1]["steps"], 100)

    def test_a_codec_as_slow_as_the_wire(self):
        found = overlap.measure(BUILD, rounds=1)
        with self.quiet():
            self.assertLessEqual(found["overlap_ratio"], 1.25, found)
            self.assertGreater(found["whole_seconds"], 1.5 * found["wire_seconds"], found)

    def test_a_rank_that_sleeps(self):
        found = adapt.sleeper(BUILD, SLOW, adapt.CHANGES[0][1])
        with self.quiet():
            self.assertEqual(found["awake"]["choice"], found["asleep"]["choice"])
            self.assertNotEqual(found["asleep"]["choice"], "plain")


def main():
    global BUILD
    BUILD = sys.argv.pop(1)
    try:
        with SlowLinks(1, SLOW, 5e7):
            pass
    except (NetworkError, OSError) as error:
        print(f"skipped: no network namespaces here: {error}")
        sys.exit(77)
    unittest.main(verbosity=2)


if __name__ == "__main__":
    main()
