"""prepare.py BUILD_FOLDER: makes the environment of the tests in this folder.

Status 77, and the reason, if PyTorch cannot be had here: no package index, no disk, too slow a network.
"""
import sys
import time

import torch_environment
import environment
from errors import Unusable

# Of the 1,000 s that ctest gives. The rest is for the operators' build.
INSTALLATION_SECONDS = 400


def main():
    try:
        python = environment.make(time.monotonic() + INSTALLATION_SECONDS)
    except Unusable as error:
        torch_environment.skip(error)
    prepared = environment.prepare(python, sys.argv[1])
    print(f"{prepared.python}, {prepared.operators}")


if __name__ == "__main__":
    main()
