#!/usr/bin/env python3
"""Measures the emulator's AllReduce against what the links allow: 2(P-1)/P x bytes / link rate.

    bench/emulator_ring.py [--build build] [--ranks 4] [--rate 250mbit] [--mbytes 18] [--rounds 12]

Each rank is a process in a network namespace of its own behind a link of the given rate in both
directions; without the right to make namespaces all share the loopback, and there is no bound.
A round lasts from the last rank's call to the last rank's completion.
"""

import argparse
import ctypes
import os
import statistics
import subprocess
import sys
import tempfile
import time

from lab.network import open_network
from lab.rate import bits_per_second

_FLOAT32, _SUM = 7, 0
_WARM_UP_ROUNDS = 2


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


def _check(result, call):
    if result != 0:
        sys.exit(f"{call} returned {result}")


def exchange_id(nccl, rank, path):
    """Rank 0 makes the id and publishes it under its final name only when it is whole."""
    unique_id = UniqueId()
    if rank == 0:
        _check(nccl.ncclGetUniqueId(ctypes.byref(unique_id)), "ncclGetUniqueId")
        with open(path + ".part", "wb") as file:
            file.write(bytes(unique_id))
        os.rename(path + ".part", path)
    while not os.path.exists(path):
        time.sleep(0.01)
    with open(path, "rb") as file:
        return UniqueId.from_buffer_copy(file.read())


def run_rank(options):
    """One rank: prints the time of each call and of its completion, in ns of the machine's clock."""
    cuda = ctypes.CDLL(os.path.join(options.build, "emulator", "libcudart.so.13"))
    nccl = ctypes.CDLL(os.path.join(options.build, "emulator", "libnccl.so.2"))
    count = options.mbytes * 1000000 // 4
    buffer = ctypes.c_void_p()
    _check(cuda.cudaMalloc(ctypes.byref(buffer), ctypes.c_size_t(count * 4)), "cudaMalloc")
    ctypes.memset(buffer, 0, count * 4)
    comm = ctypes.c_void_p()
    unique_id = exchange_id(nccl, options.rank, options.id_file)
    _check(nccl.ncclCommInitRank(ctypes.byref(comm), options.ranks, unique_id, options.rank), "ncclCommInitRank")
    for _ in range(_WARM_UP_ROUNDS + options.rounds):
        entry = time.monotonic_ns()
        _check(nccl.ncclAllReduce(buffer, buffer, ctypes.c_size_t(count), _FLOAT32, _SUM, comm, None), "ncclAllReduce")
        _check(cuda.cudaDeviceSynchronize(), "cudaDeviceSynchronize")
        print(entry, time.monotonic_ns(), flush=True)
    _check(nccl.ncclCommDestroy(comm), "ncclCommDestroy")


def rank_command(options, rank, id_file):
    return [sys.executable, os.path.abspath(__file__), "--build", os.path.abspath(options.build),
            "--ranks", str(options.ranks), "--mbytes", str(options.mbytes), "--rounds", str(options.rounds),
            "--rank", str(rank), "--id-file", id_file]


def measure(options, network):
    """Seconds of each steady round."""
    with tempfile.TemporaryDirectory() as folder:
        ranks = []
        for rank in range(options.ranks):
            command = network.command(rank, rank_command(options, rank, f"{folder}/id"))
            environment = dict(os.environ, NCCL_SOCKET_IFNAME=network.interface, NCCL_HOSTID=f"host-{rank}")
            ranks.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
        outputs = [process.communicate()[0] for process in ranks]
        if any(process.returncode != 0 for process in ranks):
            sys.exit("a rank failed")
    rounds = zip(*[[tuple(map(int, line.split())) for line in output.splitlines()] for output in outputs])
    lengths = [(max(end for _, end in times) - max(start for start, _ in times)) / 1e9 for times in rounds]
    return lengths[_WARM_UP_ROUNDS:]


def report(options, network):
    seconds = measure(options, network)
    median = statistics.median(seconds)
    print(f"{network.describe()}")
    print(f"AllReduce of {options.mbytes} MB fp32 over {options.ranks} ranks: median {median * 1e3:.1f} ms "
          f"(from {min(seconds) * 1e3:.1f} to {max(seconds) * 1e3:.1f} ms, {len(seconds)} rounds)")
    if network.bits_per_second is None:
        return
    wire_bytes = 2 * (options.ranks - 1) / options.ranks * options.mbytes * 1e6
    bound = wire_bytes * 8 / network.bits_per_second
    print(f"bound {bound * 1e3:.1f} ms, measured over bound {median / bound:.3f}")


def parse_options():
    parser = argparse.ArgumentParser(description="AllReduce of the emulator against its bound")
    parser.add_argument("--build", default="build", help="the build folder")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--rate", default="250mbit", help="of each link, as tc writes it")
    parser.add_argument("--mbytes", type=int, default=18)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--id-file", help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    options = parse_options()
    if options.rank is not None:
        run_rank(options)
        return
    with open_network(options.ranks, options.rate, bits_per_second(options.rate)) as network:
        report(options, network)


if __name__ == "__main__":
    main()
