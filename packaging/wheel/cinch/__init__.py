"""Cinch: its libraries and the cinch program. `cinch run -- COMMAND` preloads them."""

import os
import sys

_HOME = os.path.dirname(os.path.abspath(__file__))
LIBRARY_DIR = os.path.join(_HOME, "lib")
PRELOAD = os.path.join(LIBRARY_DIR, "libcinch.so")
PROGRAM = os.path.join(_HOME, "bin", "cinch")


def main():
    """Becomes the cinch program, so that signals and exit status are its own."""
    os.execv(PROGRAM, [PROGRAM, *sys.argv[1:]])
