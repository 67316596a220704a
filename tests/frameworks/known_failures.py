"""What is wrong today: rows of docs/frameworks.md that the test expects to fail, and what is right.

The test fails where one of these checks does not fail any more, so that whoever puts one right takes it
off this list; where it fails for another reason; and where anything else is wrong.
"""
from dataclasses import dataclass

# E.g. "job": Known((COMPRESSED,), "Its buckets are gradients.", outcome="ambiguous").
COMPRESSED = "gradients are compressed"
EXACT = "what is no gradient stays exact"
LOSS = "the loss is plain's"


@dataclass(frozen=True)
class Known:
    checks: tuple  # of judge.py: these fail
    right: str  # a sentence: what is right
    outcome: str = ""  # what the call log says of most gradients that were not compressed
    may: tuple = ()  # these may fail with them: how far off the loss is depends on the noise


KNOWN_FAILURES = {}
