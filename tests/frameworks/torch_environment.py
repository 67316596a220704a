"""For tests: emulator/torch's modules on the path, and the status of a test that has no PyTorch."""
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.append(os.path.join(ROOT, "emulator", "torch"))

SKIPPED = 77


def prepared(build):
    """The environment that prepare.py has made, with the libraries of this build folder."""
    import environment

    if not environment.is_made():
        skip("there is no environment with PyTorch; emulator/torch/environment.py makes it")
    return environment.prepare(environment.environment_python(), build)


def skip(reason):
    """Ends a test program that ctest is to count as skipped."""
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)
