"""Every corner of NCCL's calling surface (tests/multiproc/surface) on NCCL itself, under Cinch: the emulator's program finds
NCCL and CUDA's runtime where the machine has them. What fails without Cinch, too, says nothing about it: some cases need
a newer NCCL, or a GPU for each rank."""

import concurrent.futures
import glob
import importlib.util
import os
import re
import sys
import tempfile

import gpu_machine
import running
from check_support import Failure, Outcome, Skip, run, tail

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "multiproc", "surface")
sys.path.insert(0, FOLDER)
import surface_test  # noqa: E402

AT_ONCE = 8  # on one GPU; most of a case's time goes into making communicators
CASE_SECONDS = 25
# Those of one step, and of 14 GB; and those that abort, which may take other clients of MPS with them.
LEFT_OUT = re.compile(r"^default|^large|abort")
# Where kernels that load late have to be seen: a sum waits behind a receive of another communicator.
LOADING = ("communicator-sum-beside-a-receive",)


def runtime_folder():
    """Of libcudart.so.13 as a Python package has it; empty leaves it to the loader."""
    for package in ("nvidia.cu13", "nvidia.cuda_runtime"):
        try:
            spec = importlib.util.find_spec(package)
        except ModuleNotFoundError:
            continue
        for base in (spec.submodule_search_locations if spec else None) or ():
            for library in glob.glob(os.path.join(base, "lib", "libcudart.so.13")):
                return os.path.dirname(library)
    return ""


def library_path():
    nccl = gpu_machine.nccl_home()
    folders = [os.path.join(nccl, "lib") if nccl else "", runtime_folder(), os.environ.get("LD_LIBRARY_PATH", "")]
    return os.pathsep.join(folder for folder in folders if folder)


def emulated(program, settings):
    """The libraries that the program would get from the emulator; its run path names that."""
    status, output = run(["ldd", program], 20, **settings)
    return re.findall(r"=> (\S*/emulator/\S+)", output) if status == 0 else ["?"]


class Cases:
    def __init__(self, context, **settings):
        self.program = context.program("surface_rank", "tests")
        self.preload = context.library("cinch", "libcinch.so")
        self.settings = {**context.mps.environment, "LD_LIBRARY_PATH": library_path(), **settings}
        found = emulated(self.program, self.settings)
        if found:
            raise Skip(f"the loader finds no NCCL and CUDA runtime 13 here but {', '.join(found)}: set LD_LIBRARY_PATH")

    def named(self, wanted):
        status, output = run([self.program, "--list"], 20, **self.settings)
        if status != 0:
            raise Skip(f"the program does not run with this NCCL: {tail(output, 2)}")
        found = [line.split() for line in output.splitlines()]
        return [(case, int(ranks)) for case, ranks in found if not LEFT_OUT.search(case) and wanted(case)]

    def launch(self, case, ranks, preload):
        """What is wrong with a run of the case; empty where nothing is."""
        settings = {**surface_test.environment_of(case), **self.settings}
        with tempfile.TemporaryDirectory() as folder:
            outcomes = surface_test.launch(self.program, case, ranks, folder, preload, settings,
                                           running.current().left(CASE_SECONDS))
            with running.current().log_file(case) as log:
                log.write("".join(f"rank {rank}:\n{outcome.output}" for rank, outcome in enumerate(outcomes)))
            fault = fault_of(outcomes)
            if preload and not fault and not surface_test.compresses(case, folder):
                return "nothing was compressed"
        return fault

    def check(self, case, ranks):
        """("pass", ""), ("fail", why) or ("skip", why). A failure is one until a run without Cinch has failed, too, that had
        as much time."""
        try:
            fault = self.launch(case, ranks, self.preload)
        except running.OutOfTime as late:
            return "late", str(late)
        if not fault:
            return "pass", ""
        if not running.current().has(CASE_SECONDS):
            return "fail", f"{fault}; no time was left to see whether it does without Cinch"
        alone = self.launch(case, ranks, "")
        return ("skip", f"without Cinch: {alone}") if alone else ("fail", fault)


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


def judge(outcomes):
    """{case: (state, why)} as an outcome. What had no time to run is no pass of all."""
    of_state = {state: {case: why for case, (found, why) in outcomes.items() if found == state}
                for state in ("pass", "fail", "skip", "late")}
    if of_state["fail"]:
        raise Failure(f"{len(of_state['fail'])} of {len(outcomes)}: "
                      + "; ".join(f"{case}: {why}" for case, why in of_state["fail"].items()))
    if of_state["late"]:
        raise Skip(f"{len(of_state['pass'])} of {len(outcomes)} cases passed, {len(of_state['late'])} had no time left")
    if not of_state["pass"]:
        raise Skip(next(iter(of_state["skip"].values()), "there are no such cases"))
    return Outcome("pass", f"{len(of_state['pass'])} cases, {len(of_state['skip'])} not here",
                   {"passed": len(of_state["pass"]), "skipped": of_state["skip"]})


def surface(context, wanted, **settings):
    cases = Cases(context, **settings)
    named = cases.named(wanted)
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        check = running.in_this_item(lambda case_and_ranks: cases.check(*case_and_ranks))
        return judge(dict(zip((case for case, _ in named), pool.map(check, named))))


def lazily(context):
    return surface(context, lambda case: True, CUDA_MODULE_LOADING="LAZY")


def eagerly(context):
    return surface(context, lambda case: case in LOADING, CUDA_MODULE_LOADING="EAGER")


ITEMS = (
    ("surface, lazy loading", lazily),
    ("surface, eager loading", eagerly),
)
