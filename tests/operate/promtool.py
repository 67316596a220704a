#!/usr/bin/env python3
"""Prometheus's own checker of metrics. Fetched with apt and unpacked, not installed: with the package
comes a server that starts.

promtool.py      fetches it into build/operate, where it is not there yet
"""

import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "support"))

import debian  # noqa: E402

FOLDER = os.path.join(ROOT, "build", "operate")
UNPACKED = os.path.join(FOLDER, "promtool")


def find():
    """Its path, or None."""
    return shutil.which("promtool") or (UNPACKED if os.path.exists(UNPACKED) else None)


def fetch():
    os.makedirs(FOLDER, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        debian.unpack("prometheus", folder)
        os.replace(os.path.join(folder, "usr", "bin", "promtool"), UNPACKED)


def main():
    if find():
        return 0
    try:
        fetch()
    except (debian.NoPackage, OSError, subprocess.CalledProcessError) as problem:
        print(f"promtool.py: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
