#!/usr/bin/env python3
"""What layer-adaptive precision saves on gradients of examples/train_lm, recorded now.

    measure.py BUILD

trains one rank of the model in the given build folder, on the emulated NCCL, keeps whole gradients
over 300 steps, and prints the rows of bench/adaptive/adaptive_precision.cc: of plain squared
errors, then of errors relative to the power of each layer.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tests" / "data"))
from record_gradients import layers, record  # noqa: E402

STEPS = (20, 100, 200, 300)


def rows(build, dump, *options):
    """One object for each way to cut the gradient and each set of codecs."""
    sizes = list(layers())
    command = [build / "bin" / "adaptive_precision", "--count", str(sum(sizes)),
               "--layers", ",".join(map(str, sizes)), *options, dump]
    lines = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return [json.loads(line) for line in lines.splitlines()]


def main(build):
    with tempfile.TemporaryDirectory() as folder:
        dump = pathlib.Path(folder, "gradients")
        record(build, dump, STEPS)
        for errors, options in (("plain", ()), ("relative", ("--relative",))):
            for row in rows(build, dump, *options):
                print(json.dumps({"errors": errors, **row}))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
