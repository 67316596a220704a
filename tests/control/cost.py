"""Measures what the channel over which Cinch's ranks agree costs a program: descriptors, a flood of silent
connections, and after warm-up system calls and allocations of the program's threads."""

import collections
import ipaddress
import json
import os
import re
import resource
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from ranks import wait_all  # noqa: E402

DEADLINE = 600
# Where the stamp of an id has its server: interpose/agree/unique_id_stamp.h.
STAMP = struct.Struct("<88xBxHI16s16x")


class Programs:
    """What the measurements run: surface_rank, what is preloaded into it, and allocations.cc's library."""

    def __init__(self, program, preload, allocations):
        self.program, self.preload, self.allocations = program, preload, allocations

    def start(self, case, ranks, folder, preload, settings=None, limit=None):
        """A list of (process, log), one of each rank; at most `limit` descriptors each."""
        processes = []
        for rank in range(ranks):
            values = {"NCCL_HOSTID": f"control-host-{rank}", "NCCL_SOCKET_IFNAME": "lo", "LD_PRELOAD": preload,
                      "CINCH_STATS": f"{folder}/report-{rank}", **(settings or {})}
            log = open(f"{folder}/rank-{rank}.log", "w+", encoding="utf-8")
            command = [self.program, "--case", case, "--folder", folder, "--rank", str(rank), "--ranks", str(ranks)]
            limits = None if limit is None else lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
            processes.append((subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                                               env=dict(os.environ, **values), preexec_fn=limits), log))
        return processes


def finish(processes):
    outcomes = wait_all(processes, time.monotonic() + DEADLINE)
    for rank, outcome in enumerate(outcomes):
        if outcome.status != 0 or not outcome.output.endswith("done\n"):
            raise RuntimeError(f"rank {rank} ended with {outcome.status}: {outcome.output[-2000:]}")
    return outcomes


def await_files(folder, names, processes):
    while not all(os.path.exists(os.path.join(folder, name)) for name in names):
        if any(process.poll() is not None for process, _ in processes):
            return  # finish() says what has happened
        time.sleep(0.05)


def time_of_many_hosts(programs, hosts, turns=1):
    """How many times as long as with plain NCCL a training takes on so many hosts of one rank, all on this machine."""
    times = {"": [], programs.preload: []}
    for turn in range(turns):
        for preload in sorted(times, reverse=turn % 2 == 1):
            with tempfile.TemporaryDirectory() as folder:
                begin = time.monotonic()
                finish(programs.start("default-training", hosts, folder, preload))
                times[preload].append(time.monotonic() - begin)
    return min(times[programs.preload]) / min(times[""])


def number(outcome, prefix):
    return int(outcome.lines(prefix)[0][0])


def descriptors(programs, communicators, ranks=8):
    """How many more descriptors than plain rank 0's process, which serves, has with so many communicators."""
    counts = []
    for preload in ("", programs.preload):
        with tempfile.TemporaryDirectory() as folder:
            started = programs.start("control-many-communicators", ranks, folder, preload,
                                     {"TEST_COMMUNICATORS": str(communicators)})
            counts.append(number(finish(started)[0], "descriptors"))
    return counts[1] - counts[0]


def server_of(path):
    """Where the server listens that the id in a file names."""
    with open(path, "rb") as file:
        family, port, _, address = STAMP.unpack(file.read(128))
    return str(ipaddress.ip_address(address[:4] if family == 4 else address)), port


def flood(programs, strangers, limit=4096):
    """open() calls of a program that fail while so many silent connections come to the process that serves, and
    how many milliseconds later than without them a communicator is ready."""
    starts = []
    for count in (0, strangers):
        with tempfile.TemporaryDirectory() as folder:
            started = programs.start("control-flood", 2, folder, programs.preload, limit=limit)
            await_files(folder, ["steady-0", "steady-1"], started)
            where = server_of(f"{folder}/world.id")
            opened = []
            for _ in range(count):
                stranger = socket.socket()
                stranger.setblocking(False)
                stranger.connect_ex(where)
                opened.append(stranger)
            time.sleep(1)
            open(f"{folder}/stop", "w", encoding="utf-8").close()
            outcomes = finish(started)
            for stranger in opened:
                stranger.close()
        failed = sum(number(outcome, "failed") for outcome in outcomes)
        starts.append(max(number(outcome, "start") for outcome in outcomes))
    return failed, starts[1] - starts[0]


# Frames that only hand on what somebody else wants.
LIBRARIES = re.compile(r"/(libc|libstdc\+\+|libpthread|libm|libgcc_s|ld-linux[^/(]*)\.so")


# What follows the last step.
AT_THE_END = r"ncclCommDestroy|writeReport|\bexit\b"


def system_calls(trace, library, but):
    """System calls in an output of `strace -k` whose innermost frame outside the C library is the library's, by name
    and function; not those with a frame of a function whose name is matched by `but`."""
    calls, call, frames = collections.Counter(), None, []

    def note():
        own = [frame for frame in frames if not LIBRARIES.search(frame)]
        if call and own and f"/{library}(" in own[0] and not any(re.search(but, frame) for frame in frames):
            calls[f"{call} in {own[0].split('(', 1)[1].rsplit('+0x', 1)[0]}"] += 1

    for line in trace:
        if line.startswith(" > "):
            frames.append(line[3:])
        else:
            note()
            call, frames = line.split("(", 1)[0], []
    note()
    return calls


def steady_state(programs, steps, settings=None):
    """What Cinch does on a program's thread in so many steps after warm-up: {"syscalls", "allocations", "waits", "calls"},
    of which the first is None without strace."""
    settings = {"CINCH_WHEN": "always", "TEST_STEPS": str(steps), "CINCH_STATS_INTERVAL": "1", **(settings or {})}
    preload = f"{programs.allocations} {programs.preload}"
    found = {"syscalls": None, "calls": {}}
    with tempfile.TemporaryDirectory() as folder:
        def waits():
            with open(f"{folder}/report-0.json", encoding="utf-8") as file:
                return json.load(file)["origin"]["waits"]

        started = programs.start("default-steady-training", 2, folder, preload, settings)
        await_files(folder, ["steady-0", "steady-1"], started)
        time.sleep(2)  # for the report to be written once more
        before = waits()
        tracer = None
        if shutil.which("strace"):
            tracer = subprocess.Popen(["strace", "-k", "-p", str(started[0][0].pid), "-o", f"{folder}/trace"],
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(1)
        open(f"{folder}/go", "w", encoding="utf-8").close()
        outcomes = finish(started)
        if tracer:
            tracer.wait()
            with open(f"{folder}/trace", encoding="utf-8", errors="replace") as trace:
                found["calls"] = dict(system_calls(trace, "libcinch.so", AT_THE_END))
            found["syscalls"] = sum(found["calls"].values())
        found["waits"] = waits() - before
    found["allocations"] = number(outcomes[0], "allocations")
    return found
