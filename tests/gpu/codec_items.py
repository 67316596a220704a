"""The checks and the measurement of the codec's kernels: each a function from a Context to an Outcome."""

import json
import os
import re

import gpu_machine
from check_support import Failure, Outcome, Skip, at_once, run, tail

SHARES = max(4, os.cpu_count() or 0)  # processes that the seeds are dealt out to
SMOKE = "CudaCodec.EveryCodecEqualsTheReference"
SANITIZERS = ("memcheck", "racecheck", "initcheck", "synccheck")
SANITIZER_FAILED = 9
# Few of the random cases, none of the large ones, and every kernel.
SANITIZED = {"CINCH_GPU_TEST_ROUNDS": "2", "GTEST_FILTER": "CudaCodec.*"}

# What a kernel should reach of copy bandwidth at 64 MiB on a GPU of the H200's class: kernel, codec, type,
# residual.
TARGETS = {("encode", "q4", "fp32", "fp32"): 0.85, ("encode", "q4", "bf16", "none"): 0.70,
           ("decode", "q4", "fp32", "none"): 0.85, ("decode", "q4", "bf16", "none"): 0.85,
           ("encode", "h4", "fp32", "none"): 0.60, ("encode", "h4", "fp32", "fp32"): 0.60,
           ("decode", "h4", "fp32", "none"): 0.60}
TARGET_MIB = 64


def gtest_summary(output):
    passed = re.search(r"\[  PASSED  \] (\d+) test", output)
    skipped = re.search(r"\[  SKIPPED \] (\d+) test", output)
    return int(passed.group(1)) if passed else 0, int(skipped.group(1)) if skipped else 0


# --- correctness --------------------------------------------------------------------------------------------

def codec_smoke(context):
    """Every kernel once, on values that a second of work can check."""
    status, output = run([context.program("codec_gpu_test", "tests")], 60, GTEST_FILTER=SMOKE,
                         **context.mps.environment)
    if status != 0 or gtest_summary(output)[0] == 0:
        raise Failure(tail(output))
    return Outcome("pass", "every kernel writes the reference's bytes")


def codec_equals_scalar_core(context):
    program = context.program("codec_gpu_test", "tests")

    def run_share(share):
        return run([program], 240, CINCH_GPU_TEST_SHARE=f"{share}/{SHARES}", **context.mps.environment)

    results = at_once(run_share, range(SHARES))
    for status, output in results:
        if status != 0:
            raise Failure(tail(output))
    passed, skipped = (sum(each) for each in zip(*(gtest_summary(output) for _, output in results)))
    if passed == 0:
        raise Failure(f"{skipped} tests skipped, none ran")
    return Outcome("pass", f"{passed} tests in {SHARES} processes, which share the seeds: golden vectors, every codec, "
                           "random and hostile bytes, graph replay", {"tests": passed, "skipped": skipped})


def under_sanitizers(context, tools, environment):
    """Each of the tools, side by side, over the codec's tests. What all of them found is told, not the first alone."""
    sanitizer = gpu_machine.find_tool("compute-sanitizer")
    if not sanitizer:
        raise Skip("no compute-sanitizer")
    program = context.program("codec_gpu_test", "tests")

    def run_tool(tool):
        try:
            return run([sanitizer, "--tool", tool, "--error-exitcode", str(SANITIZER_FAILED), program], 280, **environment)
        except Failure as failure:
            return SANITIZER_FAILED, str(failure)

    results = dict(zip(tools, at_once(run_tool, tools)))
    if any("Device not supported" in output for _, output in results.values()):
        raise Skip("compute-sanitizer does not support this device here")
    wrong = [f"{tool}: {tail(output, 3)}" for tool, (status, output) in results.items()
             if status != 0 or gtest_summary(output)[0] == 0]
    if wrong:
        raise Failure("; ".join(wrong))
    return Outcome("pass", f"no errors under {', '.join(tools)}",
                   {tool: gtest_summary(output)[0] for tool, (_, output) in results.items()})


def codec_under_sanitizers(context):
    return under_sanitizers(context, SANITIZERS, SANITIZED)


def smoke_under_memcheck(context):
    return under_sanitizers(context, ("memcheck",), {**SANITIZED, "GTEST_FILTER": SMOKE})


# --- speed --------------------------------------------------------------------------------------------------

def case_of(row):
    return row["kernel"], row["codec"], row["type"], row["residual"]


def rate_table(rows):
    """Lines: a codec each, with what its kernels reach of copy bandwidth at the size of the targets."""
    columns = (("encode", "fp32", "none"), ("encode", "fp32", "fp32"), ("encode", "bf16", "none"),
               ("encode", "bf16", "bf16"), ("reduce", "fp32", "none"), ("reduce", "bf16", "none"),
               ("decode", "fp32", "none"), ("decode", "bf16", "none"))
    fcb = {case_of(row): row["fcb"] for row in rows if row["mib"] == TARGET_MIB and row["rounding"] == "nearest"}
    lines = ["fcb at 64 MiB".ljust(14) + "".join(" ".join(part for part in column if part != "none").rjust(18)
                                                 for column in columns)]
    for codec in dict.fromkeys(row["codec"] for row in rows):
        cells = [fcb.get((kernel, codec, *rest)) for kernel, *rest in columns]
        lines.append(codec.ljust(14) + "".join(("-" if cell is None else f"{cell:.2f}").rjust(18) for cell in cells))
    return lines


def target_note(rows):
    """How many of the targets are reached, and which are not."""
    measured = {case_of(row): row["fcb"] for row in rows
                if row["mib"] == TARGET_MIB and row["rounding"] == "nearest" and case_of(row) in TARGETS}
    missed = [f"{' '.join(case)} {fcb:.2f} of {TARGETS[case]:.2f}" for case, fcb in measured.items()
              if fcb < TARGETS[case]]
    below = f", below: {', '.join(missed)}" if missed else ""
    return f"{len(measured) - len(missed)} of {len(TARGETS)} targets reached{below}"


def bandwidth(program, *sizes):
    status, output = run([program, *sizes], 240)
    if status != 0:
        raise Failure(tail(output))
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    copies = [line for line in lines if line.get("kernel") == "copy"]
    rows = [line for line in lines if "codec" in line]
    for line in rate_table(rows):
        print(" ", line, flush=True)
    fastest = max(copy["gbps"] for copy in copies)
    return Outcome("pass", f"{len(rows)} measurements, copy {fastest} GB/s, {target_note(rows)}",
                   {"copies": copies, "kernels": rows})


def codec_bandwidth(context):
    return bandwidth(context.program("codec_gpu_bench"))


ITEMS = (
    ("codec smoke", codec_smoke),
    ("codec equals the scalar core", codec_equals_scalar_core),
    ("codec under compute-sanitizer", codec_under_sanitizers),
    ("codec bandwidth", codec_bandwidth),
)
# Where the smoke has failed.
DIAGNOSES = (("codec smoke under memcheck", smoke_under_memcheck),)
