"""What `cmake --install` leaves: tree_test.py BUILD_FOLDER [unittest arguments]"""

import os

from installation import PackageTest, files_under, main, run

PROJECT = """cmake_minimum_required(VERSION 3.24)
project(user LANGUAGES NONE)
find_package(Cinch 0.1 REQUIRED)
message(STATUS "preload=${Cinch_PRELOAD}")
get_target_property(location Cinch::cinch LOCATION)
message(STATUS "target=${location}")
"""


class TreeTest(PackageTest):
    def setUp(self):
        super().setUp()
        self.prefix = os.path.join(self.folder, "opt")
        run("cmake", "--install", self.BUILD, "--prefix", self.prefix, "--strip")

    def test_runs_the_quick_job(self):
        self.check_quick_job([f"{self.prefix}/bin/cinch"], self.prefix)

    def test_no_file_knows_where_it_was_built(self):
        self.check_binaries(self.prefix)

    def test_checks_of_binaries_can_fail(self):
        with open(f"{self.prefix}/lib/note", "w", encoding="utf-8") as file:
            file.write(f"built in {os.path.realpath(self.BUILD)}/lib")
        with self.assertRaisesRegex(AssertionError, "lib/note holds"):
            self.check_binaries(self.prefix)

    def test_find_package(self):
        project = os.path.join(self.folder, "user")
        os.mkdir(project)
        with open(f"{project}/CMakeLists.txt", "w", encoding="utf-8") as file:
            file.write(PROJECT)
        output = run("cmake", "-S", project, "-B", f"{project}/build",
                     f"-DCMAKE_PREFIX_PATH={self.prefix}")
        for name in ("preload", "target"):
            self.assertIn(f"{name}={self.prefix}/lib/libcinch.so", output)

    def test_pkg_config(self):
        try:
            found = run("pkg-config", "--variable=preload", "cinch",
                        PKG_CONFIG_PATH=f"{self.prefix}/lib/pkgconfig")
        except FileNotFoundError:
            self.skipTest("pkg-config is not installed")
        self.assertTrue(os.path.samefile(found.strip(), f"{self.prefix}/lib/libcinch.so"))

    def test_train_lm_finds_the_emulator(self):
        program = f"{self.prefix}/lib/cinch/emulator/train_lm"
        if not os.path.exists(program):
            self.skipTest("train_lm is not built")
        libraries = run("ldd", program)
        self.assertIn(f"{self.prefix}/lib/cinch/emulator/libnccl.so.2", libraries)
        self.assertNotIn("not found", libraries)
        text = os.path.join(self.folder, "text")
        with open(text, "w", encoding="utf-8") as file:
            file.write("the quick brown fox jumps over the lazy dog\n" * 2000)
        run(f"{self.prefix}/bin/cinch", "run", "--", program, "--rank", 0, "--ranks", 1, "--steps",
            2, "--text", text, HOME=self.folder)

    def test_the_manifest_removes_everything(self):
        run("cmake", "-E", "rm", *(f"{self.prefix}/{name}" for name in self.manifest()))
        self.assertEqual(files_under(self.prefix), set())

    def manifest(self):
        with open(f"{self.BUILD}/install_manifest.txt", encoding="utf-8") as file:
            return [os.path.relpath(line, self.prefix) for line in file.read().split("\n") if line]


if __name__ == "__main__":
    main()
