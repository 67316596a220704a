#!/usr/bin/env python3
"""What can be known of the CUDA library without a GPU: what it exports and needs, and how it loads
where there is no driver. Prints each check; exit status 1 where one fails. What the compiler made of
the kernels is known to tests/compile."""

import argparse
import ctypes
import os
import re
import subprocess
import sys

SYMBOL = "cinchDeviceTable_v1"
HEADER = os.path.join(os.path.dirname(os.path.abspath(__file__)), *[os.pardir] * 4, "kernels", "device_table.h")


class Report:
    def __init__(self):
        self.failures = 0

    def check(self, passed, text):
        print(f"{'ok  ' if passed else 'FAIL'} {text}", flush=True)
        self.failures += not passed


def run(command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, **options)


def check_library(report, library):
    defined = re.findall(r"^\S+ \w (\S+)$", run(["nm", "-D", "--defined-only", library]).stdout, re.M)
    report.check(defined == [SYMBOL], f"{os.path.basename(library)} exports {SYMBOL} alone: {defined}")
    needed = re.findall(r"NEEDED.*\[(.*)\]", run(["readelf", "-d", library]).stdout)
    report.check(bool(needed) and not [name for name in needed if re.search("cuda|nccl|stdc", name)],
                 f"needs no CUDA library and no libstdc++: {needed}")


def check_kernel_list(report, library, program):
    """A kernel that is loaded at its first launch may wait for ever: all have to be loaded before."""
    # The names by which nvcc's code registers them.
    texts = run(["readelf", "--string-dump=.rodata", library], errors="replace").stdout
    kernels = set(re.findall(r"_ZN5cinch4cuda\w*Kernel\w*$", texts, re.M))
    loaded = int(run([program]).stdout)
    report.check(0 < len(kernels) == loaded, f"has {len(kernels)} kernels, of which {loaded} are loaded beforehand")


class DeviceTable(ctypes.Structure):
    """The head of DeviceTable in kernels/device_table.h."""
    _fields_ = [("version", ctypes.c_uint32), ("size", ctypes.c_uint32), ("name", ctypes.c_char_p),
                ("chunk_values", ctypes.c_uint64), ("initialise", ctypes.CFUNCTYPE(ctypes.c_int)),
                ("error_name", ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_int))]


def table_version():
    """As the header has it."""
    with open(HEADER, encoding="utf-8") as file:
        return int(re.search(r"kDeviceTableVersion = (\d+);", file.read())[1])


def check_loading(report, library):
    """With no driver to be found, loading works and initialise() says what is missing."""
    table = DeviceTable.in_dll(ctypes.CDLL(library), SYMBOL)
    report.check(table.version == table_version() and table.size > ctypes.sizeof(DeviceTable),
                 f"loads: version {table.version}, {table.size} bytes, {table.name.decode()}")
    report.check(table.chunk_values > 0, f"a chunk has {table.chunk_values} values")
    error = table.initialise()
    name = table.error_name(error).decode()
    expected = r"cudaSuccess" if error == 0 else r"cudaError(InsufficientDriver|NoDevice|StubLibrary)"
    report.check(re.fullmatch(expected, name) is not None, f"initialise() returns {error}, {name}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", dest="file", required=True, help="libcinch-codec-cuda.so")
    parser.add_argument("--kernel-list", required=True, help="cuda_kernel_list")
    options = parser.parse_args()

    report = Report()
    check_library(report, options.file)
    check_kernel_list(report, options.file, options.kernel_list)
    check_loading(report, options.file)
    print(f"{report.failures} failed")
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
