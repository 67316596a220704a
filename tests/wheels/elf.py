"""Facts of an ELF file, as readelf and nm tell them."""

import re
import subprocess


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def parse_dynamic(text):
    """Of `readelf -dW`."""
    paths = dict(re.findall(r"\((RPATH|RUNPATH)\).*\[(.*)\]", text))
    return {
        "needed": re.findall(r"\(NEEDED\).*\[(.*)\]", text),
        "rpath": paths.get("RPATH", ""),
        "runpath": paths.get("RUNPATH", ""),
        "bind_now": bool(re.search(r"\(BIND_NOW\)|\(FLAGS\).*BIND_NOW|\(FLAGS_1\).*\bNOW\b", text)),
    }


def parse_names(text):
    """Of `nm -D`: {name: kind}, versions cut off."""
    found = {}
    for line in text.splitlines():
        *_, kind, name = line.split()
        found[name.split("@")[0]] = kind
    return found


def parse_local_functions(text):
    """Of `readelf -sW`: {name: address} of functions that only their own file can call."""
    row = r"^ *\d+: ([0-9a-f]+) +\S+ FUNC +LOCAL +\S+ +\d+ (\S+)$"
    return {name: int(address, 16) for address, name in re.findall(row, text, re.M)}


def dynamic(path):
    return parse_dynamic(output_of("readelf", "-dW", path))


def undefined(path):
    return set(parse_names(output_of("nm", "-D", "--undefined-only", path)))


def exported(path):
    return parse_names(output_of("nm", "-D", "--defined-only", path))


def local_functions(path):
    return parse_local_functions(output_of("readelf", "-sW", path))
