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
SETTINGS = {"CINCH_SLOTS": "signature", "CINCH_STRATEGY": "auto"}
# Up to so many bytes, more calls: before those that count, and times as many of these, as a trial that falls among
# them has plain ones.
SHORT, MORE_WARM, MORE_TIMED = 4 << 20, 50, 4
TRAIN_SECONDS = 590
VARIANTS = "plain,bf16,powersgd,cinch"


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is measured of the AllReduce over a link."""
    link: str
    ranks: int
    rounds: int
    smallest: int = 64 << 10  # bytes
    largest: int = 256 << 20
    nccl: tuple = ()

    def sweeps(self, value_bytes, timed, warm):
        """The halves in place: the calls out of place come before, in which Cinch learns what is fastest. Where calls
        are short, what is close takes it more of them."""
        cut = min(SHORT, self.largest)
        sizes = [(self.smallest, cut, MORE_TIMED * timed, warm + MORE_WARM), (4 * cut, self.largest, timed, warm)]
        return [Sweep(smallest // value_bytes, largest // value_bytes, 4, counted, before, "in_place")
                for smallest, largest, counted, before in sizes if smallest <= largest]


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
    """How many times plain NCCL's bandwidth there is at the largest size of each type, and where less than plain NCCL's."""
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
    plain = sweep(bench, name, None, plan.sweeps(value_bytes, timed=3, warm=1))
    cinch = sweep(bench, name, "auto", plan.sweeps(value_bytes, timed=5, warm=20))
    for values, row in plain.items():
        print(f"  {plan.link}, {plan.ranks} ranks, {name}, {size_text(values * value_bytes)}: "
              f"{row['time_us']:.0f} us, {cinch[values]['time_us']:.0f} {cinch[values]['path']}", flush=True)
    return plain, cinch


def measure(bench, plan):
    """{type: {bytes: figures}}"""
    return {kind: compare(value_bytes, [measure_round(bench, name, value_bytes, plan) for _ in range(plan.rounds)])
            for kind, (name, value_bytes) in TYPES.items()}


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


def training_item(model, link, steps):
    """bench/train/compare.py, which looks at ranks' parameters, and at whether Cinch compressed anything."""
    def item(context):
        if lacks("torch"):
            raise Skip(lacks("torch"))
        context.library("cinch", "libcinch.so")
        cinch = os.path.join(os.path.dirname(context.program("cinch_tool")), "cinch")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "all.json")
            status, output = run([sys.executable, "-B", os.path.join(BENCH, "train", "compare.py"), model, "--link", link,
                                  "--steps", str(steps), "--rounds", "1", "--variants", VARIANTS, "--cinch", cinch,
                                  "--json", path, "--logs", folder], TRAIN_SECONDS, **context.mps.environment)
            if "network namespaces are not available" in output:
                raise Skip(tail(output, 2))
            if status != 0:
                raise Failure(tail(output))
            with open(path, encoding="utf-8") as file:
                rows = json.load(file)["variants"]
        return Outcome("pass", "a step: " + step_note(rows), rows)
    return item


# At 1 Gbit/s a call of 256 MiB takes seconds, which the link decides alone, and a step of the GPT four.
LINKS = {"1gbit": {"rounds": 1, "steps": {"resnet50": 40, "gpt": 16}},
         "10gbit": {"rounds": 3, "steps": {"resnet50": 100, "gpt": 100}},
         "25gbit": {"rounds": 3, "steps": {"resnet50": 100, "gpt": 100}}}
ITEMS = tuple((f"{link}, {ranks} ranks, AllReduce", collectives_item(link, ranks, each["rounds"]))
              for link, each in LINKS.items() for ranks in (2, 4))
ITEMS += tuple((f"{link}, 2 ranks, {model}", training_item(model, link, steps))
               for link, each in LINKS.items() for model, steps in each["steps"].items())
