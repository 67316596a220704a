"""Text as tokens: the commonest pieces of the text itself, and bytes for what is none of them."""

import array
import collections
import itertools
import os
import re
import sysconfig

N_BYTES = 256
# A word with the space before it, a run of white space, or a run of other signs: all of the text.
_PIECE = re.compile(r" ?\w+|\s+|[^\w\s]+")


class TextError(Exception):
    """The text cannot be used; the sentence says why."""


def library_text(limit):
    """Sources of Python's standard library, documentation and all: text that is always there."""
    root = sysconfig.get_paths()["stdlib"]
    chunks, size = [], 0
    for path in sorted(_sources(root)):
        if size >= limit:
            break
        chunks.append(read(path, limit - size))
        size += len(chunks[-1])
    return "".join(chunks)


def _sources(root):
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in ("site-packages", "dist-packages")]
        yield from (os.path.join(folder, name) for name in files if name.endswith(".py"))


def read(path, limit):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(limit)
    except OSError as error:
        raise TextError(f"cannot read {path}: {error.strerror}") from error


def pieces_of(text):
    return _PIECE.findall(text)


def vocabulary_of(pieces, size):
    """{piece: token} of the commonest ones; the tokens before them stand for bytes."""
    common = collections.Counter(pieces).most_common(size - N_BYTES)
    return {piece: N_BYTES + i for i, (piece, _) in enumerate(common)}


def encode(pieces, vocabulary):
    # Surrogates cannot be encoded, and a text that came through `read` has none.
    tokens = ([vocabulary[p]] if p in vocabulary else p.encode() for p in pieces)
    return array.array("i", itertools.chain.from_iterable(tokens))


def decode(tokens, vocabulary):
    pieces = {token: piece.encode() for piece, token in vocabulary.items()}
    return b"".join(pieces.get(token) or bytes([token]) for token in tokens).decode()
