"""Text as tokens."""

import tempfile
import unittest

import support  # noqa: F401  first: it says where the modules are
from train import text


class TextTest(unittest.TestCase):
    TEXT = "def f(x):\n    return x  # naïve, 名前 \U0001f600\tthe the the the\n" * 3 + " "

    def test_tokens_are_the_text(self):
        pieces = text.pieces_of(self.TEXT)
        self.assertEqual("".join(pieces), self.TEXT)
        for size in (text.N_BYTES, text.N_BYTES + 3, 50257):
            vocabulary = text.vocabulary_of(pieces, size)
            tokens = text.encode(pieces, vocabulary)
            self.assertLess(max(tokens), size)
            self.assertEqual(text.decode(tokens, vocabulary), self.TEXT)

    def test_common_pieces_are_one_token(self):
        pieces = text.pieces_of(self.TEXT)
        vocabulary = text.vocabulary_of(pieces, text.N_BYTES + 1)
        self.assertEqual(list(vocabulary), [" the"])
        self.assertEqual(text.encode([" the", "a"], vocabulary).tolist(), [text.N_BYTES, ord("a")])

    def test_default_text_is_long_and_the_same_each_time(self):
        found = text.library_text(100000)
        self.assertEqual(len(found), 100000)
        self.assertEqual(found, text.library_text(100000))

    def test_any_bytes_are_text_and_a_missing_file_is_named(self):
        with tempfile.NamedTemporaryFile() as file:
            file.write(bytes(range(256)))
            file.flush()
            pieces = text.pieces_of(text.read(file.name, 1000))
            self.assertTrue(text.encode(pieces, {}))
        with self.assertRaisesRegex(text.TextError, "/nonexistent: No such file"):
            text.read("/nonexistent", 10)


if __name__ == "__main__":
    unittest.main(verbosity=2)
