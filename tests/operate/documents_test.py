"""Every command of README.md and the user guide does what it should, and every link of the documents leads somewhere.

    documents_test.py BUILD [unittest arguments]"""

import glob
import os
import re
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import documents  # noqa: E402

BUILD = None
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")


def anchors(path):
    """As GitHub makes them of headings."""
    with open(path, encoding="utf-8") as file:
        headings = re.findall(r"^#+ (.*)$", file.read(), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def dead_links(path):
    with open(path, encoding="utf-8") as file:
        text = re.sub(r"^```.*?^```$|`[^`\n]*`", "", file.read(), flags=re.M | re.S)
    dead = []
    for target, anchor in LINK.findall(text):
        if target.startswith(("http:", "https:")):
            continue
        place = os.path.normpath(os.path.join(os.path.dirname(path), target)) if target else path
        if not os.path.exists(place) or (anchor and place.endswith(".md") and anchor not in anchors(place)):
            dead.append(f"{target}#{anchor}")
    return dead


class Documents(unittest.TestCase):
    def test_commands(self):
        for name in documents.PAGES:
            for fault in documents.run(documents.read(name), BUILD):
                with self.subTest(name):
                    self.assertEqual(fault, "")

    def test_few_blocks_are_left_out(self):
        blocks = [block for name in documents.PAGES for block in documents.blocks(documents.read(name))]
        left_out = [block.reason for block in blocks if block.reason is not None]
        self.assertLessEqual(len(left_out), 2, left_out)
        self.assertGreater(len(blocks) - len(left_out), 10)

    def test_what_fails_is_found(self):
        page = ("```\ntrue\nfalse\n```\n```python\n(\n```\n"
                "<!-- not run: why -->\n```\nfalse\n```\n```sh\n# a\necho \\\nb\n```\n")
        self.assertEqual([block.reason for block in documents.blocks(page)], [None, "why", None])
        faults = list(documents.run(page, BUILD))
        self.assertEqual([fault != "" for fault in faults], [False, True, False])
        (warned,) = documents.run("```\nCINCH_CODECS=q4 cinch run -- true\n```\n", BUILD)
        self.assertIn("did you mean CINCH_CODEC", warned)

    def test_measured_figures_are_those_of_the_results(self):
        measured = documents.read("README.md").split("## Measured\n", 1)[1].split("\n## ", 1)[0]
        rows = [line for line in measured.splitlines() if line.startswith("| 1")]
        figures = [figure for row in rows for figure in re.findall(r"\d+(?:\.\d+)?x?(?=[ )])", row.split("|", 2)[2])]
        self.assertEqual(len(figures), 12)
        results = documents.read("docs/results.md")
        self.assertEqual([figure for figure in figures if not re.search(rf"[ (]{re.escape(figure)}[ )]", results)], [])

    def test_links(self):
        pages = glob.glob(f"{documents.ROOT}/*.md") + glob.glob(f"{documents.ROOT}/docs/**/*.md", recursive=True)
        self.assertGreater(len(pages), 20)
        for page in pages:
            with self.subTest(os.path.relpath(page, documents.ROOT)):
                self.assertEqual(dead_links(page), [])


if __name__ == "__main__":
    BUILD = sys.argv.pop(1)
    unittest.main(verbosity=2)
