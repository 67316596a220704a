"""How long a message of 8 bytes takes there and back."""

import json
import os
import subprocess

from net.goodput import rank_commands
from net.links import SENDER
from net.pair import run_pair

_BYTES = 8
_ROUNDS = 2000
_PATIENCE = 30
_SECONDS = ("--warmup", "0.2", "--seconds", "1")


def of_nccl(links, programs, plugin):
    """Microseconds of an NCCL program on the emulator: over a plugin, or over built-in sockets."""
    commands = rank_commands("pingpong", _BYTES, "--messages", str(_ROUNDS))
    settings = programs.nccl_settings(plugin) | {"NCCL_SOCKET_IFNAME": "=" + links.interfaces[0]}
    outputs, _ = run_pair(links, commands, settings)
    return outputs[SENDER]["round_trip_us"]


def of_plugin(programs, plugin):
    """Microseconds of the table's calls alone, over the loopback, which all plugins know."""
    command = [programs.harness, "--bench", "pingpong", "--bytes", str(_BYTES), *_SECONDS, plugin]
    done = subprocess.run(
        command,
        env=dict(os.environ, NCCL_SOCKET_IFNAME="lo"),
        check=True,
        stdout=subprocess.PIPE,
        timeout=_PATIENCE,
        text=True,
    )
    return json.loads(done.stdout.splitlines()[-1])["round_trip_us"]["median"]
