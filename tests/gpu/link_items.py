"""What Cinch gains over links of given rates under real NCCL, several ranks on one GPU, each in a network namespace of
its own: AllReduce against plain NCCL, and training steps against PyTorch's own compression. Each a function from a
Context to an Outcome. A gain that is too small is told, a wrong sum is a failure."""

import dataclasses
import json
import os
import statistics
import sys
import tempfile

import check_items
import gpu_machine
from check_support import Failure, Outcome, Skip, run, tail
from job_items import lacks

BENCH = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench"))
sys.path.insert(0, BENCH)
from collectives import Bench, Sweep  # noqa: E402
from lab import rate  # noqa: E402
from lab.job import JobFailed  # noqa: E402
from lab.network import Loopback, NetworkError, open_network  # noqa: E402
from schedule.heat import size_text  # noqa: E402

# By how much Cinch may be slower than plain NCCL.
MOST = 1.05
TYPES = {"fp32": ("float", 4), "bf16": ("bfloat16", 2)}
# Nothing set, but for a program that makes one call over and over; `cinch bench` would compress at any price.
SETTINGS = {"CINCH_SLOTS": "signature", "CINCH_WHEN": "auto"}
TRAIN_SECONDS = 590
VARIANTS = "plain,bf16,powersgd,cinch"


@dataclasses.dataclass(frozen=True)
class Calls:
    """How many of them, of a size."""
    timed: int
    warm: int


# Up to so many bytes calls are short, and many are timed: a link lets some through at once, and Cinch's trials have
# plain ones among them. More would not do, as what is in place grows from call to call. Before them Cinch learns what
# is fastest; where that is close, it takes many calls.
SHORT = 4 << 20
PLAIN = {"short": Calls(40, 5), "long": Calls(3, 1)}
CINCH = {"short": Calls(40, 70), "long": Calls(11, 24)}


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is measured of the AllReduce over a link."""
    link: str
    ranks: int
    rounds: int
    smallest: int = 64 << 10  # bytes
    largest: int = 256 << 20
    nccl: tuple = ()

    def sweeps(self, value_bytes, calls):
        """The halves in place: the calls out of place come before, in which Cinch learns, too."""
        cut = min(SHORT, self.largest)
        sizes = [(self.smallest, cut, calls["short"]), (4 * cut, self.largest, calls["long"])]
        return [Sweep(smallest // value_bytes, largest // value_bytes, 4, each.timed, each.warm, "in_place")
                for smallest, largest, each in sizes if smallest <= largest]


# --- judges: pure -----------------------------------------------------------------------------------------

def compare(value_bytes, rounds):
    """By bytes, from each round's (plain, cinch) rows: effective bandwidths, and the median ratio of the times."""
    sizes = {}
    for values in rounds[0][0]:
        pairs = [(plain[values], cinch[values]) for plain, cinch in rounds]
        sizes[values * value_bytes] = {
            "plain_gb_per_s": statistics.median(plain["alg_bw"] for plain, _ in pairs),
            "cinch_gb_per_s": statistics.median(cinch["alg_bw"] for _, cinch in pairs),
            "times": round(statistics.median(cinch["time_us"] / plain["time_us"] for plain, cinch in pairs), 3),
            "path": pairs[-1][1]["path"],
        }
    return sizes


def gain_note(figures):
    """How many times plain NCCL's bandwidth there is at the largest size of each type, and where less than plain's."""
    gains = ", ".join(f"{kind} {1 / rows[max(rows)]['times']:.2f} x at {size_text(max(rows))}"
                      for kind, rows in figures.items())
    slower = [f"{kind} {size_text(size)}: {row['times']:.2f}" for kind, rows in figures.items()
              for size, row in rows.items() if not row["times"] <= MOST]
    return gains + (f"; takes longer than plain NCCL: {', '.join(slower)}" if slower else "; nowhere slower")


def step_note(rows):
    return ", ".join(f"{name} {row['step_ms']:.0f} ms" for name, row in rows.items())


# --- runs -------------------------------------------------------------------------------------------------

def sweep(bench, name, codec, plans):
    rows = {}
    for plan in plans:
        rows |= bench.sweep(name, codec, plan)
    return rows


def measure_round(bench, name, value_bytes, plan):
    """(plain, cinch) rows"""
    plain = sweep(bench, name, None, plan.sweeps(value_bytes, PLAIN))
    cinch = sweep(bench, name, "auto", plan.sweeps(value_bytes, CINCH))
    for values, row in plain.items():
        print(f"  {plan.link}, {plan.ranks} ranks, {name}, {size_text(values * value_bytes)}: "
              f"{row['time_us']:.0f} us, {cinch[values]['time_us']:.0f} {cinch[values]['path']}", flush=True)
    return plain, cinch


def measure(bench, plan):
    """{type: {bytes: figures}}"""
    rounds = {kind: [] for kind in TYPES}
    for _ in range(plan.rounds):
        for kind, (name, value_bytes) in TYPES.items():
            rounds[kind].append(measure_round(bench, name, value_bytes, plan))
    return {kind: compare(TYPES[kind][1], each) for kind, each in rounds.items()}


def collectives(context, plan):
    context.library("cinch", "libcinch.so")
    context.program("cinch_tool")
    links = open_network(plan.ranks, plan.link, rate.bits_per_second(plan.link))
    if isinstance(links, Loopback):
        raise Skip(f"links need root, and ip and tc of iproute2 in PATH: {links.reason}")
    try:
        with links:
            bench = Bench(context.build, links, plan.nccl, context.mps.environment, SETTINGS)
            figures, where = measure(bench, plan), links.describe()
    except (NetworkError, JobFailed) as failure:
        raise Failure(tail(str(failure))) from None
    return Outcome("pass", gain_note(figures) + check_items.time_slicing(context), {"network": where, **figures})


def collectives_item(link, ranks, rounds):
    def item(context):
        plan = Plan(link, ranks, min(rounds, context.rounds), nccl=tuple(gpu_machine.nccl_flags()))
        return collectives(context, plan)
    return item


def rows_of(path):
    """Of the variants that came to their ends."""
    for each in (path, path + ".partial"):
        if os.path.exists(each):
            with open(each, encoding="utf-8") as file:
                return json.load(file)["variants"]
    return {}


def training_item(model, link, steps):
    """bench/train/compare.py, which looks at ranks' parameters, and at whether Cinch compressed anything."""
    def item(context):
        if lacks("torch"):
            raise Skip(lacks("torch"))
        context.library("cinch", "libcinch.so")
        cinch = os.path.join(os.path.dirname(context.program("cinch_tool")), "cinch")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "all.json")
            command = [sys.executable, "-B", os.path.join(BENCH, "train", "compare.py"), model, "--link", link,
                       "--steps", str(steps), "--rounds", "1", "--variants", VARIANTS, "--cinch", cinch,
                       "--json", path, "--logs", folder]
            try:
                status, output = run(command, TRAIN_SECONDS, **context.mps.environment)
            except Failure as failure:
                status, output = None, str(failure)
            rows = rows_of(path)
        if "network namespaces are not available" in output:
            raise Skip(tail(output, 2))
        note = f"a step: {step_note(rows)}"
        if status != 0:
            return Outcome("fail", tail(output) + (f"; {note}" if rows else ""), rows)
        return Outcome("pass", note, rows)
    return item


# At 1 Gbit/s a call of 256 MiB takes seconds, which the link decides alone, and a step of the GPT four.
LINKS = {"1gbit": {"rounds": 1, "steps": {"resnet50": 40, "gpt": 16}},
         "10gbit": {"rounds": 3, "steps": {"resnet50": 100, "gpt": 100}},
         "25gbit": {"rounds": 3, "steps": {"resnet50": 100, "gpt": 100}}}
ITEMS = tuple((f"{link}, {ranks} ranks, AllReduce", collectives_item(link, ranks, each["rounds"]))
              for link, each in LINKS.items() for ranks in (2, 4))
ITEMS += tuple((f"{link}, 2 ranks, {model}", training_item(model, link, steps))
               for link, each in LINKS.items() for model, steps in each["steps"].items())
