"""What the dynamic loader says under LD_DEBUG=bindings of where symbols were found."""

import collections
import os
import re

Binding = collections.namedtuple("Binding", "binder symbol library")

ROW = re.compile(
    r"binding file (\S+) \[\d+\] to (\S+) \[\d+\]: (?:normal|weak) symbol `(p?nccl[A-Z]\w*)'"
)


def nccl_bindings(lines):
    """The bindings of NCCL's names, with files by their last name."""
    found = set()
    for line in lines:
        if match := ROW.search(line):
            binder, library, symbol = match.groups()
            found.add(Binding(os.path.basename(binder), symbol, os.path.basename(library)))
    return found


def nccl_bindings_of(folder):
    """Of all logs that LD_DEBUG_OUTPUT left in `folder`."""
    found = set()
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
            found |= nccl_bindings(file)
    return found
