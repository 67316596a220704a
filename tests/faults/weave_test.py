"""The mistakes of tests/faults against the sources as they are."""

import collections
import os
import unittest

import weave


class FaultsTest(unittest.TestCase):
    def test_each_has_its_place_and_a_name_of_its_own(self):
        texts = {}
        for number, fault in enumerate(weave.FAULTS, 1):
            with self.subTest(fault=fault.name):
                if fault.file not in texts:
                    with open(os.path.join(weave.ROOT, fault.file), encoding="utf-8") as file:
                        texts[fault.file] = file.read()
                texts[fault.file] = weave.woven(texts[fault.file], fault, number)
                self.assertIn(f"FAULT_IS_ON({number})", texts[fault.file])
        names = collections.Counter(fault.name for fault in weave.FAULTS)
        self.assertEqual([name for name, count in names.items() if count > 1], [])


if __name__ == "__main__":
    unittest.main()
