"""Where the ranks live: each in a network namespace of its own behind a link of a given rate, or
all on this machine's loopback where namespaces are not allowed."""

import os
import re
import subprocess

_PREFIX = "cinchq"


class NetworkError(Exception):
    """The network could not be made; the text says which command failed, and how."""


def _run(*command):
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise NetworkError(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def _is_running(pid):
    return os.path.exists(f"/proc/{pid}")


def remove_leftovers():
    """Removes namespaces of runs that were killed, and no others."""
    try:
        names = _run("ip", "netns", "list")
    except (NetworkError, OSError):
        return
    for line in names.splitlines():
        match = re.match(rf"{_PREFIX}-(\d+)-\w+", line)
        if match and not _is_running(int(match[1])):
            subprocess.run(["ip", "netns", "del", match[0]], stderr=subprocess.DEVNULL)


class Loopback:
    """All ranks share this machine's loopback, which is not slowed down."""

    interface = "lo"
    bits_per_second = None
    # The counters of lo are those of all ranks together.
    shared_interface = True

    def __init__(self, ranks, reason):
        self.ranks = ranks
        self.reason = reason

    def describe(self):
        return f"plain loopback, not slowed down ({self.reason})"

    def command(self, _rank, command):
        return command

    def host_address(self, _rank):
        return "127.0.0.1"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


class SlowLinks:
    """One namespace per rank and one that holds a bridge, joined by veth pairs. Everything
    disappears with the namespaces, whose names carry this process's id."""

    interface = "eth0"
    shared_interface = False

    # What a link may send at once: 2 ms of its rate. Less loses rate where the kernel's timer is
    # late, more lets a 16 MB test run ahead of its rate. The queue, of 100 ms, keeps TCP from
    # stalling.
    _BURST_SECONDS = 0.002
    _SMALLEST_BURST = 64 * 1024
    _QUEUE = ("latency", "100ms")

    def __init__(self, ranks, rate, bits_per_second):
        """`rate` None: links as fast as the machine is."""
        self.ranks = ranks
        self.rate = rate
        self.bits_per_second = bits_per_second
        self._made = []

    def describe(self):
        if self.rate is None:
            return f"{self.ranks} network namespaces, not slowed down"
        return f"{self.ranks} network namespaces, {self.rate} per host in each direction (tbf)"

    def command(self, rank, command):
        return ["ip", "netns", "exec", self._name(rank), *command]

    def host_address(self, rank):
        return f"10.77.0.{rank + 1}"

    def bytes_sent(self):
        """By all hosts through their links, since these were made."""
        path = f"/sys/class/net/{self.interface}/statistics/tx_bytes"
        return sum(int(_run(*self.command(rank, ["cat", path]))) for rank in range(self.ranks))

    def __enter__(self):
        try:
            self._build()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, *_):
        self._remove()

    def _name(self, member):
        return f"{_PREFIX}-{os.getpid()}-{member}"

    def _in(self, member, *command):
        _run("ip", "netns", "exec", self._name(member), *command)

    def _build(self):
        self._add("bridge")
        self._in("bridge", "ip", "link", "add", "br0", "type", "bridge")
        self._in("bridge", "ip", "link", "set", "br0", "up")
        for rank in range(self.ranks):
            self._add_host(rank)

    def _add(self, member):
        name = self._name(member)
        _run("ip", "netns", "add", name)
        self._made.append(name)
        self._in(member, "ip", "link", "set", "lo", "up")

    def _add_host(self, rank):
        self._add(rank)
        port = f"port{rank}"
        self._in(
            rank,
            "ip",
            "link",
            "add",
            "eth0",
            "type",
            "veth",
            "peer",
            "name",
            port,
            "netns",
            self._name("bridge"),
        )
        self._in(rank, "ip", "addr", "add", f"{self.host_address(rank)}/24", "dev", "eth0")
        self._in(rank, "ip", "link", "set", "eth0", "up")
        self._in("bridge", "ip", "link", "set", port, "master", "br0", "up")
        self._limit(rank, "eth0")
        self._limit("bridge", port)

    def change(self, rate, bits_per_second):
        """From now on, links that have a rate have this one."""
        self.rate, self.bits_per_second = rate, bits_per_second
        for rank in range(self.ranks):
            self._limit(rank, "eth0", "change")
            self._limit("bridge", f"port{rank}", "change")

    def _limit(self, member, interface, command="add"):
        if self.rate is None:
            return
        burst = max(self._SMALLEST_BURST, int(self.bits_per_second / 8 * self._BURST_SECONDS))
        self._in(
            member,
            "tc",
            "qdisc",
            command,
            "dev",
            interface,
            "root",
            "tbf",
            "rate",
            self.rate,
            "burst",
            str(burst),
            *self._QUEUE,
        )

    def _remove(self):
        while self._made:
            subprocess.run(["ip", "netns", "del", self._made.pop()], stderr=subprocess.DEVNULL)


def open_network(ranks, rate, rate_in_bits):
    """Namespaces where they work, else the loopback. Use as a context."""
    remove_leftovers()
    try:
        with SlowLinks(1, rate, rate_in_bits):
            pass
    except (NetworkError, OSError) as error:
        return Loopback(ranks, f"network namespaces are not available: {error}")
    return SlowLinks(ranks, rate, rate_in_bits)
