"""Every corner of NCCL's calling surface (tests/multiproc/surface) on NCCL itself, under Cinch: the emulator's program finds
NCCL and CUDA's runtime where the machine has them. What fails without Cinch, too, says nothing about it: some cases need
a newer NCCL, or a GPU for each rank."""

import concurrent.futures
import importlib.util
import os
import sys
import tempfile

import gpu_machine
import running
from check_support import Failure, Outcome, Skip, run, tail

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "multiproc", "surface")
sys.path.insert(0, FOLDER)
import surface_test  # noqa: E402

AT_ONCE = 8  # on one GPU; most of a case's time goes into making communicators
LEFT_OUT = ("default", "large")  # those of one step, and of 14 GB
# Where kernels that load late have to be seen: a sum waits behind a receive of another communicator.
LOADING = ("communicator-sum-beside-a-receive",)


def runtime_folder():
    """Of libcudart.so as a Python package has it; empty leaves it to the loader."""
    for package, folder in (("nvidia.cu13", "lib"), ("nvidia.cuda_runtime", "lib")):
        try:
            spec = importlib.util.find_spec(package)
        except ModuleNotFoundError:
            continue
        for base in (spec.submodule_search_locations if spec else None) or ():
            if os.path.isdir(os.path.join(base, folder)):
                return os.path.join(base, folder)
    return ""


def library_path():
    nccl = gpu_machine.nccl_home()
    folders = [os.path.join(nccl, "lib") if nccl else "", runtime_folder(), os.environ.get("LD_LIBRARY_PATH", "")]
    return os.pathsep.join(folder for folder in folders if folder)


def fault_of(outcomes):
    """What is wrong with a case's ranks; empty where nothing is."""
    for rank, outcome in enumerate(outcomes):
        if outcome.status is None:
            return f"rank {rank} hung"
        if outcome.status != 0 or not outcome.output.endswith("done\n"):
            return f"rank {rank} ended with {outcome.status}: {tail(outcome.output, 2)}"
    sums = {}
    for outcome in outcomes:
        for label, value in outcome.lines("same"):
            if sums.setdefault(label, value) != value:
                return f"{label} differs among the ranks"
    return ""


class Cases:
    def __init__(self, context, **settings):
        self.program = context.program("surface_rank", "tests")
        self.preload = context.library("cinch", "libcinch.so")
        self.settings = {**context.mps.environment, "LD_LIBRARY_PATH": library_path(), **settings}

    def named(self, wanted):
        status, output = run([self.program, "--list"], 20, **self.settings)
        if status != 0:
            raise Skip(f"the program does not run with this NCCL: {tail(output, 2)}")
        found = [line.split() for line in output.splitlines()]
        return [(case, int(ranks)) for case, ranks in found if not case.startswith(LEFT_OUT) and wanted(case)]

    def launch(self, case, ranks, preload):
        settings = {**surface_test.environment_of(case), **self.settings}
        with tempfile.TemporaryDirectory() as folder:
            outcomes = surface_test.launch(self.program, case, ranks, folder, preload, settings,
                                           running.current().left(surface_test.DEADLINE))
            with running.current().log_file(case) as log:
                log.write("".join(f"rank {rank}:\n{outcome.output}" for rank, outcome in enumerate(outcomes)))
        return fault_of(outcomes)

    def check(self, case, ranks):
        """("pass", ""), ("fail", why) or ("skip", why)."""
        try:
            fault = self.launch(case, ranks, self.preload)
            if not fault:
                return "pass", ""
            alone = self.launch(case, ranks, "")
            return ("skip", f"without Cinch: {alone}") if alone else ("fail", fault)
        except running.OutOfTime as late:
            return "skip", str(late)


def surface(context, wanted, **settings):
    cases = Cases(context, **settings)
    named = cases.named(wanted)
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        check = running.in_this_item(lambda named: cases.check(*named))
        outcomes = dict(zip((case for case, _ in named), pool.map(check, named)))
    failed = {case: why for case, (state, why) in outcomes.items() if state == "fail"}
    skipped = {case: why for case, (state, why) in outcomes.items() if state == "skip"}
    if failed:
        raise Failure(f"{len(failed)} of {len(outcomes)}: " + "; ".join(f"{case}: {why}" for case, why in failed.items()))
    if len(skipped) == len(outcomes):
        raise Skip(next(iter(skipped.values()), "there are no such cases"))
    return Outcome("pass", f"{len(outcomes) - len(skipped)} cases" + f", {len(skipped)} not here" * bool(skipped),
                   {"passed": len(outcomes) - len(skipped), "skipped": skipped})


def lazily(context):
    return surface(context, lambda case: True, CUDA_MODULE_LOADING="LAZY")


def eagerly(context):
    return surface(context, lambda case: case in LOADING, CUDA_MODULE_LOADING="EAGER")


ITEMS = (
    ("surface, lazy loading", lazily),
    ("surface, eager loading", eagerly),
)
