"""Patches that only insert lines, read as text."""

import re

HUNK = re.compile(r"@@ -(\d+),0 \+(\d+)(?:,(\d+))? @@$")


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


def count_hunks(lines):
    return sum(line.startswith("@@ ") for line in lines)


def count_context_lines(lines):
    """Lines of the original that a patch holds, whether it keeps or removes them."""
    heads = ("diff --git ", "--- a/", "+++ b/", "@@ ")
    return sum(not line.startswith((*heads, "+")) for line in lines)
