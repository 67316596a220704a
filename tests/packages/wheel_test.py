"""The wheel, in an environment with nothing else: wheel_test.py BUILD_FOLDER [unittest arguments]"""

import glob
import os
import re
import sys

from installation import PackageTest, ROOT, files_under, main, run

sys.path.insert(0, os.path.join(ROOT, "packaging", "wheel"))
import make_wheel  # noqa: E402


class WheelTest(PackageTest):
    def setUp(self):
        super().setUp()
        self.wheel = make_wheel.make_wheel(self.BUILD, f"{self.folder}/wheel")
        self.environment = os.path.join(self.folder, "environment")
        run(sys.executable, "-m", "venv", self.environment, HOME=self.folder)
        self.python = f"{self.environment}/bin/python"
        self.before = self.files()

    def files(self):
        """Of the environment, without what Python compiles on its own."""
        return {n for n in files_under(self.environment) if "__pycache__" not in n}

    def pip(self, *arguments):
        run(self.python, "-m", "pip", "--isolated", "--disable-pip-version-check", *arguments,
            HOME=self.folder)

    def test_runs_and_leaves_nothing(self):
        self.pip("install", "--no-index", self.wheel)
        (home,) = glob.glob(f"{self.environment}/lib/python3*/site-packages/cinch")
        self.check_quick_job([f"{self.environment}/bin/cinch"], home)
        self.check_quick_job([self.python, "-m", "cinch"], home)
        self.check_binaries(home)
        preload = run(self.python, "-c", "import cinch; print(cinch.PRELOAD)").strip()
        self.assertTrue(os.path.samefile(preload, f"{home}/lib/libcinch.so"))
        name = os.path.basename(self.wheel).split("-")[0]
        self.pip("uninstall", "--yes", name)
        self.assertEqual(self.files(), self.before)

    def test_the_tag_is_what_the_binaries_need(self):
        tag = re.search(r"-py3-none-manylinux_(\d+)_(\d+)_\w+\.whl$", self.wheel)
        binaries = [f"{self.BUILD}/bin/cinch", *glob.glob(f"{self.BUILD}/lib/*.so")]
        self.assertGreaterEqual(tuple(map(int, tag.groups())), make_wheel.oldest_glibc(binaries))
        self.assertEqual(make_wheel.oldest_glibc([]), make_wheel.OLDEST_GLIBC)

    def test_what_no_platform_has_is_named(self):
        self.assertEqual(make_wheel.missing_libraries([f"{self.BUILD}/bin/cinch"]), [])
        program = f"{self.BUILD}/bin/train_lm"
        if os.path.exists(program):
            self.assertIn("libopenblas.so.0", make_wheel.missing_libraries([program]))


if __name__ == "__main__":
    main()
