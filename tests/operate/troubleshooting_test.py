"""Every line that docs/troubleshooting.md quotes is one that the sources can write.

    troubleshooting_test.py BUILD [unittest arguments]"""

import os
import re
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGE = os.path.join(ROOT, "docs", "troubleshooting.md")
FOLDERS = ("common", "interpose", "net_plugin", "tuner_plugin")
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
PLACEHOLDER = re.compile(r"%[-+ #0]*[\d.*]*(?:hh|h|ll|l|z)?[a-zA-Z]")


def spaced(text):
    return " ".join(text.split())


def source_text():
    """All string literals, those beside each other as one, with ... for what is filled in."""
    texts = []
    for folder in FOLDERS:
        for parent, _, names in os.walk(os.path.join(ROOT, folder)):
            for name in names:
                if name.endswith((".cc", ".h", ".def")):
                    with open(os.path.join(parent, name), encoding="utf-8") as file:
                        joined = re.sub(r'"\s*\n\s*"', "", file.read())
                    texts += LITERAL.findall(joined)
    return [PLACEHOLDER.sub("...", text) for text in texts]


def parts(quote):
    """What stands between the placeholders of a quoted line, where it says enough to be looked for."""
    return [part for part in (spaced(part).strip(" :;,()") for part in quote.split("...")) if len(part) > 3]


def missing(quote, sources):
    return [part for part in parts(quote) if not any(part in text for text in sources)]


class Troubleshooting(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with open(PAGE, encoding="utf-8") as file:
            cls.quotes = re.findall(r"^> (.*)$", file.read(), re.M)
        cls.sources = [spaced(text) for text in source_text()]

    def test_quoted_lines_are_in_the_sources(self):
        self.assertGreater(len(self.quotes), 30)
        for quote in self.quotes:
            with self.subTest(quote):
                self.assertNotEqual(parts(quote), [])
                self.assertEqual(missing(quote, self.sources), [])

    def test_a_line_that_nobody_writes_is_found(self):
        self.assertEqual(missing("... has grown wings: ... feathers", self.sources), ["has grown wings", "feathers"])


if __name__ == "__main__":
    sys.argv.pop(1)  # nothing of the build is needed
    unittest.main(verbosity=2)
