"""What is wrong today: rows of docs/frameworks.md that the test expects to fail, and what is right.

The test fails where one of these checks does not fail any more, so that whoever puts one right takes it
off this list; and where anything else is wrong.
"""
from dataclasses import dataclass


@dataclass(frozen=True)
class Known:
    checks: tuple  # of judge.py
    right: str  # a sentence: what is right


COMPRESSED = "gradients are compressed"
EXACT = "what is no gradient stays exact"
LOSS = "the loss is plain's"

KNOWN_FAILURES = {}
