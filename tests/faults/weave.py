"""Copies the sources and writes every fault into the copy, beside what it replaces."""

import os
import re
import shutil
import subprocess

import of_codecs
import of_interposer
import of_plugins

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
AREAS = {"interposer": of_interposer.FAULTS, "codecs": of_codecs.FAULTS, "plugins": of_plugins.FAULTS}
FAULTS = [fault for faults in AREAS.values() for fault in faults]


class Outdated(Exception):
    """The sources have changed where a fault was."""


def woven(text, fault, number):
    """A file's text with one fault in it."""
    found = text.count(fault.right)
    if found != 1:
        raise Outdated(f"{fault.file} has the text of fault {fault.name} {found} times: adapt tests/faults")
    return text.replace(fault.right, re.sub(r"\bFAULT\b", f"FAULT_IS_ON({number})", fault.wrong))


def source_files():
    command = ["git", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def write_if_new(path, content, like):
    """Leaves a file that has this content alone, so that a second build compiles only what changed."""
    if os.path.exists(path):
        with open(path, "rb") as file:
            if file.read() == content:
                return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content)
    shutil.copymode(like, path)


def weave(tree):
    """The copy at `tree`; fault number n is FAULTS[n - 1]."""
    faulty = {}
    for number, fault in enumerate(FAULTS, 1):
        if fault.file not in faulty:
            with open(os.path.join(ROOT, fault.file), encoding="utf-8") as file:
                faulty[fault.file] = file.read()
        faulty[fault.file] = woven(faulty[fault.file], fault, number)
    for name in source_files():
        source = os.path.join(ROOT, name)
        if not os.path.isfile(source):
            continue
        if name in faulty:
            content = faulty[name].encode()
        else:
            with open(source, "rb") as file:
                content = file.read()
        write_if_new(os.path.join(tree, name), content, source)
