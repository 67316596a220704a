"""What the checks of released wheels share: which library a name has to lead to, and how a check
reports."""

import json
import os
import sys

import package_index

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "surface"))

SKIPPED = 77  # the exit status of a test that could not run


def folders(build):
    """(where packages are kept, what to preload)"""
    cache = os.path.join(build, "wheels")
    os.makedirs(cache, exist_ok=True)
    return cache, os.path.join(build, "lib", "libcinch.so")


def misdirected(files, exports):
    """What is wrong with {name: file that it leads to}: Cinch has its exports, NCCL the rest."""
    problems = []
    for name, path in sorted(files.items()):
        wanted = "libcinch.so" if name in exports else "libnccl.so.2"
        if os.path.basename(path) != wanted:
            problems.append(f"{name} leads to {path}, not to {wanted}")
    return problems


def report(check, build):
    """Prints what check() found: (facts, problems). Returns the exit status."""
    try:
        facts, problems = check(build)
    except package_index.Unavailable as reason:
        print(f"skipped: {reason}")
        return SKIPPED
    for problem in problems:
        print(problem)
    print(json.dumps(facts))
    return 1 if problems else 0
