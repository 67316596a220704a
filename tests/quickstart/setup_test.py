"""How tools/setup.sh has ./quickstart configure the CUDA codec."""

import os
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BROKEN_DRIVER = "echo NVIDIA-SMI has failed because it could not reach the NVIDIA driver; exit 9"

# Whatever ./run-tests has left in the build folder: its times are shown.
OPTIMISED = "-DCINCH_CUDA_OPTIMISE=ON"


class CudaSettingsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def settings(self, nvidia_smi):
        """Of a machine whose nvidia-smi does what is given."""
        program = os.path.join(self.folder, "nvidia-smi")
        with open(program, "w") as file:
            file.write(f"#!/bin/sh\n{nvidia_smi}\n")
        os.chmod(program, 0o755)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", '. tools/setup.sh; cuda_settings "$0"', self.folder],
            cwd=ROOT,
            env=os.environ | {"PATH": f"{self.folder}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.splitlines()

    def test_compiles_for_the_gpus_of_this_machine_alone(self):
        self.assertEqual(
            self.settings("echo 9.0; echo 12.0; echo 9.0"),
            [OPTIMISED, "-DCINCH_CUDA=auto", "-DCINCH_CUDA_ARCHITECTURES=120-real;90-real"],
        )

    def test_compiles_nothing_for_cuda_without_a_gpu_that_the_codec_runs_on(self):
        for nvidia_smi in ("exit 6", BROKEN_DRIVER, "echo 7.0", "echo '[N/A]'"):
            self.assertEqual(self.settings(nvidia_smi), [OPTIMISED, "-DCINCH_CUDA=off"], nvidia_smi)

    def test_a_build_folder_that_has_the_codec_keeps_its_architectures(self):
        with open(os.path.join(self.folder, "CMakeCache.txt"), "w") as file:
            file.write("CINCH_CUDA:STRING=auto\nCINCH_CUDA_ARCHITECTURES:STRING=75-real;120\n")
        self.assertEqual(self.settings("echo 9.0"), [OPTIMISED])
        self.assertEqual(self.settings("exit 6"), [OPTIMISED])

    def test_a_build_folder_without_the_codec_gets_it_with_a_gpu(self):
        with open(os.path.join(self.folder, "CMakeCache.txt"), "w") as file:
            file.write("CINCH_CUDA:STRING=off\n")
        self.assertEqual(
            self.settings("echo 8.6"),
            [OPTIMISED, "-DCINCH_CUDA=auto", "-DCINCH_CUDA_ARCHITECTURES=86-real"],
        )


if __name__ == "__main__":
    unittest.main(verbosity=2)
