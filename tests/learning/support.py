"""What the tests of bench/learning, bench/feedback and bench/training share."""

import os
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "bench"))

from training import compare  # noqa: E402


def skip_without_packages():
    """Ends the process as a skipped test where a package is missing."""
    if missing := compare.missing_packages():
        print(f"skipped: needs the Python packages {', '.join(missing)}")
        sys.exit(compare.SKIPPED)


def main():
    unittest.main(verbosity=2)
