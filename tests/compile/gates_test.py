"""The gates of compiled kernels see what they are there for: a lost -fmad=false, and a third more instructions, wherever
these are. Of small kernels, so that it takes seconds.

gates_test.py NVCC ROOT
"""

import contextlib
import io
import os
import shutil
import sys
import tempfile
import unittest

import compile_gates

NVCC = ROOT = None
ARCH = 90
STORED = "      sum_.store(sumOf(walk.tile, extent), walk.tile, extent);\n"
# A multiplication and an addition for each value, which are a third more than some seven instructions.
WORK = "for (uint32_t i = 0; i < kOctetElems; ++i) octet[i] = octet[i] * 1.5f + 0.25f;"
# What goes before the agent, and instead of its last line.
PLANTED = {
    "in line": (f"__device__ inline void plant(float (&octet)[kOctetElems]) {{ {WORK} }}\n",
                "TileValues sum = sumOf(walk.tile, extent);\n"
                "for (uint32_t slot = 0; slot < kSlots; ++slot) plant(sum.at[slot]);\n"),
    "in a function that is called": (
        "__device__ __noinline__ float plant(float x) { for (int i = 0; i < 16; ++i) x = x * 1.5f + 0.25f; return x; }\n",
        "TileValues sum = sumOf(walk.tile, extent);\n"
        "sum.at[0][0] = plant(sum.at[0][0]); sum.at[1][0] = plant(sum.at[1][0]);\n"),
    "in a loop": ("", "TileValues sum = sumOf(walk.tile, extent);\n#pragma unroll 1\n"
                      "for (int k = 0; k < 8; ++k)\n"
                      "for (int i = 0; i < 4; ++i) sum.at[0][i] = sum.at[0][i] * 1.5f + 0.25f;\n"),
}


def compiled(root, source="sum", options=("-fmad=false",)):
    with tempfile.TemporaryDirectory() as folder:
        return compile_gates.compile_source(NVCC, root, source, ARCH, folder, options)


def failures(found):
    """What the gates say of it."""
    report = compile_gates.Report()
    counts = {(each.name, ARCH): compile_gates.Counts(each.per_value, each.n_fused) for each in found.kernels}
    with contextlib.redirect_stderr(io.StringIO()):
        compile_gates.check_source(report, "", found)
        compile_gates.check_counts(report, counts, compile_gates.read_ceilings())
    return report.failures


class GatesTest(unittest.TestCase):
    def plant(self, before, instead):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        root = os.path.join(folder.name, "tree")
        for name in ("kernels", "common"):
            shutil.copytree(os.path.join(ROOT, name), os.path.join(root, name))
        path = os.path.join(root, "kernels", "cuda", "agent", "sum_agent.cuh")
        with open(path, encoding="utf-8") as file:
            source = file.read()
        self.assertIn(STORED, source)
        source = source.replace(STORED, instead + "sum_.store(sum, walk.tile, extent);\n")
        with open(path, "w", encoding="utf-8") as file:
            file.write(source.replace("template <ElementType type>\nclass SumAgent", before + "template <ElementType type>\nclass SumAgent"))
        return root

    def test_the_kernels_as_they_are_pass(self):
        for source in ("sum", "tally"):
            self.assertEqual(failures(compiled(ROOT, source)), [])

    def test_contraction_is_seen(self):
        found = failures(compiled(ROOT, "tally", ()))
        self.assertTrue(any("no contraction" in failure for failure in found), found)
        self.assertTrue(any("fused multiplications" in failure for failure in found), found)

    def test_more_instructions_are_seen_wherever_they_are(self):
        for where, (before, instead) in PLANTED.items():
            with self.subTest(where):
                found = failures(compiled(self.plant(before, instead)))
                self.assertEqual(sum("instructions per value" in failure for failure in found), 3, found)


if __name__ == "__main__":
    ROOT = sys.argv.pop()
    NVCC = sys.argv.pop()
    unittest.main(verbosity=2)
