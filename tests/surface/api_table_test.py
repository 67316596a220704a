"""The table of NCCL's functions against the rest of the tree, and the functions that read it."""

import os
import tempfile
import unittest

import api_table

TESTS = os.path.join(api_table.ROOT, "tests")


class TableTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.table = api_table.read_table()

    def test_has_a_row_for_each_function_once_in_the_order_of_releases(self):
        names = [function.name for function in self.table]
        self.assertEqual(len(names), len(set(names)))
        self.assertGreaterEqual(len(names), 64)
        releases = [function.first_release for function in self.table]
        self.assertEqual(releases, sorted(releases))
        self.assertTrue(all(len(release) == 3 for release in releases))

    def test_roles_are_known_and_say_what_is_exported(self):
        for function in self.table:
            self.assertIn(function.role, api_table.ROLES, function.name)
        touched = {f.name for f in self.table if f.role != "untouched"}
        self.assertEqual(touched, api_table.exported_names())

    def test_every_named_test_is_there_and_speaks_of_its_function(self):
        for function in self.table:
            with self.subTest(function=function.name):
                with open(os.path.join(TESTS, function.test), encoding="utf-8") as file:
                    text = file.read()
                # The calls of one_call.cc come from functions.def, which leaves out the prefix.
                if function.test == "surface/one_call.cc":
                    with open(os.path.join(TESTS, "fake/nccl/functions.def")) as file:
                        text += file.read().replace("FAKE_NCCL(", "nccl")
                self.assertRegex(text, rf"\b{function.name}\b")


class ReaderTest(unittest.TestCase):
    def read(self, text, reader):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write(text)
            file.flush()
            return reader(file.name)

    def test_rows(self):
        text = "function,first_release,role,test\nncclSend,2.7.3,observe,a/b.cc\n"
        self.assertEqual(
            self.read(text, api_table.read_table),
            [api_table.Function("ncclSend", (2, 7, 3), "observe", "a/b.cc")],
        )

    def test_releases_compare_as_numbers_and_rebuilds_do_not_count(self):
        self.assertLess(api_table.release_of("2.9.8"), api_table.release_of("2.10.3"))
        self.assertEqual(api_table.release_of("2.26.2.post1"), (2, 26, 2))

    def test_exports_are_ncclish_names_only(self):
        text = "{\n  global:\n    ncclSend;\n    dlsym;\n  local:\n    *;\n};\n"
        self.assertEqual(self.read(text, api_table.exported_names), {"ncclSend"})

    def test_names_in_a_header_are_those_of_declared_functions(self):
        header = """
            /* ncclOld() was here; */  // and ncclOlder()
            typedef struct ncclComm* ncclComm_t;
            ncclResult_t  ncclSend(const void* p,
                                   ncclComm_t comm);
            ncclResult_t pncclSend(const void* p, ncclComm_t comm);
            void  ncclResetDebugInit ();
            #define NCCL_VERSION(X,Y,Z) ((X) + (Y))
        """
        self.assertEqual(
            api_table.names_in_header(header), {"ncclSend", "ncclResetDebugInit"}
        )


if __name__ == "__main__":
    unittest.main(verbosity=2)
