"""The commands of the documents, run as they stand: shared by documents_test.py and `bench/report operate`.

A block of commands is one between ``` fences with no language, or sh or bash. One below a line
<!-- not run: REASON --> is left out. `torchrun train.py` is a stand-in: two ranks on the emulator."""

import os
import re
import subprocess
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGES = ("README.md", "docs/guide.md")
DEADLINE = 120
LANGUAGES = ("", "sh", "bash")
FENCE = re.compile(r"(?:<!-- not run: (?P<reason>[^\n]*) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.M | re.S)
TORCHRUN = """#!/bin/sh
exec cinch bench all_reduce --emulator --ranks 2 --hosts 2 -b 64K -e 256K -f 4 -n 4 -w 6
"""


class Block:
    def __init__(self, text, reason):
        self.commands = commands_of(text)
        self.reason = reason  # why it is not run; None: it is


def commands_of(text):
    """Lines, where one that ends with a backslash goes on in the next; without those that only comment."""
    lines = re.sub(r"\\\n", " ", text).split("\n")
    return [line for line in lines if line.strip() and not line.lstrip().startswith("#")]


def blocks(page):
    return [Block(found["text"], found["reason"]) for found in FENCE.finditer(page)
            if found["language"] in LANGUAGES]


def read(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as file:
        return file.read()


def environment(build, folder):
    stand_ins = os.path.join(folder, "bin")
    os.mkdir(stand_ins)
    path = os.path.join(stand_ins, "torchrun")
    with open(path, "w", encoding="utf-8") as file:
        file.write(TORCHRUN)
    os.chmod(path, 0o755)
    return {"PATH": f"{stand_ins}:{build}/bin:/usr/bin:/bin", "HOME": folder, "TMPDIR": folder, "LC_ALL": "C.UTF-8",
            "NCCL_SOCKET_IFNAME": "lo"}


def run(page, build):
    """Of each command of a page, in order and in one folder, what went wrong; empty: nothing."""
    with tempfile.TemporaryDirectory() as folder:
        settings = environment(os.path.abspath(build), folder)
        work = os.path.join(folder, "work")
        os.mkdir(work)
        for block in blocks(page):
            for command in block.commands if block.reason is None else ():
                yield fault(command, settings, work)


def fault(command, settings, folder):
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", command], env=settings, cwd=folder, timeout=DEADLINE,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    warned = "cinch: warning" in done.stdout or "NCCL WARN" in done.stdout
    return f"{command}\nended with {done.returncode}:\n{done.stdout}" if done.returncode != 0 or warned else ""
