"""What the checks of released wheels are made of, on inputs whose answer is known; no index is
needed."""

import contextlib
import io
import os
import re
import subprocess
import tempfile
import unittest
import zipfile
from unittest import mock

import binding
import elf
import loader_log
import nccl_releases
import package_index
import api_table  # after binding, which knows where


class ParsingTest(unittest.TestCase):
    def test_dynamic_section(self):
        text = """
 0x0000000000000001 (NEEDED)             Shared library: [libnccl.so.2]
 0x0000000000000001 (NEEDED)             Shared library: [libc.so.6]
 0x000000000000000e (SONAME)             Library soname: [libtorch_cuda.so]
 0x000000000000000f (RPATH)              Library rpath: [$ORIGIN/../nccl/lib:$ORIGIN]
 0x000000006ffffffb (FLAGS_1)            Flags: NOW
"""
        self.assertEqual(
            elf.parse_dynamic(text),
            {
                "needed": ["libnccl.so.2", "libc.so.6"],
                "rpath": "$ORIGIN/../nccl/lib:$ORIGIN",
                "runpath": "",
                "bind_now": True,
            },
        )

    def test_lazy_binding_is_not_taken_for_bind_now(self):
        text = "(FLAGS) ORIGIN\n(FLAGS_1) Flags: NODELETE ORIGIN\n(RUNPATH) Library runpath: [/x]\n"
        self.assertFalse(elf.parse_dynamic(text)["bind_now"])
        self.assertEqual(elf.parse_dynamic(text)["runpath"], "/x")
        self.assertTrue(elf.parse_dynamic("(FLAGS)   BIND_NOW\n")["bind_now"])

    def test_names_of_nm(self):
        text = "0000000000001139 W ncclSend\n0000000000001139 T pncclSend\n  U dlsym@GLIBC_2.2.5\n"
        self.assertEqual(
            elf.parse_names(text), {"ncclSend": "W", "pncclSend": "T", "dlsym": "U"}
        )

    def test_local_functions(self):
        text = """
721227: 0000000015cb1030     0 FUNC    LOCAL  DEFAULT   15 ncclGetUniqueId
721228: 0000000015cb1031   0x1 FUNC    GLOBAL DEFAULT   15 GetPjrtApi
721229: 0000000015cb1032     0 OBJECT  LOCAL  DEFAULT   15 ncclTable
    50: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND dlsym@GLIBC_2.2.5 (15)
"""
        self.assertEqual(elf.parse_local_functions(text), {"ncclGetUniqueId": 0x15CB1030})

    def test_a_real_library(self):
        with tempfile.TemporaryDirectory() as folder:
            source, library = os.path.join(folder, "x.c"), os.path.join(folder, "libx.so")
            with open(source, "w") as file:
                file.write("int getpid(void); static int f(void) { return getpid(); }")
                file.write("int (*ncclX(void))(void) { return f; }")
            subprocess.run(["cc", "-O0", "-shared", "-fPIC", source, "-o", library], check=True)
            self.assertEqual(elf.exported(library)["ncclX"], "T")
            self.assertIn("getpid", elf.undefined(library))
            self.assertIn("libc.so.6", elf.dynamic(library)["needed"])
            self.assertIn("f", elf.local_functions(library))

    def test_bindings_of_the_loader(self):
        lines = [
            " 43:\tbinding file /a/libtorch_cuda.so [0] to /b/libcinch.so [0]: "
            "normal symbol `ncclSend'",
            " 43:\tbinding file /a/libnccl.so.2 [0] to /a/libnccl.so.2 [0]: "
            "normal symbol `pncclRecv' [V1]",
            " 43:\tbinding file /a/libc.so.6 [0] to /a/libc.so.6 [0]: normal symbol `free'",
            " 43:\tsymbol=ncclSend;  lookup in file=/b/libcinch.so [0]",
        ]
        self.assertEqual(
            loader_log.nccl_bindings(lines),
            {
                loader_log.Binding("libtorch_cuda.so", "ncclSend", "libcinch.so"),
                loader_log.Binding("libnccl.so.2", "pncclRecv", "libnccl.so.2"),
            },
        )


class VerdictTest(unittest.TestCase):
    def test_each_name_leads_to_its_library(self):
        files = {"ncclSend": "/x/libcinch.so", "ncclGetVersion": "/y/libnccl.so.2"}
        self.assertEqual(binding.misdirected(files, {"ncclSend"}), [])
        self.assertEqual(len(binding.misdirected(files, {"ncclGetVersion"})), 2)
        self.assertEqual(len(binding.misdirected({"ncclSend": "-"}, {"ncclSend"})), 1)

    def test_exit_status_and_last_line(self):
        def unavailable(build):
            raise package_index.Unavailable("no index")

        for check, status, last in (
            (lambda build: ({"a": 1}, []), 0, '{"a": 1}'),
            (lambda build: ({"a": 1}, ["wrong"]), 1, '{"a": 1}'),
            (unavailable, binding.SKIPPED, "skipped: no index"),
        ):
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                self.assertEqual(binding.report(check, "build"), status)
            self.assertEqual(output.getvalue().splitlines()[-1], last)

    def test_names_of_a_release_are_those_of_the_table(self):
        table = [
            api_table.Function("ncclSend", (2, 18, 1), "observe", ""),
            api_table.Function("ncclNew", (2, 28, 7), "untouched", ""),
        ]
        both = {"ncclSend": "W", "pncclSend": "T", "ncclNew": "W", "pncclNew": "T"}

        def problems(version, names, exported=both):
            return nccl_releases.names_problems(version, names, exported, table)

        self.assertEqual(problems("2.28.3", {"ncclSend"}), [])
        self.assertEqual(problems("2.28.7.post1", {"ncclSend", "ncclNew"}), [])
        self.assertRegex(problems("2.28.3", {"ncclSend", "ncclNew"})[0], "ncclNew is not in the")
        self.assertRegex(problems("2.28.7", {"ncclSend"})[0], "ncclNew is in the table, not")
        self.assertEqual(len(problems("2.28.3", {"ncclSend"}, {"ncclSend": "W"})), 1)
        self.assertEqual(len(problems("2.28.3", {"ncclSend"}, both | {"ncclSend": "T"})), 1)

    def test_the_drop_in_library_needs_what_has_a_twin(self):
        exported = {"ncclA": "W", "pncclA": "T", "ncclInternal": "T"}
        self.assertEqual(nccl_releases.drop_in_problems(exported, {"ncclA"}), [])
        self.assertEqual(len(nccl_releases.drop_in_problems(exported, set())), 1)

    def test_a_program_must_not_notice_the_preload(self):
        found = (21801, 0, {"ncclSend": "/x/libcinch.so"})
        self.assertEqual(nccl_releases.probe_problems(found, found, "2.18.1", {"ncclSend"}), [])
        other = (22809, 2, {"ncclSend": "-"})
        self.assertEqual(
            len(nccl_releases.probe_problems(found, other, "2.18.1", {"ncclSend"})), 3
        )


# An nccl.h with little in it; each pair is a fact and a lie about it.
HEADER = """
#include <cuda_runtime.h>
#define NCCL_MAJOR 2
#define NCCL_VERSION_CODE 21801
#define NCCL_UNIQUE_ID_BYTES 128
#define NCCL_CONFIG_UNDEF_INT INT_MIN
typedef struct ncclComm* ncclComm_t;
typedef struct { char internal[NCCL_UNIQUE_ID_BYTES]; } ncclUniqueId;
typedef enum { ncclSuccess = 0, ncclInProgress = 7 } ncclResult_t;
typedef enum { ncclFloat32 = 7, ncclNumTypes = 9 } ncclDataType_t;
typedef enum { ncclSum = 0, ncclMaxRedOp = 0x7fffffff } ncclRedOp_t;
typedef struct {
  size_t size; unsigned int magic; unsigned int version; int blocking;
} ncclConfig_t;
#define NCCL_CONFIG_INITIALIZER {sizeof(ncclConfig_t), 0xcafebeef, NCCL_VERSION_CODE, INT_MIN}
extern "C" ncclResult_t ncclSend(const void* buffer, size_t count, ncclDataType_t type, int peer,
                                 ncclComm_t comm, cudaStream_t stream);
extern "C" ncclResult_t ncclGroupStart();
"""
LIES = (
    ("NCCL_VERSION_CODE 21801", "NCCL_VERSION_CODE 21803", "another release"),
    ("NCCL_UNIQUE_ID_BYTES 128", "NCCL_UNIQUE_ID_BYTES 64", "NCCL_UNIQUE_ID_BYTES"),
    ("ncclInProgress = 7", "ncclInProgress = 8", "ncclInProgress has another value"),
    ("ncclFloat32 = 7", "ncclFloat32 = 6", "ncclFloat32 has another value"),
    ("unsigned int version; int blocking", "int blocking; unsigned int version", "ncclConfig_t"),
    ("0xcafebeef", "0xcafebabe", "initialised"),
    ("size_t count", "int count", "ncclSend has another type"),
    ("ncclGroupStart()", "ncclGroupStart(int)", "ncclGroupStart has another type"),
)


class ReleaseCheckTest(unittest.TestCase):
    def complaints(self, header):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "nccl.h"), "w") as file:
                file.write(header)
            return nccl_releases.compile_problems(folder, "2.18.1")

    def test_accepts_a_release_that_has_less(self):
        self.assertEqual(self.complaints(HEADER), [])

    def test_names_what_differs(self):
        for fact, lie, complaint in LIES:
            with self.subTest(lie=lie):
                self.assertIn(fact, HEADER)
                self.assertIn(complaint, "\n".join(self.complaints(HEADER.replace(fact, lie))))

    def test_compares_every_value_that_we_declare(self):
        with open(os.path.join(binding.ROOT, "common", "nccl_types.h")) as file:
            declared = set(re.findall(r"^  (nccl\w+) = ", file.read(), re.M))
        with open(os.path.join(nccl_releases.ABI, "release_check.cc")) as file:
            compared = set(re.findall(r"SAME_VALUE\((\w+)\)", file.read()))
        self.assertGreater(len(compared), 30)
        self.assertEqual(declared - compared, {"ncclNumResults", "ncclNumTypes"})


class PackageIndexTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.cache = folder.name

    def make_wheel(self):
        path = os.path.join(self.cache, "some_package-1.2-py3-none-any.whl")
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("some/wanted.h", "wanted")
            archive.writestr("some/other.h", "other")
        return path

    def test_what_is_there_is_not_downloaded(self):
        path = self.make_wheel()
        with mock.patch.object(package_index, "run", side_effect=AssertionError):
            self.assertEqual(package_index.wheel(self.cache, "some-package", "1.2"), path)

    def test_unpacks_what_is_wanted_and_leaves_nothing(self):
        path = self.make_wheel()
        with package_index.unpacked(self.cache, path, lambda n: "wanted" in n) as folder:
            self.assertEqual(os.listdir(os.path.join(folder, "some")), ["wanted.h"])
        self.assertEqual(os.listdir(self.cache), [os.path.basename(path)])

    def test_the_last_line_of_a_failure_is_the_reason(self):
        command = ["sh", "-c", "echo first >&2; echo 'no such host' >&2; exit 1"]
        with self.assertRaisesRegex(package_index.Unavailable, "^cannot: no such host$"):
            package_index.run(command, "cannot")

    def test_a_half_made_environment_is_made_again(self):
        home = os.path.join(self.cache, "env")
        os.makedirs(os.path.join(home, "lib", "python3.99", "site-packages"))

        def make(command, what):
            os.makedirs(os.path.join(home, "lib", "python3.11", "site-packages"), exist_ok=True)

        with mock.patch.object(package_index, "run", side_effect=make) as run:
            found = package_index.environment(self.cache, "env", "x==1")
            self.assertEqual(package_index.environment(self.cache, "env", "x==1"), found)
        self.assertEqual(run.call_count, 2)  # the environment and its packages, once
        self.assertIn("python3.11", found)


if __name__ == "__main__":
    unittest.main(verbosity=2)
