"""How good and how fast the codecs are, measured now: their error on known data, the CPU codec's
speed beside a copy's, and what the compiler made of the CUDA kernels."""

import json
import math
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, "build")
N_VALUES = 1 << 22
SCALES = ("1e4", "1", "1e-4", "1e-8", "1e-12")
DATA = ("gauss", "laplace", "t3")

# Figures, and the rows of bench/codec_bench that they are; {} is the fastest compilation.
HOST_ROWS = {
    "encode_q4_ef": "encode_ef/{}/q4/fp32",
    "encode_q4": "encode/{}/q4/fp32",
    "decode_q4": "decode/{}/q4/fp32",
    "reduce_q4_p4": "reduce/{}/q4/fp32",
    "reduce_q4_p4_ef": "reduce_ef/{}/q4/fp32",
    "encode_h4_ef": "encode_ef/{}/h4/fp32",
    "decode_h4": "decode/{}/h4/fp32",
    "copy": "copy",
}
REPETITIONS = 7

PREPARE = """
. tools/setup.sh
set_up
cmake --preset release
cmake --build --preset release --target cinch_tool codec_bench
"""


def build():
    shell = ["bash", "-euo", "pipefail", "-c", PREPARE]
    subprocess.run(shell, cwd=ROOT, check=True, stdout=sys.stderr)


def run_program(name, *arguments):
    command = [os.path.join(BUILD, "bin", name), *arguments]
    print("==", *command, file=sys.stderr, flush=True)
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


# --- errors -------------------------------------------------------------------------------------


def explain_codecs(scale):
    arguments = ("--codecs", "--json", "--values", str(N_VALUES), "--scale", scale)
    return json.loads(run_program("cinch", "explain", *arguments))["codecs"]


def worst(errors):
    """The largest, to four digits; None where one is: finite values came back as others."""
    return None if None in errors else float(f"{max(errors):.4g}")


def errors_by_codec():
    """{codec: {distribution: worst error of all scales}}, in the order of the registry."""
    scales = [{row["name"]: row["nmse"] for row in explain_codecs(scale)} for scale in SCALES]
    return {
        codec: {data: worst([rows[codec][data] for rows in scales]) for data in DATA}
        for codec in scales[0]
    }


# --- speed of the CPU codec ---------------------------------------------------------------------


def fastest_compilation():
    rows = run_program("codec_bench", "--benchmark_list_tests").split()
    return next(row.split("/")[1] for row in rows if "/" in row)


def host_speeds():
    """GB/s of values at fp32 size, one core, the best of several repetitions."""
    compilation = fastest_compilation()
    rows = {figure: row.format(compilation) for figure, row in HOST_ROWS.items()}
    output = run_program(
        "codec_bench",
        "--benchmark_filter=^(" + "|".join(map(re.escape, rows.values())) + ")$",
        f"--benchmark_repetitions={REPETITIONS}",
        # Repetitions of all rows take turns: a busy machine disturbs them alike.
        "--benchmark_enable_random_interleaving=true",
        "--benchmark_min_time=0.1",
        "--benchmark_format=json",
    )
    best = {}
    for run in json.loads(output)["benchmarks"]:
        if run["run_type"] == "iteration":
            rate = run["bytes_per_second"] / 1e9
            best[run["run_name"]] = max(rate, best.get(run["run_name"], 0))
    return compilation, {figure: round(best[row], 2) for figure, row in rows.items()}


# --- what the compiler made of the kernels ------------------------------------------------------


def find_nvcc():
    homes = [os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH")]
    folders = [os.path.join(home, "bin") for home in [*homes, "/usr/local/cuda"] if home]
    return shutil.which("nvcc", path=os.pathsep.join([os.environ.get("PATH", ""), *folders]))


def kernels():
    """(instructions per element by kernel, kernels that spill, why there are none)"""
    nvcc = find_nvcc()
    if not nvcc:
        return None, None, "there is no nvcc here"
    gates = os.path.join(ROOT, "tests", "compile", "compile_gates.py")
    command = [sys.executable, "-B", gates, "--json", "--nvcc", nvcc, "--root", ROOT]
    # What misses its ceiling is a matter of that test; its figures are reported all the same.
    lines = subprocess.run(command, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    if not lines:
        return None, None, "tests/compile gave no figures"
    figures = json.loads(lines[-1])
    return figures["instr_per_elem"], figures["spills"], None


# --- the report ---------------------------------------------------------------------------------


def print_rows(heading, rows):
    widths = [max(len(row[column]) for row in [heading, *rows]) for column in range(len(heading))]
    for row in [heading, *rows]:
        cells = [cell.ljust(width) for cell, width in zip(row, widths)]
        print("  ".join(cells).rstrip())
    print(flush=True)


def error_text(error):
    return "overflows" if error is None else f"{error:.3e}"


def print_tables(nmse, compilation, host_gbps, instructions, reason):
    heading = (f"NMSE of {N_VALUES} values, worst of scales {', '.join(SCALES)}", *DATA)
    print_rows(
        heading,
        [(codec, *(error_text(errors[data]) for data in DATA)) for codec, errors in nmse.items()],
    )
    print_rows(
        (f"one core, {compilation}, 64 MiB", "GB/s of fp32"),
        [(figure, f"{rate:.2f}") for figure, rate in host_gbps.items()],
    )
    if instructions is None:
        print(f"kernels: {reason}\n")
    else:
        print_rows(
            ("kernel", "instructions per element"),
            [(kernel, f"{count:.2f}") for kernel, count in instructions.items()],
        )


def is_sound(nmse, host_gbps, spills):
    """Whether everything was measured, whatever the figures are."""
    errors = [error for row in nmse.values() for error in row.values() if error is not None]
    rates = host_gbps.values()
    return bool(errors) and all(map(math.isfinite, errors)) and min(rates) > 0 and not spills


def measure():
    build()
    nmse = errors_by_codec()
    compilation, host_gbps = host_speeds()
    instructions, spills, reason = kernels()
    print_tables(nmse, compilation, host_gbps, instructions, reason)
    figures = {
        "nmse": nmse,
        "host_gbps": host_gbps,
        "instr_per_elem": instructions,
        "spills": spills,
        "families": list(nmse),
    }
    if reason:
        figures["kernels_missing"] = reason
    return figures, is_sound(nmse, host_gbps, spills)
