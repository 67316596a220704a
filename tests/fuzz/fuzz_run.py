"""Runs fuzz_rank under one configuration and reads what it wrote."""

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field

MIN_BYTES = 1024
WARMUP = 3


@dataclass(frozen=True)
class Configuration:
    """An environment, and what it allows a result to be."""
    name: str
    env: dict = field(default_factory=dict, hash=False)
    preload: bool = True
    bits: int = 0  # per code
    feedback: bool = False
    rotated: bool = False  # blocks may be
    ranks_per_host: int = 1


def compressing(name, bits, feedback=False, rotated=False, ranks_per_host=1, **env):
    """The programs' calls are small, and few."""
    common = {"CINCH_MIN_BYTES": str(MIN_BYTES), "CINCH_WARMUP_CALLS": str(WARMUP), "CINCH_WHEN": "always"}
    return Configuration(name, {**common, **env}, bits=bits, feedback=feedback, rotated=rotated,
                         ranks_per_host=ranks_per_host)


def by_signature(name, bits, **facts):
    return compressing(name, bits, **{"CINCH_SLOTS": "signature", "CINCH_CODEC": f"q{bits}", **facts})


PLAIN = Configuration("plain", preload=False)
OFF = Configuration("off", {"CINCH_MODE": "off", "CINCH_MIN_BYTES": "1K"})
CONFIGURATIONS = (
    by_signature("q8", 8, CINCH_MEASURE_EVERY="2"),
    by_signature("q4", 4, feedback=True, CINCH_GUARD_EVERY="4"),
    by_signature("q8-feedback", 8, feedback=True, CINCH_ERROR_FEEDBACK="1"),
    by_signature("q4-stateless", 4, CINCH_ERROR_FEEDBACK="off", CINCH_MEASURE_EVERY="1"),
    by_signature("q2", 2, CINCH_ERROR_FEEDBACK="off", CINCH_GUARD_EVERY="5"),
    by_signature("q8-two-per-host", 8, ranks_per_host=2),
    by_signature("auto-two-per-host", 2, feedback=True, rotated=True, ranks_per_host=2, CINCH_CODEC="auto",
                 CINCH_GUARD_EVERY="4"),
    by_signature("q4-two-per-host", 4, feedback=True, ranks_per_host=2, CINCH_CHUNKS="2"),
    by_signature("auto", 2, feedback=True, rotated=True, CINCH_CODEC="auto", CINCH_GUARD_EVERY="4"),
    by_signature("choosing", 2, feedback=True, rotated=True, CINCH_CODEC="auto", CINCH_GUARD_EVERY="4",
                 CINCH_WHEN="auto"),
    by_signature("chunks", 4, feedback=True, CINCH_CHUNKS="3", CINCH_GUARD_EVERY="4"),
    by_signature("chunks-auto", 2, feedback=True, rotated=True, CINCH_CODEC="auto", CINCH_GUARD_EVERY="4",
                 CINCH_CHUNKS="3"),
    compressing("defaults", 2, feedback=True, rotated=True),
    compressing("sequence", 2, feedback=True, rotated=True, CINCH_GUARD_EVERY="4", CINCH_RULES="gradient"),
    compressing("q4-sequence", 4, feedback=True, CINCH_CODEC="q4"),
)


def config_of(seed):
    return CONFIGURATIONS[seed % len(CONFIGURATIONS)]


@dataclass
class Result:
    """What one program did: error codes and outputs by key, and how it ended."""
    codes: list = field(default_factory=list)
    outputs: dict = field(default_factory=dict)
    ends: list = field(default_factory=list)  # hung, died
    log: str = ""


@dataclass
class Output:
    kind: str
    type: str
    op: int
    comm: int
    members: int
    count: int
    seen: int
    untouched: bool
    data: str
    rest: str
    worst: float
    mean_square: float

    @staticmethod
    def parse(words):
        kind, kind_of_value = words[:2]
        numbers = [int(word) for word in words[2:8]]
        return Output(kind, kind_of_value, *numbers[:5], bool(numbers[5]), words[8], words[9],
                      float(words[10]), float(words[11]))


def read_results(path, seeds):
    results = {seed: Result() for seed in seeds}
    current, ended = None, set()
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            head, *words = line.split()
            if head == "begin":
                current = results[int(words[0])]
            elif head == "end":
                ended.add(int(words[0]))
            elif head == "out":
                # rank, uid, round, kind
                current.outputs[(*map(int, words[:3]), words[3])] = Output.parse(words[3:])
            elif head in ("code", "codes"):
                current.codes.append(line.strip())
            else:
                current.ends.append(line.strip())
    for seed in seeds:
        results[seed].codes.sort()
        if seed not in ended:
            results[seed].ends.append("never ended")
    return results


def environment(options, config, folder):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("CINCH_", "NCCL_")) and k != "LD_PRELOAD"}
    env.update(NCCL_SOCKET_IFNAME="lo", **config.env)
    if config.preload:
        env["LD_PRELOAD"] = options.preload
    if config.bits > 0:
        env["CINCH_STATS"] = f"{folder}/stats.%p"
    return env


def arguments_of(options, config, seeds, out):
    words = [options.rank, "--seeds", ",".join(map(str, seeds)), "--out", out,
             "--bits", config.bits, "--feedback", int(config.feedback), "--rotated", int(config.rotated),
             "--ranks-per-host", config.ranks_per_host, "--deadline", options.deadline,
             "--drop", options.drop, "--without", options.without]
    return [str(word) for word in words]


def run_batch(options, config, seeds, folder):
    """Runs the programs of `seeds` one after another; {seed: Result}."""
    with tempfile.TemporaryDirectory(dir=folder) as own:
        out, log = f"{own}/out", f"{own}/log"
        open(out, "w", encoding="utf-8").close()
        command = arguments_of(options, config, seeds, out)
        with open(log, "wb") as file:
            limit = (options.deadline + 10) * len(seeds)
            subprocess.run(command, env=environment(options, config, own), stdin=subprocess.DEVNULL,
                           stdout=file, stderr=subprocess.STDOUT, timeout=limit, check=False)
        results = read_results(out, seeds)
        with open(log, encoding="utf-8", errors="replace") as file:
            text = file.read()
        for result in results.values():
            result.log = text
        if options.verbose:
            print(f"--- {config.name}: {' '.join(command)}\n{text}")
        return results


def replay_command(options, seed):
    words = [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "fuzz_driver.py"),
             "--seed", str(seed), "--verbose", "--rank", options.rank, "--preload", options.preload]
    for name in ("config", "drop", "without"):
        if getattr(options, name):
            words += [f"--{name}", getattr(options, name)]
    return " ".join(words)
