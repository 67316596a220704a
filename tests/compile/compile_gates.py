#!/usr/bin/env python3
"""What can be known of the CUDA kernels without a GPU: compiles them, and fails where one spills, has a
stack or local memory, lacks 16-byte accesses, rounds differently from the CPU, or executes more
instructions per value than ceilings.csv allows. With --json it prints the counts, for
`bench/report codec`; with --write it makes the counts the new ceilings, rounded up to halves."""

import argparse
import csv
import json
import math
import os
import re
import subprocess
import sys
import tempfile

import cubin
import hot_path

SOURCES = ("encode", "reduce", "decode", "probe", "tally")
NARROW = ("probe",)  # a few tiles at any alignment, lanes side by side
VALUES_PER_LANE = 32
TYPES = ("fp32", "fp16", "bf16")  # ElementType
FAMILIES = {"UniformCodec": "q", "ClippedCodec": "c", "HadamardCodec": "h"}
KEPT = {"0": "", "1": "_ef"}
# Contraction that was not written, approximate or flushing arithmetic.
FORBIDDEN = r"\bmad\.(rn|rz|ftz)\S*f32|\.approx|\.ftz"
CEILINGS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ceilings.csv")


class Report:
    def __init__(self):
        self.failures = []

    def check(self, passed, text):
        print(f"{'ok  ' if passed else 'FAIL'} {text}", file=sys.stderr, flush=True)
        if not passed:
            self.failures.append(text)


class Kernel:
    """What the compiler says of a kernel, and what its code says itself."""

    def __init__(self, mangled, source, instructions):
        self.name = short_name(mangled, source)
        length, self.n_wide = hot_path.hot_path(instructions)
        self.per_value = length / VALUES_PER_LANE
        self.has_local = any(each.opcode in cubin.LOCAL_ACCESSES for each in instructions)


def short_name(mangled, source):
    """encode_bf16_q4, encode_fp32_q4_ef, reduce_any; reduce into values is values_fp32_q4; probe_fp16;
    tally_fp32, and tally_fp32_pair of two buffers."""
    kind = "values" if "reduceIntoValuesKernel" in mangled else source
    element = re.search(r"ElementTypeE(\d)", mangled)
    element = TYPES[int(element[1])] if element else "any"
    if source in ("probe", "tally"):
        return f"{kind}_{element}" + "_pair" * ("Lb1E" in mangled)
    codec = re.search(r"OneCodecINS_5codec\d+([A-Za-z]+)ILj(\d)", mangled)
    if not codec:
        return f"{kind}_any"
    kept = re.search(r"KeptE(\d)", mangled)
    return f"{kind}_{element}_{FAMILIES[codec[1]]}{codec[2]}{KEPT[kept[1]] if kept else ''}"


def compile_source(nvcc, root, source, arch, folder):
    """Compiles to machine code, keeping the PTX; returns the kernels, ptxas's account and the PTX."""
    path = os.path.join(root, "kernels", "cuda", "dispatch", f"{source}.cu")
    out = os.path.join(folder, f"{source}.{arch}.cubin")
    done = subprocess.run(
        [nvcc, "-std=c++20", f"-arch=sm_{arch}", "-O3", "-fmad=false", "-Xptxas=-v", "--keep",
         f"--keep-dir={folder}", f"-I{root}", "-cubin", "-o", out, path],
        capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"FAIL nvcc cannot compile {path} for sm_{arch}:\n{done.stderr}")
    with open(os.path.join(folder, f"{source}.ptx"), encoding="utf-8") as file:
        ptx = file.read()
    made = [Kernel(name, source, code) for name, code in cubin.kernels(out, arch) if "Kernel" in name]
    return made, done.stdout + done.stderr, ptx


def spills_in(account):
    """Kernels with a stack or spills, by ptxas's own account."""
    frames = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads",
                        account)
    return [frame for frame in frames if frame != ("0", "0", "0")]


def check_source(report, where, kernels, account, ptx):
    report.check(len(kernels) == len(re.findall(r"Used \d+ registers", account)) > 0,
                 f"{where} {len(kernels)} kernels")
    report.check(not spills_in(account), f"{where} no stack, no spills {spills_in(account) or ''}")
    local = [each.name for each in kernels if each.has_local]
    report.check(not local, f"{where} no local memory {local or ''}")
    narrow = [each.name for each in kernels
              if each.n_wide < 4 and not each.name.startswith(NARROW)]
    report.check(not narrow, f"{where} 16-byte accesses in every main loop {narrow or ''}")
    forbidden = sorted({match.group(0) for match in re.finditer(FORBIDDEN, ptx)})
    report.check(not forbidden, f"{where} no contraction, no approximation {forbidden or ''}")


def read_ceilings():
    with open(CEILINGS, encoding="utf-8", newline="") as file:
        return {(row["kernel"], int(row["arch"])): float(row["ceiling"]) for row in csv.DictReader(file)}


def write_ceilings(counts):
    with open(CEILINGS, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("kernel", "arch", "ceiling"))
        writer.writerows((name, arch, math.ceil(2 * count) / 2)
                         for (name, arch), count in sorted(counts.items()))


def check_counts(report, counts, ceilings):
    for (name, arch), count in sorted(counts.items()):
        ceiling = ceilings.get((name, arch))
        report.check(ceiling is not None and count <= ceiling,
                     f"sm_{arch} {name}: {count:.2f} instructions per value, at most {ceiling}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nvcc", default="nvcc")
    parser.add_argument("--root", required=True, help="root of the source tree")
    parser.add_argument("--archs", default="75,90")
    parser.add_argument("--sources", default=",".join(SOURCES))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()

    report, counts, n_spills = Report(), {}, 0
    archs = [int(arch) for arch in options.archs.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        for arch in archs:
            for source in options.sources.split(","):
                kernels, account, ptx = compile_source(options.nvcc, options.root, source, arch, folder)
                check_source(report, f"sm_{arch} {source}:", kernels, account, ptx)
                counts.update({(each.name, arch): each.per_value for each in kernels})
                n_spills += len(spills_in(account))
    if options.write:
        write_ceilings(counts)
    check_counts(report, counts, read_ceilings())
    if options.json:
        newest = {name: round(count, 2) for (name, arch), count in sorted(counts.items())
                  if arch == max(archs)}
        print(json.dumps({"instr_per_elem": newest, "spills": n_spills}))
    print(f"{len(report.failures)} failed", file=sys.stderr)
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
