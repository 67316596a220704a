#!/usr/bin/env python3
"""Runs a shell script in a virtual machine whose kernel has Soft-RoCE, under QEMU's own emulation (no
KVM). The script's console output is printed; its exit status is this program's.

boot.py [--file PATH]... [--env NAME=VALUE]... [--out FOLDER] [--timeout SECONDS] SCRIPT

--file      program, library or folder, which the guest has at the same absolute path, with the shared
            libraries that it needs
--env       for the script
--out       where files go that the script leaves in /out; one that it names "a/b" becomes FOLDER/a/b
--timeout   seconds after which the machine is killed (default 170)

Ends with 77, and says why, where this machine lacks what the guest needs, or was too busy for what hangs on clocks;
with 124 where the guest was killed.
"""

import argparse
import os
import re
import shlex
import subprocess
import sys
import tarfile
import tempfile
import threading
import time

import image
import kernel

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench"))
from lab import machine  # noqa: E402

FOLDER = os.path.dirname(kernel.FOLDER)
QEMU = "qemu-system-x86_64"
SKIPPED, TIMED_OUT = 77, 124
# What a script ends with where all that failed hangs on clocks: a link that is taken for dead within 0.3 s.
LATE = 75
STATUS_FILE = ".status"


class Outcome:
    """How a guest ended: the script's exit status (None: it has none), what its console showed,
    seconds from the start until the script began (None: it did not) and until power-off."""

    def __init__(self, status, console, timed_out, seconds):
        self.status = status
        self.console = console
        self.timed_out = timed_out
        self.seconds = seconds
        ready = re.search(r"^guest: ready after (\S+) s", console, re.MULTILINE)
        self.ready = float(ready[1]) if ready else None


def why_not():
    """What this machine lacks; None: nothing."""
    missing = image.missing_packages()
    if not image.find_program(QEMU):
        missing.append("qemu-system-x86")
    if missing:
        return "not installed: " + ", ".join(missing)
    if not kernel.is_fetched():
        return "no kernel for the guest; tests/verbs_vm/kernel.py fetches it"
    return None


def command(initramfs, results):
    """The second serial line carries the files, so that no message of the kernel gets into them. KVM
    is not used: inside another virtual machine it hangs in the firmware or is not there."""
    return ["setpriv", "--pdeathsig", "KILL", image.find_program(QEMU), "-accel", "tcg,thread=multi", "-cpu", "max",
            "-smp", "2", "-m", "1536", "-no-reboot", "-nodefaults", "-display", "none",
            "-serial", "stdio", "-serial", "file:" + results,
            "-kernel", os.path.join(kernel.FOLDER, "linux"), "-initrd", initramfs,
            "-append", "console=ttyS0 quiet panic=-1 reboot=t mitigations=off nokaslr tsc=reliable clocksource=tsc"]


def take_files(results, folder):
    """Puts the guest's files into the folder; returns the script's exit status, which is one."""
    status = None
    try:
        with tarfile.open(results) as archive:
            for member in archive.getmembers():
                if member.isfile() and os.path.normpath(member.name) == STATUS_FILE:
                    status = int(archive.extractfile(member).read())
                elif folder:
                    archive.extract(member, folder, filter="data")
    except (tarfile.TarError, ValueError):
        pass  # cut short: the guest did not get to its end
    return status


def watch(process, timeout, echo):
    """The console until the machine is off, and whether it had to be killed for that."""
    late = threading.Event()

    def end():
        late.set()
        process.kill()

    timer = threading.Timer(timeout, end)
    timer.start()
    lines = []
    for line in process.stdout:
        lines.append(line.replace("\r", ""))
        if echo:
            print(lines[-1], end="", flush=True)
    process.wait()
    timer.cancel()
    return "".join(lines), late.is_set()


def run(script, files=(), environment=None, out=None, timeout=170, echo=False):
    """Boots the machine for the script; files as for --file, environment a dict."""
    os.makedirs(FOLDER, exist_ok=True)
    quoted = "".join(f"{name}={shlex.quote(value)}\n" for name, value in (environment or {}).items())
    with tempfile.TemporaryDirectory() as folder:
        initramfs, results = os.path.join(folder, "initramfs"), os.path.join(folder, "results.tar")
        image.make(initramfs, FOLDER, kernel.FOLDER, script, files, quoted)
        start = time.monotonic()
        with subprocess.Popen(command(initramfs, results), stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              encoding="utf-8", errors="replace") as process:
            console, late = watch(process, timeout, echo)
        seconds = time.monotonic() - start
        status = take_files(results, out) if os.path.exists(results) else None
        return Outcome(status, console, late, seconds)


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", action="append", default=[])
    parser.add_argument("--env", action="append", default=[])
    parser.add_argument("--out")
    parser.add_argument("--timeout", type=float, default=170)
    parser.add_argument("script")
    return parser.parse_args()


def verdict(outcome, others):
    """Exit status for an outcome beside which others took such a share of the cores. Where it hangs on clocks, only a
    quiet machine's counts; what the script ends with never reads as skipped by itself."""
    ready = "never" if outcome.ready is None else f"after {outcome.ready:.1f} s"
    print(f"verbs_vm: ready {ready}, off after {outcome.seconds:.1f} s")
    if (outcome.timed_out or outcome.status == LATE) and others > machine.QUIET_SHARE:
        print(f"skipped: the machine was busy, others took {others:.0%} of its cores")
        return SKIPPED
    if outcome.timed_out:
        print("verbs_vm: killed at its time limit", file=sys.stderr)
        return TIMED_OUT
    if outcome.status is None:
        print("verbs_vm: the guest ended before its script did", file=sys.stderr)
        return 1
    return 1 if outcome.status == SKIPPED else outcome.status


def main():
    options = arguments()
    reason = why_not()
    if reason:
        print(f"skipped: {reason}")
        return SKIPPED
    environment = dict(pair.split("=", 1) for pair in options.env)
    load = machine.OtherLoad()
    try:
        outcome = run(options.script, options.file, environment, options.out, options.timeout,
                      echo=True)
    except image.Missing as problem:
        print(f"verbs_vm: not found: {problem}", file=sys.stderr)
        return 1
    return verdict(outcome, load.share())


if __name__ == "__main__":
    sys.exit(main())
