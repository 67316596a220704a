"""The jobs that run on the emulator, by name, each with what is known about it beforehand."""
import fnmatch
import importlib
import pkgutil
from dataclasses import dataclass, field
from typing import Callable


@dataclass(frozen=True)
class Job:
    name: str
    function: Callable  # function(device) -> Finished, on each rank
    ranks: int = 2
    # Whether all ranks must end with the same parameters, bit for bit.
    replicated: bool = True
    # Why it cannot be compared with the same job on CPU tensors over gloo; empty: it is.
    not_on_gloo: str = ""
    # Whether it has gradients that Cinch ought to compress; else nothing may be compressed.
    compressible: bool = True
    # Why what it sends cannot be told from weights, states or activations, so that gradients may pass, too: a
    # sentence for docs/frameworks.md. Empty: they are told apart.
    indistinct: str = ""
    # Why it is told only after more than truth.KNOWN_BY steps that they are gradients; the same.
    late: str = ""
    # What a call carries where the phase alone does not tell: (call, phase) -> phase.
    truth: Callable | None = None
    # PyTorch's older NCCL back end makes other calls for it, or it stands for those where small ones differ.
    back_ends_differ: bool = False
    # The framework makes the process group.
    makes_group: bool = False
    imports: tuple = ()
    environment: dict = field(default_factory=dict)
    timeout: float = 120
    only_by_name: bool = False  # no * chooses it
    family: str = ""


@dataclass(frozen=True)
class Finished:
    """What a rank's job ends with."""

    loss: float
    losses: list  # of each step
    tensors: list  # its final parameters, or its share of them
    intact: bool = True  # whether what the job itself can check came out right
    figures: dict = field(default_factory=dict)  # of one rank: what else it measured


JOBS = {}

TRAINING = "training"  # a pattern


def job(**facts):
    """Registers the function as the job of its name."""

    def register(function):
        family = function.__module__.rsplit(".", 1)[-1]
        assert function.__name__ not in JOBS, function.__name__
        JOBS[function.__name__] = Job(function.__name__, function, family=family, **facts)
        return function

    return register


def finished(losses, model, intact=True):
    """Of the mean of the last losses, and a module or a list of tensors."""
    losses = [float(loss) for loss in losses]
    last = losses[-5:]
    tensors = model.parameters() if hasattr(model, "parameters") else model
    return Finished(sum(last) / len(last), losses, [tensor.detach() for tensor in tensors], intact)


def load():
    """All jobs. This imports PyTorch, but no framework on top of it: jobs import these themselves."""
    import jobs

    for module in pkgutil.iter_modules(jobs.__path__):
        importlib.import_module(f"jobs.{module.name}")
    return JOBS


def fits(one, pattern):
    if one.only_by_name:
        return pattern in (one.name, one.family)
    return fnmatch.fnmatch(one.name, pattern) or pattern == one.family or (pattern == TRAINING and one.compressible)


def chosen(patterns):
    """The jobs whose name fits one of the patterns, or whose family is one of them; TRAINING: all with gradients."""
    return [one for one in load().values() if any(fits(one, pattern) for pattern in patterns)]
