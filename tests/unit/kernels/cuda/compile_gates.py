#!/usr/bin/env python3
"""What can be known of the CUDA codec without a GPU: what the compiler made of every kernel, and how
the library loads where there is no driver. Prints each check; exit status 1 where one fails."""

import argparse
import ctypes
import os
import re
import subprocess
import sys
import tempfile

# Kernels per source: element types x codecs x what is kept besides the codes; reduce also has one
# that makes values.
KERNELS = {"encode": 27, "reduce": 27, "decode": 9}
# Accesses that must be there. Values move 16 bytes at a time; decode only writes values.
WIDE_ACCESS = {"encode": r"ld\.global\.cs\.v4\.u32", "reduce": r"ld\.global\.cs\.v4\.u32",
               "decode": r"st\.global\.cs\.v4\.u32"}
# Contraction, approximate or flushing arithmetic, and memory behind registers.
FORBIDDEN = r"\bfma\.|\bmad\.(rn|rz|ftz)\S*f32|\.approx|\.ftz|\b(ld|st)\.local"
SYMBOL = "cinchDeviceTable_v1"


class Report:
    def __init__(self):
        self.failures = 0

    def check(self, passed, text):
        print(f"{'ok  ' if passed else 'FAIL'} {text}", flush=True)
        self.failures += not passed


def run(command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, **options)


def compile_kernels(nvcc, root, name, arch, folder):
    """Compiles one source to machine code, keeping its PTX; returns the PTX and ptxas's account."""
    source = os.path.join(root, "kernels", "cuda", "dispatch", f"{name}.cu")
    try:
        done = run([nvcc, "-std=c++20", f"-arch=sm_{arch}", "-O3", "-fmad=false", "-Xptxas=-v", "--keep",
                    f"--keep-dir={folder}", f"-I{root}", "-cubin", "-o", f"{folder}/{name}.cubin", source])
    except subprocess.CalledProcessError as error:
        sys.exit(f"FAIL nvcc cannot compile {source} for sm_{arch}:\n{error.stderr}")
    with open(os.path.join(folder, f"{name}.ptx"), encoding="utf-8") as ptx:
        return ptx.read(), done.stdout + done.stderr


def check_kernels(report, name, arch, ptx, account):
    where = f"sm_{arch} {name}:"
    frames = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", account)
    registers = [int(used) for used in re.findall(r"Used (\d+) registers", account)]
    report.check(len(frames) == len(registers) == KERNELS[name],
                 f"{where} {len(registers)} kernels of {KERNELS[name]}, "
                 f"{min(registers, default=0)} to {max(registers, default=0)} registers")
    spilled = [frame for frame in frames if frame != ("0", "0", "0")]
    report.check(not spilled, f"{where} no kernel has a stack or spills {spilled or ''}")
    forbidden = sorted({match.group(0) for match in re.finditer(FORBIDDEN, ptx)})
    report.check(not forbidden, f"{where} no contraction, no approximation, no local memory {forbidden or ''}")
    wide = len(re.findall(WIDE_ACCESS[name], ptx))
    report.check(wide >= KERNELS[name], f"{where} {wide} 16-byte accesses")


def check_library(report, library):
    defined = re.findall(r"^\S+ \w (\S+)$", run(["nm", "-D", "--defined-only", library]).stdout, re.M)
    report.check(defined == [SYMBOL], f"{os.path.basename(library)} exports {SYMBOL} alone: {defined}")
    needed = re.findall(r"NEEDED.*\[(.*)\]", run(["readelf", "-d", library]).stdout)
    report.check(bool(needed) and not [name for name in needed if re.search("cuda|nccl|stdc", name)],
                 f"needs no CUDA library and no libstdc++: {needed}")


class DeviceTable(ctypes.Structure):
    """The head of DeviceTable in kernels/device_table.h."""
    _fields_ = [("version", ctypes.c_uint32), ("size", ctypes.c_uint32), ("name", ctypes.c_char_p),
                ("initialise", ctypes.CFUNCTYPE(ctypes.c_int)),
                ("error_name", ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_int))]


def check_loading(report, library):
    """With no driver to be found, loading works and initialise() says what is missing."""
    table = DeviceTable.in_dll(ctypes.CDLL(library), SYMBOL)
    report.check(table.version == 2 and table.size > ctypes.sizeof(DeviceTable),
                 f"loads: version {table.version}, {table.size} bytes, {table.name.decode()}")
    error = table.initialise()
    name = table.error_name(error).decode()
    expected = r"cudaSuccess" if error == 0 else r"cudaError(InsufficientDriver|NoDevice|StubLibrary)"
    report.check(re.fullmatch(expected, name) is not None, f"initialise() returns {error}, {name}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nvcc", required=True)
    parser.add_argument("--root", required=True, help="root of the source tree")
    parser.add_argument("--library", dest="file", required=True, help="libcinch-codec-cuda.so")
    parser.add_argument("--archs", default="90")
    options = parser.parse_args()

    report = Report()
    check_library(report, options.file)
    check_loading(report, options.file)
    for arch in options.archs.split(","):
        for name in KERNELS:
            with tempfile.TemporaryDirectory() as folder:
                ptx, account = compile_kernels(options.nvcc, options.root, name, arch, folder)
                check_kernels(report, name, arch, ptx, account)
    print(f"{report.failures} failed")
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
