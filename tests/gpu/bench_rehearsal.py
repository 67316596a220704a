"""Runs the benchmark of the CUDA codec where it measures the CPU's instead, and draws the conclusions that
tests/gpu/check does.

bench_rehearsal.py CODEC_GPU_BENCH
"""

import sys

import codec_items

MIB = "1"
KERNELS = {"encode", "reduce", "reduce into values", "decode"}


def main(program):
    outcome = codec_items.bandwidth(program, MIB)
    print(outcome.note)
    kernels, figures = outcome.figures["kernels"], outcome.figures
    assert outcome.state == "pass" and len(figures["copies"]) == 1
    codecs = {row["codec"] for row in kernels}
    assert {"q4", "h4", "sign", "fp8", "bf16"} <= codecs
    for codec in codecs:
        rows = [row for row in kernels if row["codec"] == codec]
        assert {row["kernel"] for row in rows} == KERNELS, codec
        assert {row["type"] for row in rows} == {"fp32", "bf16"}, codec
    assert all(row["us"] > 0 for row in kernels)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
