"""Two programs that talk to each other, one on each host."""

import json
import os
import resource
import tempfile

from lab.job import Job
from net.links import RECEIVER, SENDER

_PATIENCE = 60


def _cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def no_work():
    pass


def run_pair(links, commands, settings=None, on_poll=no_work):
    """`commands` of the sender and the receiver, in which {folder} is one that both see; `settings`
    for the environment of both. Calls on_poll() several times a second. Returns what each printed
    last, and the CPU seconds of both together."""
    environment = {name: text for name, text in os.environ.items() if not name.startswith("CINCH_")}
    environment |= {"PYTHONDONTWRITEBYTECODE": "1"} | (settings or {})
    before = _cpu_seconds()
    with tempfile.TemporaryDirectory(prefix="cinch-net-") as folder:
        filled = [
            links.command(host, [part.format(folder=folder) for part in command])
            for host, command in zip((SENDER, RECEIVER), commands)
        ]
        environments = [
            environment | {"NCCL_HOSTID": f"host-{host}"} for host in (SENDER, RECEIVER)
        ]
        with Job(folder, filled, environments) as job:
            job.wait(on_poll, _PATIENCE)
            outputs = [_last_object(job.output_path(host)) for host in (SENDER, RECEIVER)]
    return outputs, _cpu_seconds() - before


def _last_object(path):
    """The last JSON object in a file, {} where there is none."""
    with open(path) as file:
        text = file.read().strip()
    start = 0 if text.startswith("{") else text.rfind("\n{") + 1
    return json.loads(text[start:]) if text[start:].startswith("{") else {}
