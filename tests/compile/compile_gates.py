#!/usr/bin/env python3
"""What can be known of the CUDA kernels without a GPU: compiles them, or takes what the build made where
nothing has changed since (--built), and fails where one spills, has a stack or local memory, lacks
16-byte accesses, rounds differently from the CPU, or executes more instructions per value than
ceilings.csv allows, or other fused multiplications than those that are written. With --json it prints the counts, for `bench/report codec`; with --write it makes
the counts the new ceilings, rounded up to halves."""

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

SOURCES = ("encode", "encode_adaptive", "encode_batch", "reduce", "reduce_batch", "decode", "probe", "tally",
           "sum")
NARROW = ("probe",)  # a few tiles at any alignment, lanes side by side
VALUES_PER_LANE = 32
TYPES = ("fp32", "fp16", "bf16")  # ElementType
FAMILIES = {"UniformCodec": "q", "HadamardCodec": "h"}
KEPT = {"0": "", "1": "_ef"}
# Arithmetic that ptxas may still contract, having no rounding of its own; and what is approximate or flushes. What nvcc
# has contracted already are fused multiplications like those that are written: these are counted.
FORBIDDEN = r"(?<![\w.])(?:add|sub|mul|mad)\.(?:f16|bf16|f32|f64)\S*|\bmad\.(?:rn|rz)\S*|\S+\.approx\S*|\S+\.ftz\S*"
FUSED = r"\bfma\.rn\.\S+"
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

    def __init__(self, mangled, source, instructions, functions, ptx, image):
        self.name = short_name(mangled, source)
        self.registers = cubin.resources(image, cubin.REGISTERS)[mangled]
        self.shared_bytes = cubin.shared_bytes(image, mangled)
        self.stack_bytes = cubin.resources(image, cubin.STACK).get(mangled, 0)
        self.code_bytes = len(instructions) * cubin.INSTRUCTION_BYTES
        length, self.n_wide = hot_path.hot_path(instructions, functions)
        self.per_value = length / VALUES_PER_LANE
        self.n_fused = len(re.findall(FUSED, ptx))
        self.has_local = any(each.opcode in cubin.LOCAL_ACCESSES for each in instructions)


def short_name(mangled, source):
    """encode_bf16_q4, encode_fp32_q4_ef with residuals (in int8), encode_fp32_adaptive_ef; reduce into values
    is values_fp32_q5, and of two codes codes_fp32_q4; probe_fp16; tally_fp32, and tally_fp32_pair of two buffers;
    sum_fp32. encode_batch: whatever has no kernel of its own."""
    source = source.partition("_")[0]  # encode_batch.cu has one of encode's
    if "BatchKernel" in mangled:
        return f"{source}_batch"
    kind = "values" if "reduceIntoValuesKernel" in mangled else source
    kind = "codes" if "PartsE1" in mangled else kind
    # Lists of codecs have types of elements in their names, too.
    element = TYPES[int(re.search(r"ElementTypeE(\d)", mangled)[1])]
    if source in ("probe", "tally", "sum"):
        return f"{kind}_{element}" + "_pair" * ("Lb1E" in mangled)
    codec = re.search(r"OneCodecINS_5codec\d+([A-Za-z]+)ILj(\d)", mangled)
    codec = FAMILIES[codec[1]] + codec[2] if codec else "adaptive"
    kept = re.search(r"KeptE(\d)", mangled)
    return f"{kind}_{element}_{codec}{KEPT[kept[1]] if kept else ''}"


class Compiled:
    """What became of a source: PTX and machine code."""

    def __init__(self, source, arch, ptx_path, cubin_path):
        with open(ptx_path, encoding="utf-8") as file:
            self.ptx = file.read()
        with open(cubin_path, "rb") as file:
            image = file.read()
        entries = dict(re.findall(r"^(?:\.visible )?\.entry (\w+)\((.*?)^}", self.ptx, re.M | re.S))
        self.kernels = [Kernel(name, source, code, functions, entries[name], image)
                        for name, code, functions in cubin.kernels(image, arch) if "Kernel" in name]
        self.registers = cubin.resources(image, cubin.REGISTERS)
        self.stacks = cubin.resources(image, cubin.STACK)  # of all functions; who spills has one

    def n_stacks(self):
        return sum(n_bytes > 0 for n_bytes in self.stacks.values())


def source_path(root, source):
    return os.path.join(root, "kernels", "cuda", "dispatch", f"{source}.cu")


def compile_source(nvcc, root, source, arch, folder, options=("-fmad=false",)):
    path = source_path(root, source)
    out = os.path.join(folder, f"{source}.{arch}.cubin")
    done = subprocess.run(
        [nvcc, "-std=c++20", f"-arch=sm_{arch}", "-O3", *options, "--keep",
         f"--keep-dir={folder}", f"-I{root}", "-cubin", "-o", out, path],
        capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"FAIL nvcc cannot compile {path} for sm_{arch}:\n{done.stderr}")
    return Compiled(source, arch, os.path.join(folder, f"{source}.ptx"), out)


def is_current(path, preprocessed, made):
    """Whether files were made after `preprocessed`, which is of the source `path`, and that after
    everything which it includes."""
    with open(preprocessed, encoding="utf-8") as file:
        included = set(re.findall(r'^# \d+ "(/[^"]*[^"/])"', file.read(), re.M))
    begun = os.stat(preprocessed).st_mtime_ns
    return (path in included
            and all(os.path.exists(each) and os.stat(each).st_mtime_ns < begun for each in included)
            and all(os.stat(each).st_mtime_ns >= begun for each in made))


def built_source(root, source, arch, folder):
    """What nvcc kept when the build ran it; None where that was for another architecture, or where
    anything has changed since."""
    preprocessed, *made = (os.path.join(folder, source + suffix)
                           for suffix in (".cpp1.ii", ".ptx", f".sm_{arch}.cubin"))
    if not all(map(os.path.exists, (preprocessed, *made))):
        return None
    if not is_current(source_path(root, source), preprocessed, made):
        return None
    return Compiled(source, arch, *made)


def check_source(report, where, compiled):
    kernels = compiled.kernels
    report.check(0 < len(kernels) == len(compiled.registers) <= len(compiled.stacks),
                 f"{where} {len(kernels)} kernels")
    report.check(not compiled.n_stacks(), f"{where} no stack, no spills {compiled.n_stacks() or ''}")
    local = [each.name for each in kernels if each.has_local]
    report.check(not local, f"{where} no local memory {local or ''}")
    narrow = [each.name for each in kernels
              if each.n_wide < 4 and not each.name.startswith(NARROW)]
    report.check(not narrow, f"{where} 16-byte accesses in every main loop {narrow or ''}")
    forbidden = sorted({match.group(0) for match in re.finditer(FORBIDDEN, compiled.ptx)})
    report.check(not forbidden, f"{where} no contraction, no approximation {forbidden or ''}")


class Counts:
    """Of a kernel: instructions per value, and fused multiplications in its PTX."""

    def __init__(self, per_value, n_fused):
        self.per_value = per_value
        self.n_fused = n_fused


def read_ceilings():
    with open(CEILINGS, encoding="utf-8", newline="") as file:
        return {(row["kernel"], int(row["arch"])): Counts(float(row["ceiling"]), int(row["fused"]))
                for row in csv.DictReader(file)}


def write_ceilings(counts):
    with open(CEILINGS, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("kernel", "arch", "ceiling", "fused"))
        writer.writerows((name, arch, math.ceil(2 * count.per_value) / 2, count.n_fused)
                         for (name, arch), count in sorted(counts.items()))


def check_counts(report, counts, ceilings):
    for (name, arch), count in sorted(counts.items()):
        known = ceilings.get((name, arch))
        if known is None:
            report.check(False, f"sm_{arch} {name}: not in {os.path.basename(CEILINGS)}")
            continue
        report.check(count.per_value <= known.per_value,
                     f"sm_{arch} {name}: {count.per_value:.2f} instructions per value, at most {known.per_value}")
        report.check(count.n_fused == known.n_fused,
                     f"sm_{arch} {name}: {count.n_fused} fused multiplications, of which {known.n_fused} are written")


# Of an SM: registers, bytes of shared memory, threads. CUDA programming guide, compute capabilities.
SM = {75: (65536, 64 << 10, 1024), 80: (65536, 164 << 10, 2048), 90: (65536, 228 << 10, 2048), 120: (65536, 100 << 10, 1536)}
THREADS_PER_CTA = 128      # kernels/cuda/agent/cta.h
REGISTERS_AT_ONCE = 8      # a thread gets multiples of it


def ctas_per_sm(kernel, arch):
    registers, shared, threads = SM[arch]
    of_thread = -(-kernel.registers // REGISTERS_AT_ONCE) * REGISTERS_AT_ONCE
    return min(registers // (of_thread * THREADS_PER_CTA), shared // max(kernel.shared_bytes, 1),
               threads // THREADS_PER_CTA)


def instructions(kernel):
    """A value; how often the loop over peers runs is not in the code."""
    return "-" if kernel.name.startswith(("reduce", "values")) else f"{kernel.per_value:.1f}"


def table_of(kernels, archs):
    """Markdown, of {arch: {name: Kernel}}: for each architecture instructions a value, registers, CTAs on an SM; shared memory
    is the same on all."""
    lines = ["| kernel | " + " | ".join(f"{arch // 10}.{arch % 10}" for arch in archs) + " | shared memory | stack |",
             "|---" * (len(archs) + 3) + "|"]
    for name in sorted(kernels[archs[0]]):
        of = [kernels[arch][name] for arch in archs]
        cells = [f"{instructions(each)}, {each.registers}, {ctas_per_sm(each, arch)}" for each, arch in zip(of, archs)]
        lines.append(f"| `{name}` | {' | '.join(cells)} | {max(each.shared_bytes for each in of)} | "
                     f"{max(each.stack_bytes for each in of)} |")
    return "\n".join(lines) + "\n"


def check_complete(report, root, counts, ceilings):
    """No kernel has gone, so that a call would silently take the one for anything; and no source is left out."""
    archs = {arch for _, arch in counts}
    gone = sorted(key for key in ceilings.keys() - counts.keys() if key[1] in archs)
    report.check(not gone, f"every kernel with a ceiling is there {gone or ''}")
    sources = {name[:-3] for name in os.listdir(os.path.dirname(source_path(root, ""))) if name.endswith(".cu")}
    report.check(sources == set(SOURCES), f"every source is looked at {sorted(sources ^ set(SOURCES)) or ''}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nvcc", default="nvcc")
    parser.add_argument("--root", required=True, help="root of the source tree")
    parser.add_argument("--built", help="folder where the build's nvcc keeps what it makes")
    parser.add_argument("--archs", default="75,90")
    parser.add_argument("--sources", default=",".join(SOURCES))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--table", action="store_true", help="print what docs/kernels.md has, of 8.0, 9.0 or 12.0")
    options = parser.parse_args()

    report, counts, n_spills, kernels = Report(), {}, 0, {}
    archs = [int(arch) for arch in options.archs.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        for arch in archs:
            for source in options.sources.split(","):
                compiled = options.built and built_source(options.root, source, arch, options.built)
                where = f"sm_{arch} {source}{' of the build' if compiled else ''}:"
                compiled = compiled or compile_source(options.nvcc, options.root, source, arch, folder)
                check_source(report, where, compiled)
                found = {(each.name, arch): Counts(each.per_value, each.n_fused) for each in compiled.kernels}
                report.check(len(found) == len(compiled.kernels) and not found.keys() & counts.keys(),
                             f"{where} each kernel has a name of its own")
                counts.update(found)
                kernels.setdefault(arch, {}).update((each.name, each) for each in compiled.kernels)
                n_spills += compiled.n_stacks()
    if options.table:
        print(table_of(kernels, archs), end="")
        return 1 if n_spills else 0
    if options.write:
        write_ceilings(counts)
    ceilings = read_ceilings()
    check_counts(report, counts, ceilings)
    if options.sources == ",".join(SOURCES):
        check_complete(report, options.root, counts, ceilings)
    if options.json:
        newest = {name: round(count.per_value, 2) for (name, arch), count in sorted(counts.items())
                  if arch == max(archs)}
        print(json.dumps({"instr_per_elem": newest, "spills": n_spills}))
    print(f"{len(report.failures)} failed", file=sys.stderr)
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
