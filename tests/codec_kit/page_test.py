"""The C++ blocks of docs/writing-a-codec.md, one after another, are the codec that is built here.

page_test.py PAGE HEADER
"""

import re
import sys

MOST_LINES = 150  # of a codec


def code_blocks(page):
    return re.findall(r"^```cpp\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def main(page_path, header_path):
    with open(page_path, encoding="utf-8") as page, open(header_path, encoding="utf-8") as header:
        shown, built = "\n".join(code_blocks(page.read())).splitlines(), header.read().splitlines()
    if len(built) > MOST_LINES:
        return f"{header_path} has {len(built)} lines; a codec has at most {MOST_LINES}"
    for number, (left, right) in enumerate(zip(shown, built), 1):
        if left != right:
            return f"line {number}: the page has {left!r}, the header {right!r}"
    if len(shown) != len(built):
        return f"the page shows {len(shown)} lines, the header has {len(built)}"
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
