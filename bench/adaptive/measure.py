#!/usr/bin/env python3
"""What layer-adaptive precision saves on gradients of examples/train_lm, recorded now.

    measure.py BUILD

trains one rank of the model in the given build folder, on the emulated NCCL, keeps whole gradients
over 300 steps, and prints the rows of bench/adaptive/adaptive_precision.cc: of plain squared
errors, then of errors relative to the power of each layer.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

STEPS = (20, 100, 200, 300)
EMBEDDING, CONTEXT, HIDDEN, BYTES = 64, 16, 1536, 256


def layers():
    """Values of each of the model's parameters, in order."""
    yield BYTES * EMBEDDING
    for n_in, n_out in ((CONTEXT * EMBEDDING, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, BYTES)):
        yield from (n_in * n_out, n_out)


def record(build, dump):
    environment = dict(os.environ, LD_LIBRARY_PATH=str(build / "emulator"))
    subprocess.run([build / "bin" / "train_lm", "--steps", str(STEPS[-1] + 1),
                    "--dump-gradients", dump, "--dump-steps", ",".join(map(str, STEPS))],
                   env=environment, check=True)


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
        record(build, dump)
        for errors, options in (("plain", ()), ("relative", ("--relative",))):
            for row in rows(build, dump, *options):
                print(json.dumps({"errors": errors, **row}))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
