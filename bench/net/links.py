"""Two hosts, a and b, joined by several links of their own rates: network namespaces and veth pairs
with an htb class at each end. Needs root."""

import json
import subprocess

from lab.network import SlowLinks
from lab.network import _run as run

N_LINKS = 4
SENDER, RECEIVER = 0, 1
# What a class may send at once: 2 ms of its rate, and a few packets at least. htb's own choice of
# one packet loses rate wherever the kernel's timer is late.
_BURST_SECONDS = 0.002
_SMALLEST_BURST = 16 * 1024
# A class sends so much before others of its link get their turn; there are no others, and without
# it the kernel complains of its own choice.
_QUANTUM = 60000
_QUEUE_PACKETS = 1000


class ParallelLinks(SlowLinks):
    """Everything disappears with the namespaces."""

    interfaces = tuple(f"v{i}" for i in range(N_LINKS))

    def __init__(self):
        super().__init__(2, None, None)

    def describe(self):
        return f"2 network namespaces, {N_LINKS} veth pairs"

    def address(self, host, link):
        return f"10.78.{link}.{host + 1}"

    def shape(self, mbits):
        """Gives each link its rate, in both directions. None: as fast as the machine can."""
        for host in (SENDER, RECEIVER):
            for link, interface in enumerate(self.interfaces):
                # Fails where there is none yet.
                subprocess.run(
                    ["tc", "-n", self._name(host), "qdisc", "del", "dev", interface, "root"],
                    stderr=subprocess.DEVNULL,
                )
                if mbits is not None:
                    self._limit_to(host, interface, mbits[link])

    def cut(self, link):
        """As if the cable were pulled: packets are lost from now on, in silence."""
        self._ip(RECEIVER, "link", "set", self.interfaces[link], "down")

    def mend(self, link):
        self._ip(RECEIVER, "link", "set", self.interfaces[link], "up")

    def sent_bytes(self, link):
        """By the sender, since the namespaces were made."""
        text = self._ip(SENDER, "-json", "-statistics", "link", "show", self.interfaces[link])
        return json.loads(text)[0]["stats64"]["tx"]["bytes"]

    # Not `ip netns exec`, which changes mounts: that takes seconds while all cores are busy.
    def _ip(self, host, *arguments):
        return run("ip", "-n", self._name(host), *arguments)

    def _tc(self, host, *arguments):
        run("tc", "-n", self._name(host), *arguments)

    def _build(self):
        for host in (SENDER, RECEIVER):
            self._add(host)
        for link, interface in enumerate(self.interfaces):
            peer = ("peer", "name", interface, "netns", self._name(RECEIVER))
            self._ip(SENDER, "link", "add", interface, "type", "veth", *peer)
            for host in (SENDER, RECEIVER):
                self._ip(host, "addr", "add", f"{self.address(host, link)}/24", "dev", interface)
                self._ip(host, "link", "set", interface, "up")

    def _limit_to(self, host, interface, mbit):
        burst = str(max(_SMALLEST_BURST, int(mbit * 1e6 / 8 * _BURST_SECONDS)))
        limits = ("rate", f"{mbit}mbit", "burst", burst, "cburst", burst, "quantum", str(_QUANTUM))
        device = ("add", "dev", interface)
        self._tc(host, "qdisc", *device, "root", "handle", "1:", "htb", "default", "1")
        self._tc(host, "class", *device, "parent", "1:", "classid", "1:1", "htb", *limits)
        self._tc(host, "qdisc", *device, "parent", "1:1", "pfifo", "limit", str(_QUEUE_PACKETS))
