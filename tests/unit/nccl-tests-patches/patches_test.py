"""The patches for nccl-tests as text: they insert lines, and hold none of upstream's."""

import os
import re
import sys
import unittest

ROOT = os.path.dirname(os.path.abspath(__file__)).split(os.sep + "tests" + os.sep)[0]
PATCHES = os.path.join(ROOT, "nccl-tests-patches")
sys.path.insert(0, PATCHES)

from insertions import count_context_lines, count_hunks, faults  # noqa: E402

def read(name):
    with open(os.path.join(PATCHES, name), encoding="utf-8") as file:
        return file.read().splitlines()


def patches():
    return sorted(name for name in os.listdir(PATCHES) if name.endswith(".patch"))


class Patches(unittest.TestCase):
    def test_each_release_has_one(self):
        releases = [line.split() for line in read("UPSTREAM")[1:]]
        self.assertEqual([f"{tag}.patch" for tag, _ in releases], patches())
        self.assertEqual(len(releases), 3)
        for _, commit in releases:
            self.assertRegex(commit, r"^[0-9a-f]{40}$")

    def test_every_hunk_only_inserts(self):
        for name in patches():
            lines = read(name)
            self.assertEqual(faults(lines), [], name)
            self.assertEqual(count_context_lines(lines), 0, name)
            self.assertGreater(count_hunks(lines), 10, name)

    def test_all_releases_get_the_same_lines(self):
        inserted = {
            tuple(line for line in read(name) if line.startswith("+") and line[:3] != "+++")
            for name in patches()
        }
        self.assertEqual(len(inserted), 1)

    def test_what_is_called_is_there(self):
        headers = os.listdir(os.path.join(PATCHES, "src"))
        ours = "\n".join("\n".join(read(os.path.join("src", name))) for name in headers)
        calls = set(re.findall(r"cinch::(\w+)", "\n".join(read(patches()[-1]))))
        self.assertIn("compare", calls)
        for name in calls:
            self.assertRegex(ours, rf"\b{name}\b")

    def test_other_patches_are_seen(self):
        head = ["diff --git a/src/x b/src/x", "--- a/src/x", "+++ b/src/x"]
        good = ["@@ -3,0 +4,2 @@", "+a", "+b", "@@ -9,0 +12 @@", "+c"]
        self.assertEqual(faults(head + good), [])
        for bad in (
            ["@@ -3 +3 @@", "-a", "+b"],
            ["@@ -3,2 +3,3 @@", " a", "+b", " c"],
            ["@@ -3,0 +4,2 @@", "+a", " b"],
            ["@@ -3,0 +4,2 @@", "+a"],
            ["@@ -3,0 +4,2 @@", "+a", "+b", "@@ -9,0 +10 @@", "+c"],
        ):
            self.assertNotEqual(faults(head + bad), [], bad)
        kept = ["@@ -3,2 +3,3 @@", " a", "+b", "-c"]
        self.assertEqual(count_context_lines(head + kept), 2)


if __name__ == "__main__":
    sys.exit(unittest.main())
