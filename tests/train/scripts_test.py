"""The training scripts under a released PyTorch, tiny, on the CPU: with every wrap and every hook
that works there, the loss falls. Skipped as a whole where PyTorch cannot be had.

    scripts_test.py BUILD_DIR [PYTHON]    PYTHON: one that has PyTorch, numpy and Pillow already
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import support

sys.path.insert(0, os.path.join(support.ROOT, "tests", "wheels"))

import binding  # noqa: E402
import package_index  # noqa: E402
import torch_binding  # noqa: E402

DRIVER = os.path.join(support.TRAIN, "compare.py")
STEPS = 60
FALL = {"gpt": 0.75, "resnet50": 0.85}
SMALL = ("--size", "tiny", "--batch", "8", "--device", "cpu", "--steps", str(STEPS))
TIMEOUT = 600
PYTHON, PACKAGES = "", ""


def find_python(build, given=None):
    """(an interpreter with PyTorch, a folder of what is needed beside it)"""
    if given:
        return given, ""
    cache, _ = binding.folders(build)
    name = f"torch-{torch_binding.VERSION}"
    package_index.environment(cache, name, f"torch=={torch_binding.VERSION}")
    beside = package_index.environment(cache, "train", "numpy", "pillow")
    return package_index.python_of(os.path.join(cache, name)), beside


def environment(**more):
    own = dict(os.environ, OMP_NUM_THREADS="1", PYTHONWARNINGS="ignore", PYTHONPATH=PACKAGES)
    return own | {name: str(value) for name, value in more.items()}


def script(name):
    return os.path.join(support.TRAIN, f"{name}.py")


class ScriptsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def run_python(self, *arguments, **more):
        return subprocess.run(
            [PYTHON, "-B", *arguments],
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            env=environment(**more),
        )

    def run_torchrun(self, name, *arguments):
        launch = ("-m", "torch.distributed.run", "--nproc-per-node", "2")
        return self.run_python(*launch, script(name), *arguments)


class ComparisonTest(ScriptsTest):
    def compare(self, name, wrap):
        path = os.path.join(self.folder, "results.json")
        flags = ("--device", "cpu", "--wrap", wrap, "--rounds", "1", "--steps", str(STEPS))
        places = ("--json", path, "--logs", self.folder)
        own = ("--", "--size", "tiny", "--batch", "8")
        done = self.run_python(DRIVER, name, *flags, *places, *own)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        with open(path) as file:
            return json.load(file)["runs"]

    def check(self, name, wrap, wanted):
        runs = {run["variant"]: run["final"] for run in self.compare(name, wrap)}
        self.assertEqual(set(runs), wanted)
        losses = {}
        for variant, final in runs.items():
            first, last = final["checkpoints"][0]["loss"], final["checkpoints"][-1]["loss"]
            losses[variant] = last
            self.assertLess(last, FALL[name] * first, variant)
            self.assertEqual(final["ranks_identical"], True if wrap == "ddp" else None)
        # A hook that does nothing leaves the very same loss.
        self.assertEqual(len(set(losses.values())), len(losses))
        self.assertLess(abs(losses["bf16"] / losses["plain"] - 1), 0.02)

    def test_gpt_ddp(self):
        self.check("gpt", "ddp", {"plain", "bf16", "powersgd"})

    def test_gpt_fsdp2(self):
        self.check("gpt", "fsdp2", {"plain", "bf16"})

    def test_resnet50_ddp(self):
        self.check("resnet50", "ddp", {"plain", "bf16", "powersgd"})

    def test_resnet50_fsdp2(self):
        self.check("resnet50", "fsdp2", {"plain", "bf16"})


class LinesTest(ScriptsTest):
    def test_under_torchrun(self):
        done = self.run_torchrun("gpt", *SMALL, "--every", "20", "--checkpoints", "2")
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([line.get("step") for line in lines], [1, 20, 40, 60, None])
        self.assertTrue(all({"step", "loss", "seconds"} == set(line) for line in lines[:-1]))
        final = lines[-1]
        self.assertEqual([point["step"] for point in final["checkpoints"]], [0, 30, 60])
        self.assertEqual((final["steps"], final["ranks"]), (STEPS, 2))
        self.assertGreater(final["tokens_per_second"], 0)
        self.assertIsNone(final["wire_bytes_per_step"])

    def test_a_seed_says_it_all(self):
        def losses(seed):
            done = self.run_torchrun("resnet50", *SMALL, "--seed", seed)
            final = json.loads(done.stdout.splitlines()[-1])
            return [point["loss"] for point in final["checkpoints"]]

        self.assertEqual(losses("3"), losses("3"))
        self.assertNotEqual(losses("3"), losses("4"))

    def test_images_of_a_folder(self):
        paint = (
            "import sys; from PIL import Image\n"
            "for i in range(160):\n"
            "  shade = (255, 40, 40) if i % 2 else (40, 40, 255)\n"
            "  Image.new('RGB', (48 + i % 7, 40), shade).save(f'{sys.argv[1]}/{i % 2}/{i}.png')\n"
        )
        for label in "01":
            os.makedirs(os.path.join(self.folder, label))
        self.assertEqual(self.run_python("-c", paint, self.folder).returncode, 0)
        done = self.run_torchrun("resnet50", *SMALL, "--images", self.folder)
        final = json.loads(done.stdout.splitlines()[-1])
        self.assertLess(final["checkpoints"][-1]["loss"], 0.5 * final["checkpoints"][0]["loss"])


class FullSizeTest(ScriptsTest):
    def test_parameters(self):
        """Those of GPT-2 small and of ResNet-50."""
        count = (
            "import sys; sys.path.insert(0, sys.argv[1])\n"
            "import gpt, resnet50\n"
            "models = gpt.Gpt(gpt.SHAPES['full']), resnet50.ResNet(resnet50.SHAPES['full'], 1000)\n"
            "print(*(sum(p.numel() for p in model.parameters()) for model in models))\n"
        )
        done = self.run_python("-c", count, support.TRAIN)
        self.assertEqual(done.stdout.split(), ["124439808", "25557032"])


class FailureTest(ScriptsTest):
    def test_what_is_wrong_is_said(self):
        short = os.path.join(self.folder, "short")
        with open(short, "w") as file:
            file.write("too short")
        os.makedirs(os.path.join(self.folder, "none"))
        for name, arguments, why in (
            ("gpt", ("--text", "/nonexistent"), "--text: cannot read /nonexistent"),
            ("gpt", ("--text", short), "is too short"),
            ("resnet50", ("--images", "/nonexistent"), "--images: cannot read /nonexistent"),
            ("resnet50", ("--images", self.folder), "no folders of images"),
        ):
            with self.subTest(arguments=arguments):
                done = self.run_torchrun(name, *SMALL, *arguments)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(why, done.stderr)

    def test_flags_that_do_not_fit(self):
        for arguments, why in (
            (("--wrap", "fsdp2", "--hook", "powersgd"), "a hook of DDP"),
            (("--interface", "nosuch0"), "there is no nosuch0"),
            (("--steps", "0"), "at least 1"),
            ((), "start this script with torchrun"),
        ):
            done = self.run_python(script("gpt"), *arguments)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(why, done.stderr)

    def test_no_gpu(self):
        done = self.run_python(
            script("gpt"),
            **{"RANK": 0, "WORLD_SIZE": 1, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 1},
            CUDA_VISIBLE_DEVICES="",
        )
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "no GPU that PyTorch can use; --device cpu")

    def start_ranks(self, timeout):
        from train.job import free_port

        meeting = {"WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
        flags = ("--size", "tiny", "--device", "cpu", "--steps", "1000000", "--every", "1")
        for rank in range(2):
            process = subprocess.Popen(
                [PYTHON, "-B", script("gpt"), *flags, "--timeout", str(timeout)],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment(RANK=rank, **meeting),
            )
            self.addCleanup(process.stdout.close)
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
            yield process

    def test_a_rank_that_stops_or_dies_ends_the_others(self):
        timeout = 10
        for number in (signal.SIGSTOP, signal.SIGKILL):
            with self.subTest(signal=number.name):
                first, second = self.start_ranks(timeout)
                first.stdout.readline()
                second.send_signal(number)
                started = time.monotonic()
                while first.poll() is None and time.monotonic() - started < 10 * timeout:
                    first.stdout.read1()
                self.assertNotIn(first.poll(), (None, 0))

    def test_a_rank_that_never_comes_ends_the_others(self):
        meeting = {"WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 0}
        started = time.monotonic()
        done = self.run_python(script("gpt"), *SMALL, "--timeout", "5", RANK=0, **meeting)
        self.assertNotEqual(done.returncode, 0)
        self.assertLess(time.monotonic() - started, 120)


if __name__ == "__main__":
    arguments = sys.argv[1:3]
    del sys.argv[1:3]
    try:
        PYTHON, PACKAGES = find_python(*arguments)
    except package_index.Unavailable as reason:
        print(f"skipped: {reason}")
        sys.exit(binding.SKIPPED)
    unittest.main(verbosity=2)
