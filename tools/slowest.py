#!/usr/bin/env python3
"""Prints the twenty tests and the twenty compiled files of a build folder that took longest when they last ran:

    tools/slowest.py PRESET        of CMakePresets.json
"""

import json
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SHOWN = 20


def build_folder(preset):
    with open(os.path.join(ROOT, "CMakePresets.json"), encoding="utf-8") as file:
        presets = json.load(file)
    configured = next(each["configurePreset"] for each in presets["testPresets"] if each["name"] == preset)
    folder = next(each["binaryDir"] for each in presets["configurePresets"] if each["name"] == configured)
    return folder.replace("${sourceDir}", ROOT)


def test_seconds(log):
    """Of ctest's log: {test: seconds}."""
    names = re.findall(r"^\d+/\d+ Test: (\S+)$", log, re.M)
    times = re.findall(r"^Test time = +([0-9.]+) sec$", log, re.M)
    return dict(zip(names, map(float, times)))


def file_seconds(log):
    """Of ninja's log, in which a later line of a file replaces an earlier one: {source: seconds}."""
    times = {}
    for line in log.splitlines()[1:]:
        begin, end, _, output, _ = line.split("\t")
        if output.endswith((".o", ".gch")):
            times[re.sub(r"CMakeFiles/|\.o$", "", output)] = (int(end) - int(begin)) / 1000
    return times


def print_slowest(title, times):
    print(f"\n{title}, slowest first:")
    for name, seconds in sorted(times.items(), key=lambda item: -item[1])[:SHOWN]:
        print(f"{seconds:8.1f} s  {name}")


def read(*path):
    try:
        with open(os.path.join(*path), encoding="utf-8", errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def main():
    folder = build_folder(sys.argv[1])
    print_slowest("Tests", test_seconds(read(folder, "Testing", "Temporary", "LastTest.log")))
    print_slowest("Compiled files", file_seconds(read(folder, ".ninja_log")))


if __name__ == "__main__":
    main()
