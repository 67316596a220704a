"""The patches for nccl-tests as text: they insert lines, and hold none of upstream's."""

import os
import re
import sys
import unittest

ROOT = os.path.dirname(os.path.abspath(__file__)).split(os.sep + "tests" + os.sep)[0]
PATCHES = os.path.join(ROOT, "nccl-tests-patches")
HUNK = re.compile(r"@@ -(\d+),0 \+(\d+)(?:,(\d+))? @@$")


def read(name):
    with open(os.path.join(PATCHES, name), encoding="utf-8") as file:
        return file.read().splitlines()


def patches():
    return sorted(name for name in os.listdir(PATCHES) if name.endswith(".patch"))


def faults(lines):
    """What is wrong with a patch, in words."""
    found, due, offset, last = [], 0, 0, 0
    for number, line in enumerate(lines, 1):
        hunk = HUNK.match(line)
        if due > 0:
            due -= 1
            if not line.startswith("+"):
                found.append(f"{number}: a line that is not inserted: {line!r}")
        elif hunk:
            before, after, due = (int(text or 1) for text in hunk.groups())
            if after != before + offset + 1 or before < last:
                found.append(f"{number}: lines are counted wrongly")
            offset, last = offset + due, before
        elif line.startswith("diff --git "):
            offset = last = 0
        elif not line.startswith(("--- a/src/", "+++ b/src/")):
            found.append(f"{number}: neither a hunk nor a file: {line!r}")
    return found + ([f"the end: {due} lines are missing"] if due else [])


class Patches(unittest.TestCase):
    def test_each_release_has_one(self):
        releases = [line.split() for line in read("UPSTREAM")[1:]]
        self.assertEqual([f"{tag}.patch" for tag, _ in releases], patches())
        self.assertEqual(len(releases), 3)
        for _, commit in releases:
            self.assertRegex(commit, r"^[0-9a-f]{40}$")

    def test_every_hunk_only_inserts(self):
        for name in patches():
            self.assertEqual(faults(read(name)), [], name)

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


if __name__ == "__main__":
    sys.exit(unittest.main())
