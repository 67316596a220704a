"""One rank of one of PyTorch's own distributed tests, in a process forked for it.

PyTorch's test spawns its ranks and each imports everything again, 8 to 10 s a test. Here they are forked
from a parent that has imported it: `load` is for the parent, `run` for the rank.
"""
import contextlib
import logging
import multiprocessing
import os
import tempfile
from dataclasses import dataclass
from unittest import mock

WORLD_SIZE = 2
MODULES = ("torch.testing._internal.distributed.distributed_test",)


@dataclass
class RankResult:
    """`code` is what the rank's process would have ended with, `message` a traceback or a reason."""

    code: int
    message: str


def prepare_environment(implementation, folder):
    """What the emulator, torch.distributed and the test module read once: before any of them is used."""
    os.environ.update(
        CINCH_EMULATOR_DEVICES=str(WORLD_SIZE), BACKEND="nccl", WORLD_SIZE=str(WORLD_SIZE), TEMP_DIR=folder,
        INIT_METHOD=f"file://{folder}/init", TORCH_DIST_USE_NCCL2="0" if implementation == "old" else "1")


@contextlib.contextmanager
def devices_without_cuda_calls():
    """The modules ask for devices when they are imported, and who has asked CUDA cannot be forked."""
    import torch
    with mock.patch.object(torch.cuda, "is_available", lambda: True), \
         mock.patch.object(torch.cuda, "device_count", lambda: WORLD_SIZE):
        yield


def load(import_early):
    """Imports what the tests need; returns their class."""
    with devices_without_cuda_calls():
        import_early(MODULES)
    from torch.testing._internal.distributed import distributed_test

    class Tests(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
        pass

    return Tests


def new_folder():
    """A folder with the files by which the ranks of a test find and await each other. PyTorch's modules
    keep its name in the environment, which the ranks inherit."""
    folder = tempfile.TemporaryDirectory()
    for name in ("barrier", "test_dir", "init_dir"):
        os.mkdir(os.path.join(folder.name, name))
    os.environ["TEMP_DIR"] = folder.name
    os.environ["INIT_METHOD"] = f"file://{folder.name}/init_dir/shared_init_file"
    return folder


class _Reasons(logging.Handler):
    """Collects why tests skip themselves: PyTorch only logs it."""

    def __init__(self):
        super().__init__(logging.INFO)
        self.found = []

    def emit(self, record):
        if "skipping test" in str(record.msg):
            self.found.append(str(record.args[-1]))


def run(tests, name, folder, rank):
    """Runs a test's part of `rank` as a spawned process would."""
    # No torchrun starts these tests: they take the device whose number is the rank's, and the new back end
    # would take LOCAL_RANK's.
    os.environ.pop("LOCAL_RANK", None)
    reasons = _Reasons()
    logging.getLogger("torch.testing._internal.common_distributed").addHandler(reasons)
    messages, pipe = multiprocessing.Pipe()
    try:
        tests._run(rank, name, os.path.join(folder, "rendezvous"), pipe)
        code = 0
    except SystemExit as end:
        code = end.code or 0
    message = ""
    if messages.poll(0):
        with contextlib.suppress(EOFError):
            message = messages.recv()
    return RankResult(code, message or "; ".join(reasons.found))
