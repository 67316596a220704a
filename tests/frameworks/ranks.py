"""Runs Python functions as the ranks of distributed jobs, each rank a process of its own.

An import of PyTorch and its friends costs seconds, so they are imported once, by a parent that makes no
CUDA call; every rank of every job is forked from it and ends with its job. No job sees what another one
left behind. This module runs inside the emulator's environment (tests/frameworks/session.py starts it).
"""
import contextlib
import ctypes
import importlib
import os
import pickle
import random
import select
import signal
import socket
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass

# What DistributedDataParallel and friends import at their first use: several seconds for each rank,
# were it not there already.
IMPORTED_BEFORE = ("torch", "torch.distributed", "torch._dynamo", "torch.distributed.fsdp",
                   "torch.distributed.tensor")

# How long the other ranks may go on once one has failed: they should find out by themselves, but need
# not wait for a collective's time-out.
GRACE_SECONDS = 10


@dataclass
class Outcome:
    """How a rank ended: `result` is what the function returned, `error` a traceback or a reason."""

    rank: int
    result: object = None
    error: str = ""
    output: str = ""

    @property
    def ok(self):
        return not self.error


def import_early(extra=()):
    for name in (*IMPORTED_BEFORE, *extra):
        importlib.import_module(name)


def free_port():
    """One below those that the system gives to whoever asks for any: other tests, and NCCL, do so all the time, and would
    take it before rank 0 listens there."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="utf-8") as file:
        given_away = int(file.read().split()[0])
    while True:
        port = random.SystemRandom().randrange(1024, given_away)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@dataclass(frozen=True)
class Hosts:
    """Network namespaces, one for each host, in which processes find one another."""

    namespaces: tuple
    address: str  # the first one's
    interface: str

    def variables(self):
        """For a process that will read them with hosts_from()."""
        return {"JOB_NAMESPACES": ",".join(self.namespaces), "JOB_ADDRESS": self.address,
                "JOB_INTERFACE": self.interface}


def hosts_from(variables):
    """Hosts, or None where the variables name none."""
    if not (namespaces := variables.get("JOB_NAMESPACES")):
        return None
    return Hosts(tuple(namespaces.split(",")), variables["JOB_ADDRESS"], variables["JOB_INTERFACE"])


def run_ranks(function, n_ranks, *, timeout, environment=None, ranks_per_host=1, hosts=None):
    """Calls function(rank) in n_ranks processes and returns their Outcomes, by rank.

    The processes get what torchrun sets, and `environment` beside it. `ranks_per_host` of them share an
    NCCL host, which `hosts` gives a network of its own. When one fails, or `timeout` seconds are over, the others
    are ended."""
    port = free_port()
    function = _on_hosts(function, hosts, ranks_per_host) if hosts else function
    own = {"MASTER_ADDR": hosts.address, "GLOO_SOCKET_IFNAME": hosts.interface,
           "TP_SOCKET_IFNAME": hosts.interface} if hosts else {}
    children = [_Child(function, rank, _variables(rank, n_ranks, ranks_per_host, port) | own | (environment or {}))
                for rank in range(n_ranks)]
    deadline = time.monotonic() + timeout
    try:
        while waiting := [child for child in children if child.outcome is None]:
            now = time.monotonic()
            if now >= deadline:
                break
            select.select([child.pipe for child in waiting], [], [], min(deadline - now, 1.0))
            for child in waiting:
                if child.collect() and not child.outcome.ok:
                    deadline = min(deadline, time.monotonic() + GRACE_SECONDS)
    finally:
        for child in children:
            child.end(f"did not end within {timeout:g} s, or was left waiting by another rank's failure")
    return [child.outcome for child in children]


def _on_hosts(function, hosts, ranks_per_host):
    def inside(rank):
        _enter_namespace(hosts.namespaces[rank // ranks_per_host])
        return function(rank)

    return inside


def _enter_namespace(name):
    """This thread, and those that it starts, are in the network namespace from now on."""
    CLONE_NEWNET = 0x40000000
    with open(f"/run/netns/{name}", encoding="utf-8") as namespace:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(namespace.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"setns {name}")


def _variables(rank, n_ranks, ranks_per_host, port):
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(n_ranks),
        "LOCAL_RANK": str(rank % ranks_per_host),
        "LOCAL_WORLD_SIZE": str(ranks_per_host),
        "GROUP_RANK": str(rank // ranks_per_host),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "NCCL_HOSTID": f"host{rank // ranks_per_host}",
    }


class _Child:
    """A forked rank, the pipe that brings its result, and the file that holds what it printed."""

    def __init__(self, function, rank, variables):
        self.rank, self.outcome, self.received = rank, None, b""
        self.log = tempfile.TemporaryFile("w+", errors="replace")
        self.pipe, writer = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.pipe)
            _be_rank(function, rank, variables, self.log.fileno(), writer)
        os.close(writer)

    def collect(self):
        """Reads what has come; true once the rank has ended and `outcome` is there."""
        while select.select([self.pipe], [], [], 0)[0]:
            part = os.read(self.pipe, 1 << 16)
            if part:
                self.received += part
                continue
            status = os.waitpid(self.pid, 0)[1]
            self._finish(self._parsed(status))
            return True
        return False

    def _parsed(self, status):
        if self.received:
            result, error = pickle.loads(self.received)
            return Outcome(self.rank, result, error)
        if os.WIFSIGNALED(status):
            return Outcome(self.rank, error=f"ended by {signal.Signals(os.WTERMSIG(status)).name}")
        return Outcome(self.rank, error=f"ended with status {os.WEXITSTATUS(status)} and no result")

    def end(self, reason):
        """Kills the rank if it still runs, and whatever it has started."""
        if self.outcome is not None:
            return
        if not self.collect():
            _kill_group(self.pid)
            os.waitpid(self.pid, 0)
            self._finish(Outcome(self.rank, error=reason))

    def _finish(self, outcome):
        # What the rank started (data loaders, say) is in its process group.
        _kill_group(self.pid)
        os.close(self.pipe)
        self.log.seek(0)
        outcome.output = self.log.read()
        self.log.close()
        self.outcome = outcome


def _kill_group(pid):
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def _be_rank(function, rank, variables, log, writer):
    """What a forked rank does until its end. It leaves by _exit: exit handlers belong to the parent, but
    for NCCL's communicators, which the function is to destroy."""
    status = 1
    try:
        os.setpgid(0, 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.environ.update(variables)
        try:
            message = (function(rank), "")
            status = 0
        except BaseException:
            message = (None, traceback.format_exc())
        with os.fdopen(writer, "wb") as pipe:
            pickle.dump(message, pipe)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)
