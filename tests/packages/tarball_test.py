"""The tarball, unpacked and moved: tarball_test.py BUILD_FOLDER [unittest arguments]"""

import os
import shutil
import tarfile

from installation import PackageTest, main


class TarballTest(PackageTest):
    def test_runs_where_it_was_moved_to(self):
        (tarball,) = [path for path in self.pack("TGZ") if path.endswith(".tar.gz")]
        first, second = os.path.join(self.folder, "first"), os.path.join(self.folder, "second")
        with tarfile.open(tarball) as archive:
            archive.extractall(first)
        (name,) = os.listdir(first)
        self.check_quick_job([f"{first}/{name}/bin/cinch"], f"{first}/{name}")
        shutil.move(f"{first}/{name}", second)
        self.check_quick_job([f"{second}/bin/cinch"], second)
        self.check_binaries(second)


if __name__ == "__main__":
    main()
