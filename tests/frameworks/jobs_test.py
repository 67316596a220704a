"""jobs_test.py BUILD_FOLDER VARIANTS PATTERN ...: jobs come out as known_failures.py says (session.py).

Status 77 where there is no PyTorch.
"""
import sys

import torch_environment

import session


def main():
    build, variants, *patterns = sys.argv[1:]
    return session.run(torch_environment.prepared(build), variants.split(","), patterns)


if __name__ == "__main__":
    sys.exit(main())
