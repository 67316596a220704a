"""The checks of the tuner plugin under real NCCL: each a function from a Context to an Outcome."""

import glob
import json
import os
import re
import statistics
import tempfile

import gpu_machine
from check_support import RANKS, Failure, Outcome, run, run_and_listen, tail
from net_items import judge_collectives

RUN_SECONDS = 60
TUNE_SECONDS = 240
ROUNDS = 3
LEAST_LOSS = 0.10  # that counts, of the times of small calls on a GPU that ranks share
SIZES = (8, 8 << 20)
RULES = "allreduce,0,1M,tree,simple,-1,-1,-1\nallreduce,1048577,1G,ring,ll,2,-1,-1\n"
# By size, what NCCL's log must show.
CHOICES = {8: "tree, simple, -1 channels", 8 << 20: "ring, ll, 2 channels"}
SWEEP = ("all_reduce", "--ranks", str(RANKS), "--hosts", str(RANKS), "-b", "1K", "-e", "16M", "-f", "16", "-n", "20")


def plugin_environment(library, folder):
    """The plugin, found as the user's guide says, with rules and cost tables in a folder of the check's."""
    folders = [os.path.dirname(library), os.environ.get("LD_LIBRARY_PATH", "")]
    return {"NCCL_TUNER_PLUGIN": "cinch", "LD_LIBRARY_PATH": os.pathsep.join(filter(None, folders)),
            "CINCH_CACHE_DIR": folder, "NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,TUNING"}


# --- judges: pure -----------------------------------------------------------------------------------------

def judge_log(outputs):
    """Every rank must have read the same rules, and have used each."""
    hashes = [set(re.findall(r"CINCH/TUNER .*rules, hash (\w+)", output)) for output in outputs]
    if any(len(each) != 1 or each != hashes[0] for each in hashes):
        raise Failure(f"the ranks' rules have the hashes {[sorted(each) for each in hashes]}")
    for rank, output in enumerate(outputs):
        for choice in CHOICES.values():
            if not re.search(rf"CINCH/TUNER allreduce of \d+ bytes: {choice} \([^)]*\)\s*$", output, re.MULTILINE):
                raise Failure(f"rank {rank} did not choose {choice}")


def judge_costs(texts):
    """How many times NCCL's cost tables have, of this many ranks."""
    heading = f"cinch-costs,1,{RANKS},{RANKS}"
    rows = [line for text in texts if heading in text.splitlines() for line in text.splitlines()
            if line.startswith("allreduce,")]
    if not rows:
        raise Failure("the plugin kept no cost table")
    return len(rows)


def times_of(results):
    """By size, the mean of out of place and in place."""
    return {row["size"]: (row["out_of_place"]["time_us"] + row["in_place"]["time_us"]) / 2
            for row in results["results"] if row["size"]}


def compare(rounds):
    """By size, the median of what pairs of NCCL's own times and the tuned ones say: their ratio."""
    return {size: round(statistics.median(tuned[size] / own[size] for own, tuned in rounds), 3)
            for size in rounds[0][0]}


def noise_of(rounds, size):
    """How far NCCL's own times spread, as a share of their median."""
    times = [own[size] for own, _ in rounds]
    return (max(times) - min(times)) / statistics.median(times)


def judge_ratios(rounds):
    """The tuned times are at most NCCL's own, within the noise, at every size."""
    ratios = compare(rounds)
    slower = [f"{size} B: {ratio}" for size, ratio in ratios.items()
              if not ratio <= 1 + max(LEAST_LOSS, noise_of(rounds, size))]
    if slower:
        raise Failure(f"slower than NCCL's own choice at {', '.join(slower)}")
    return ratios


# --- runs -------------------------------------------------------------------------------------------------

def contents(pattern):
    for path in glob.glob(pattern):
        with open(path, encoding="utf-8") as file:
            yield file.read()


def tuner_plugin(context):
    library = context.library("nccl_tuner_cinch", "libnccl-tuner-cinch.so")
    command = [context.program("net_ranks"), "--sizes", ",".join(map(str, SIZES))]
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "own.csv"), "w", encoding="utf-8") as file:
            file.write(RULES)
        environment = {**plugin_environment(library, folder), "CINCH_TUNER_RULES": os.path.join(folder, "own.csv")}
        results, outputs = zip(*run_and_listen(context, command, environment, RUN_SECONDS))
        n_costs = judge_costs(contents(os.path.join(folder, "nccl-costs.*.csv")))
    calls = judge_collectives(results)
    judge_log(outputs)
    return Outcome("pass", f"{sum(calls.values())} calls exact, both rules used, {n_costs} costs of NCCL's kept",
                   {"nccl": results[0]["nccl"], "checked": calls})


class Cinch:
    """The command, on NCCL's library of this machine."""

    def __init__(self, context):
        self.path = os.path.join(os.path.dirname(context.program("cinch_tool")), "cinch")
        self.environment = {"NCCL_SOCKET_IFNAME": "lo", **context.mps.environment}
        self.nccl = gpu_machine.nccl_flags()

    def run(self, words, seconds, **environment):
        status, output = run([self.path, *words, *self.nccl], seconds, **{**self.environment, **environment})
        if status != 0:
            raise Failure(f"cinch {words[0]}: {tail(output)}")
        return output

    def bench(self, report, **environment):
        self.run(["bench", *SWEEP, "-c", "0", "-J", report], RUN_SECONDS, **environment)
        with open(report, encoding="utf-8") as file:
            return times_of(json.load(file))


def cinch_tune(context):
    library = context.library("nccl_tuner_cinch", "libnccl-tuner-cinch.so")
    cinch = Cinch(context)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "tuner.csv")
        # Named, since hosts that are made believe give rules that the plugin does not look for.
        cinch.run(["tune", *SWEEP, "--algorithms", "tree,ring", "--channels", "auto", "--repeats", "2", "--output", path],
                  TUNE_SECONDS, CINCH_CACHE_DIR=folder)
        with open(path, encoding="utf-8") as file:
            rules = [line.strip() for line in file if not line.startswith("#")]
        tuned = {name: value for name, value in plugin_environment(library, folder).items() if "DEBUG" not in name}
        report = os.path.join(folder, "bench.json")
        rounds = [(cinch.bench(report), cinch.bench(report, **tuned)) for _ in range(ROUNDS)]
    ratios = judge_ratios(rounds)
    return Outcome("pass", f"{len(rules)} rules; times {min(ratios.values()):.2f} to {max(ratios.values()):.2f} of "
                           "NCCL's own", {"rules": rules, "ratios": ratios, "rounds": rounds})


ITEMS = (
    ("tuner plugin, 2 ranks", tuner_plugin),
    ("cinch tune, 2 ranks", cinch_tune),
)
