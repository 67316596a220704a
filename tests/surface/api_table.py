"""Reads interpose/real/api_surface.csv, the table of NCCL's public functions, and what else lists
functions: NCCL's header, the interposer's map of exports."""

import csv
import dataclasses
import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TABLE = os.path.join(ROOT, "interpose", "real", "api_surface.csv")
EXPORTS = os.path.join(ROOT, "interpose", "exports.map")

# What Cinch does with a function: changes what is sent, counts it and hands it on, keeps its own
# state in step, or is not in the way at all (the only functions that it does not export).
ROLES = ("compress", "observe", "follow", "untouched")


@dataclasses.dataclass(frozen=True)
class Function:
    name: str
    first_release: tuple  # (2, 18, 1)
    role: str
    test: str  # of what Cinch does with it; relative to tests/


def release_of(text):
    """'2.26.2.post1' -> (2, 26, 2)."""
    return tuple(int(part) for part in text.split(".")[:3])


def read_table(path=TABLE):
    with open(path, encoding="utf-8", newline="") as file:
        return [
            Function(row["function"], release_of(row["first_release"]), row["role"], row["test"])
            for row in csv.DictReader(file, strict=True)
        ]


def exported_names(path=EXPORTS):
    with open(path, encoding="utf-8") as file:
        return set(re.findall(r"^\s+(nccl\w+);", file.read(), re.M))


def names_in_header(text):
    """The public functions that an nccl.h declares."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)
    return set(re.findall(r"\b(nccl[A-Z]\w*)\s*\(", text))
