"""Bytes per second that arrive: of the plugin, of a transport that divides messages statically, and
of plain TCP."""

import os
import time

from lab.job import JobFailed
from lab.machine import NUMPY_PYTHON
from net.links import RECEIVER, SENDER
from net.pair import no_work, run_pair

MESSAGE_BYTES = 1 << 20
_RANK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "rank.py")
_MBIT_PER_GBIT = 1000

# Seconds.
_WARM_UP = 1.0
_MEASURED = 3.0
_UNSHAPED = 1.5
_AFTER_CUT = 6.0
_STATIC_WARM_UP = 1.5
_STATIC_MEASURED = 5.0

# iperf3's client does not wait for its server, and calls that no failure.
_RETRY = """
for attempt in $(seq 50); do
  out=$("$@")
  case $out in *'"error"'*) sleep 0.1 ;; *) break ;; esac
done
echo "$out"
"""


class Programs:
    """Where the build has what runs."""

    def __init__(self, build):
        self._build = build
        self.plugin = self.path("lib", "libnccl-net-cinch.so")
        self.trivial_plugin = self.path("tests", "net", "libnccl-net-trivial_v12.so")
        self.harness = self.path("tests", "net_conformance")
        self.chaos = self.path("tests", "net_socket_chaos_test")

    def path(self, *parts):
        return os.path.join(self._build, *parts)

    def nccl_settings(self, plugin):
        """Of a program on the emulator: over a plugin, or over built-in sockets (None)."""
        settings = {"LD_LIBRARY_PATH": self.path("emulator")}
        if plugin is None:
            return settings | {"NCCL_NET": "Socket"}
        return settings | {
            "NCCL_NET_PLUGIN": plugin,
            "NCCL_NET": "Cinch",
            "NCCL_NET_PLUGIN_REF_COUNT": "1",
        }


def rank_commands(program, n_bytes, *arguments):
    return [
        [
            NUMPY_PYTHON,
            "-B",
            _RANK,
            program,
            "--rank",
            str(rank),
            "--bytes",
            str(n_bytes),
            "--id-file",
            "{folder}/id",
            *arguments,
        ]
        for rank in (SENDER, RECEIVER)
    ]


def bench_commands(programs, plugin, *arguments):
    """The conformance harness as a measurement on two hosts."""
    start = [programs.harness, "--bench", *arguments]
    return [[*start, f"--{role}-file", "{folder}/meet", plugin] for role in ("connect", "listen")]


def stream(links, programs, warm_up, seconds, settings=None, interfaces=None, on_poll=no_work):
    """(Mbit/s of the plugin with 1 MiB messages, CPU seconds)"""
    commands = bench_commands(
        programs,
        programs.plugin,
        "stream",
        "--bytes",
        str(MESSAGE_BYTES),
        "--warmup",
        str(warm_up),
        "--seconds",
        str(seconds),
    )
    settings = {"NCCL_SOCKET_IFNAME": "=" + ",".join(interfaces or links.interfaces)} | (
        settings or {}
    )
    outputs, cpu = run_pair(links, commands, settings, on_poll)
    return outputs[RECEIVER]["gbit_per_s"] * _MBIT_PER_GBIT, cpu


def shaped(links, programs, mbits):
    """Goodput of one flow per link, as a fraction of the sum of the rates."""
    links.shape(mbits)
    mbit, _ = stream(links, programs, _WARM_UP, _MEASURED, {"CINCH_NET_FLOWS": str(len(mbits))})
    return mbit / sum(mbits)


class Cut:
    """Cuts a link once it has been in use for so many seconds. Called several times a second."""

    def __init__(self, links, link, seconds):
        self._links, self._link, self._seconds = links, link, seconds
        self._idle_bytes = links.sent_bytes(link) + MESSAGE_BYTES
        self._busy_since = self.done = None

    def __call__(self):
        if self.done:
            return
        now = time.monotonic()
        if self._busy_since is None and self._links.sent_bytes(self._link) > self._idle_bytes:
            self._busy_since = now
        if self._busy_since is not None and now - self._busy_since >= self._seconds:
            self._links.cut(self._link)
            self.done = True

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self._links.mend(self._link)
        if kind is None and not self.done:
            raise JobFailed("all was over before the link could be cut")


def cut(links, programs, mbits, link):
    """Goodput from the moment a link is cut, as a fraction of what the others could carry."""
    links.shape(mbits)
    flows = {"CINCH_NET_FLOWS": str(len(mbits))}
    # It is noticed up to a tenth of a second late that there is traffic, and again that it is time.
    with Cut(links, link, _WARM_UP - 0.1) as on_poll:
        mbit, _ = stream(links, programs, _WARM_UP, _AFTER_CUT, flows, on_poll=on_poll)
    return mbit / (sum(mbits) - mbits[link])


def static(links, programs, mbits):
    """Goodput of the emulator's built-in transport, as a fraction of the sum of the rates.

    It has one socket for each connection, so the program divides each message equally over four
    communicators, one on each link.
    """
    links.shape(mbits)
    commands = rank_commands(
        "stream",
        MESSAGE_BYTES,
        "--interfaces",
        ",".join(links.interfaces),
        "--warm-up",
        str(_STATIC_WARM_UP),
        "--seconds",
        str(_STATIC_MEASURED),
    )
    outputs, _ = run_pair(links, commands, programs.nccl_settings(None))
    return outputs[RECEIVER]["gbit_per_s"] * _MBIT_PER_GBIT / sum(mbits)


def checked_over_cut(links, programs, mbits, link, messages):
    """How many messages of an NCCL program were not what was sent, with a link cut on the way."""
    links.shape(mbits)
    commands = rank_commands("checked", MESSAGE_BYTES, "--messages", str(messages))
    settings = programs.nccl_settings(programs.plugin) | {
        "NCCL_SOCKET_IFNAME": "=" + ",".join(links.interfaces),
        "CINCH_NET_FLOWS": str(len(mbits)),
    }
    with Cut(links, link, 0) as on_poll:
        outputs, _ = run_pair(links, commands, settings, on_poll)
    return outputs[RECEIVER]["wrong"]


def unshaped(links, programs, checksum, interface):
    """(Mbit/s of the plugin over one interface as fast as it goes, CPU seconds)"""
    settings = {"CINCH_NET_CRC": checksum}
    return stream(links, programs, _WARM_UP / 2, _UNSHAPED, settings, [interface])


def iperf(links, link, streams, block=None):
    """(Mbit/s of plain TCP, CPU seconds). Each stream writes and reads one block again and again:
    iperf3's own of 128 KiB, which stays in the cache, or one of `block` bytes."""
    client = [
        "iperf3",
        "-c",
        links.address(RECEIVER, link),
        "-P",
        str(streams),
        "-O",
        str(_WARM_UP / 2),
        "-t",
        str(_UNSHAPED),
        "-J",
    ]
    client += [] if block is None else ["-l", str(block)]
    commands = [["bash", "-c", _RETRY, "retry", *client], ["iperf3", "-s", "-1"]]
    outputs, cpu = run_pair(links, commands)
    return outputs[SENDER]["end"]["sum_received"]["bits_per_second"] / 1e6, cpu
