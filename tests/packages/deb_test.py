"""The Debian packages, in a root of their own: deb_test.py BUILD_FOLDER [unittest arguments]"""

import os
import re
import shutil

from installation import PackageTest, files_under, main, run

NAMES = ("libcinch", "cinch-tools")


class DebTest(PackageTest):
    def setUp(self):
        super().setUp()
        for command, package in (("dpkg-shlibdeps", "dpkg-dev"), ("file", "file")):
            if not shutil.which(command):
                self.skipTest(f"{command} is not installed (package {package})")
        self.packages = [path for path in self.pack("DEB") if path.endswith(".deb")]
        self.root = os.path.join(self.folder, "root")

    def depends(self, package):
        (path,) = [p for p in self.packages if os.path.basename(p).startswith(f"{package}_")]
        return run("dpkg-deb", "--field", path, "Depends")

    def test_a_pair_that_asks_for_what_it_needs(self):
        self.assertEqual(len(self.packages), 2)
        self.assertRegex(self.depends("cinch-tools"), r"libcinch \(= [0-9.]+\)")
        for name in NAMES:
            self.assertRegex(self.depends(name), r"libc6 \(>= 2\.\d+\)")
        self.assertNotIn("libfmt", self.depends("cinch-tools"))

    def test_runs_and_leaves_nothing(self):
        self.install()
        self.check_quick_job([f"{self.root}/usr/bin/cinch"], f"{self.root}/usr")
        self.check_binaries(f"{self.root}/usr")
        listed = set(re.findall(r"^/(.+)$", self.dpkg("--listfiles", *NAMES), re.M))
        self.assertTrue(files_under(f"{self.root}/usr") <= {n.removeprefix("usr/") for n in listed})
        self.dpkg("--purge", *reversed(NAMES))
        self.assertFalse(os.path.exists(f"{self.root}/usr"))

    def install(self):
        """Into a root that has the packages and no others."""
        os.makedirs(f"{self.root}/var/lib/dpkg/info")
        os.makedirs(f"{self.root}/var/lib/dpkg/updates")
        open(f"{self.root}/var/lib/dpkg/status", "w", encoding="utf-8").close()
        self.dpkg("--force-depends", "--install", *self.packages)

    def dpkg(self, *arguments):
        """Without a root's rights dpkg writes into a folder of its own all the same."""
        return run("dpkg", "--force-not-root", "--force-script-chrootless", "--root", self.root,
                   f"--log={self.folder}/log", *arguments)


if __name__ == "__main__":
    main()
