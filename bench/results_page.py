#!/usr/bin/env python3
"""Writes docs/results.md from the files in bench/results; with --check, compares.

    bench/results_page.py [--check] [--results bench/results] [--page docs/results.md]

Each folder of results is a section, each file what one command measured. Nothing on the page comes
from anywhere else. With --check the exit status is 1, and the difference is printed, where the page is
not what the files make.
"""

import argparse
import difflib
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True

from page import sections  # noqa: E402

HEAD = """# Results

Made by `bench/results_page.py` from the files in `bench/results`: each figure was measured by the command
that stands with it. Change neither by hand."""


class BadResult(Exception):
    """A file that the page cannot be made from."""


def find(folder, ending):
    """(path from the project's root, path) of all files in it, in the order of their names."""
    found = []
    for where, _, names in os.walk(folder):
        found += [os.path.join(where, name) for name in names if name.endswith(ending)]
    return sorted((os.path.join("bench/results", os.path.relpath(path, folder)), path) for path in found)


def load(path, parse):
    with open(path, encoding="utf-8") as file:
        try:
            return parse(file.read())
        except ValueError as error:
            raise BadResult(f"{path}: not JSON: {error}") from error


def read_results(folder):
    """{section: [(path, content)]}"""
    results = {name: [] for name in sections.SECTIONS}
    for name, path in find(folder, ".json"):
        section = name.split("/")[2]
        if section not in results:
            raise BadResult(f"{path}: bench/page/sections.py has no section {section}")
        results[section].append((name, load(path, json.loads)))
    return {section: files for section, files in results.items() if files}


def read_studies(folder):
    def lines(text):
        return [json.loads(line) for line in text.splitlines()]

    return [(name, load(path, lines)) for name, path in find(folder, ".jsonl")]


def page(folder):
    results, studies = read_results(folder), read_studies(folder)
    text = [HEAD]
    for name, files in results.items():
        try:
            text += sections.SECTIONS[name](files)
        except (KeyError, TypeError, AttributeError, StopIteration) as error:
            names = ", ".join(path for path, _ in files)
            raise BadResult(f"{names}: not what the section {name} reads: {error!r}") from error
    text += sections.no_help(results, studies[-1:])
    return "\n\n".join(text) + "\n"


def differences(path, wanted):
    found = ""
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            found = file.read()
    lines = [text.splitlines(keepends=True) for text in (found, wanted)]
    return "".join(difflib.unified_diff(*lines, path, "what the results make"))


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--results", default=os.path.join(HERE, "results"))
    parser.add_argument("--page", default=os.path.join(ROOT, "docs", "results.md"))
    options = parser.parse_args(arguments)
    try:
        text = page(options.results)
    except BadResult as error:
        print(f"bench/results_page.py: {error}", file=sys.stderr)
        return 2
    if options.check:
        different = differences(options.page, text)
        print(different, end="")
        return 1 if different else 0
    with open(options.page, "w", encoding="utf-8") as file:
        file.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
