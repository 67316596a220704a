#!/usr/bin/env python3
"""Records gradients of examples/train_lm for the tests of the codecs.

    record_gradients.py BUILD train_lm_gradients.bf16

trains one rank of the model in the given build folder, on the emulated NCCL, and keeps a piece of
every layer's gradient early and late: some 88000 values as bf16, little-endian, one after another.
"""
import array
import os
import pathlib
import subprocess
import sys
import tempfile

STEPS = (3, 150)
EMBEDDING, CONTEXT, HIDDEN, BYTES = 64, 16, 1536, 256
PIECE = 12288  # whole rows of each weight matrix
MATRICES = ((CONTEXT * EMBEDDING, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, BYTES))


def layers():
    """Values of each of the model's parameters, in order."""
    yield BYTES * EMBEDDING
    for n_in, n_out in MATRICES:
        yield from (n_in * n_out, n_out)


def pieces():
    """First value and length of what is kept, in the order of the model's parameters."""
    yield ord("A") * EMBEDDING, 4096  # letters
    first = BYTES * EMBEDDING
    for n_in, n_out in MATRICES:
        yield first + n_in // 2 * n_out, PIECE
        first += n_in * n_out
        yield first, n_out  # the biases
        first += n_out


def to_bf16(bits):
    """Of the bits of a finite fp32 number: nearest, ties to even."""
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def record(build, dump, steps):
    """Writes the whole gradients of these steps to the file `dump`, as fp32, one after another."""
    environment = dict(os.environ, LD_LIBRARY_PATH=str(build / "emulator"))
    subprocess.run([build / "bin" / "train_lm", "--steps", str(steps[-1] + 1),
                    "--dump-gradients", dump, "--dump-steps", ",".join(map(str, steps))],
                   env=environment, check=True)


def main(build, path):
    with tempfile.TemporaryDirectory() as folder:
        dump = pathlib.Path(folder, "gradients")
        record(pathlib.Path(build), dump, STEPS)
        bits = array.array("I", dump.read_bytes())
    kept = array.array("H")
    for step in range(len(STEPS)):
        start = step * len(bits) // len(STEPS)
        for first, count in pieces():
            kept.extend(map(to_bf16, bits[start + first:start + first + count]))
    pathlib.Path(path).write_bytes(kept.tobytes())


if __name__ == "__main__":
    main(*sys.argv[1:])
