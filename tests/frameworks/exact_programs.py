#!/usr/bin/env python3
"""Programs that sum up something else than gradients: under Cinch they end bit for bit as without it.

    exact_programs.py [--control] [--steps 201] [--json FILE] [--keep FOLDER] [PATTERN ...]

Those that reduce no gradients run plain and under Cinch with compression always on, and some of them with nothing
set over links of 100 Mbit/s, too: all losses of all steps and all final tensors are the same, on each rank. Where a
job reduces gradients beside something else, no end is as plain's; there each call that carries no gradients has
to deliver the exact sum of its inputs, by the call logs of both ranks, and the gradients are compressed all the same.

--control runs them all once more with CINCH_SLOTS=signature, in which any call that comes again is compressed: a
program that is found exact then would prove nothing. No error is excused here.
"""
import argparse
import fnmatch
import json
import os
import sys
import tempfile
import time
from dataclasses import dataclass, field

import judge
import ranks
import session
from lab import network, rate  # bench/lab
from session import environment  # emulator/torch/environment.py

# Their communicators carry no gradients at all.
ALONE = (
    "periodic_averager_every_step", "periodic_averager_every_4_steps", "periodic_averager_every_10_steps",
    "periodic_averager_every_100_steps", "post_local_sgd_from_the_start", "post_local_sgd_from_the_start_one_bucket",
    "accelerate_local_sgd", "local_sgd_by_parameter", "local_sgd_in_bf16", "averaged_optimizer_state",
    "ema_of_own_weights", "k_means", "power_iteration", "conjugate_gradients", "histograms", "running_statistics",
    "router_counts", "sync_batch_norm_statistics", "gathered_features", "muon_of_equal_gradients", "tensor_parallel",
    "tensor_parallel_without_broadcast", "tensor_parallel_after_broadcast", "tensor_parallel_columns",
    "tensor_parallel_by_sequence", "tensor_parallel_head", "megatron_tensor_parallel", "pipeline_with_sums",
    "sums_of_squared_gradients", "outer_sums_every_30_steps", "outer_sums_in_shards", "evolution_strategy",
)
BESIDE_GRADIENTS = (
    "ddp_weights_averaged_every_step", "ddp_weights_averaged_every_4_steps", "weights_averaged_at_each_stage",
    "ddp_weights_averaged_every_100_steps", "ema_of_weights", "post_local_sgd", "post_local_sgd_one_bucket",
    "accelerate_local_sgd_after_ddp", "ddp_counts_beside_gradients", "ddp_many_counts_beside_gradients",
    "ddp_running_statistics", "ddp_sync_batch_norm_of_many_channels", "ddp_gathered_features", "ddp_muon",
    "weights_averaged_by_the_loop_over_gradients", "ddp_kfac_factors", "ddp_statistics_in_recomputed_layers",
    "ddp_small_statistics", "ddp_state_in_hooks", "loop_with_averaged_weights_at_the_end",
    "split_columns_beside_a_trunk", "loop_with_prototypes", "loop_with_averaged_weights",
    "loop_with_weights_in_new_memory", "loop_with_curvature", "loop_with_history_of_gradients",
)
# These run with nothing set, too, where plain NCCL is much slower than compression.
WITH_NOTHING_SET = ("periodic_averager_every_step", "post_local_sgd_from_the_start", "accelerate_local_sgd", "k_means",
                    "power_iteration")
LINK = "100mbit"

STEPS = 201  # after them, averages of every 1, 4, 10 and 100 steps have just been taken (jobs/averaging.py)
CONTROL = {"CINCH_SLOTS": "signature"}


@dataclass
class Result:
    """What came out of a program. Sentences in `inexact`: what was not exact, by the run's name."""

    program: str
    beside_gradients: bool
    may_pass: bool = False  # its gradients, too: they cannot be told apart
    inexact: dict = field(default_factory=dict)
    # Sums that carry no gradients and that Cinch would consider; of how many the log shows that they were exact.
    sums: int = 0
    checked: int = 0
    compressed_gradients: float | None = None  # of their bytes, in the last third of the steps that have any
    caught: bool | None = None  # whether the control run was found inexact; None: there was none
    seconds: dict = field(default_factory=dict)

    @property
    def gradients_stay(self):
        return self.compressed_gradients is not None and self.compressed_gradients >= judge.ENOUGH_COMPRESSED

    @property
    def must_stay(self):
        return self.beside_gradients and not self.may_pass

    @property
    def proves_nothing(self):
        """Why Cinch would be found exact whatever it did; empty: it would not."""
        if not self.sums and "cinch" not in self.inexact:
            return "there are no sums that Cinch would consider"
        return "the control run is exact, too" if self.caught is False else ""

    @property
    def is_good(self):
        stays = self.gradients_stay or not self.must_stay
        return not self.inexact and not self.proves_nothing and stays

    def line(self):
        text = f"{self.program:42} {self.sums:5} sums  "
        found = "; ".join(f"{run}: {why}" for run, why in self.inexact.items())
        text += f"NOT EXACT: {found}" if found else "exact"
        if self.compressed_gradients is not None:
            text += f"  gradients {'' if self.gradients_stay or self.may_pass else 'ONLY '}{self.compressed_gradients:.0%} compressed"
        if self.proves_nothing:
            text += f"  PROVES NOTHING: {self.proves_nothing}"
        return text + f"  ({', '.join(f'{run} {seconds} s' for run, seconds in self.seconds.items())})"


def failure(run):
    return run["errors"][0].strip().splitlines()[-1] if run["errors"] else ""


def difference(plain, run):
    """In words, where a run differs from plain's; empty: it is the same, bit for bit."""
    for name, one in (("plain", plain), ("it", run)):
        if why := failure(one):
            return f"{name} did not end: {why}"
    if not all(rank["intact"] for rank in run["ranks"]):
        return "the program's own check of its sums failed"
    for number, (expected, found) in enumerate(zip(plain["ranks"], run["ranks"], strict=True)):
        # As text: a loss that is not a number is equal to itself.
        steps = [i for i, pair in enumerate(zip(expected["losses"], found["losses"])) if repr(pair[0]) != repr(pair[1])]
        if steps or len(expected["losses"]) != len(found["losses"]):
            return (f"rank {number}'s losses differ from step {steps[0] if steps else 'the last'} on, "
                    f"{expected['loss']:.4f} became {found['loss']:.4f}")
        if expected["parameters"] != found["parameters"]:
            return f"rank {number} ends with other tensors"
    return ""


def inexact_calls(run):
    """The same by the calls alone."""
    if why := failure(run):
        return f"it did not end: {why}"
    if not all(rank["intact"] for rank in run["ranks"]):
        return "the program's own check of its sums failed"
    found = run["beside"]
    if found["unpaired"]:
        return f"one rank made {found['unpaired']} sums that the other one did not make"
    if found["compressed"] or found["inexact"]:
        return f"of {found['sums']} sums {found['compressed']} were compressed and {found['inexact']} are wrong"
    return ""


def inexact_alone(plain, run):
    """By the end, and where there is a log of calls by these as well, none of which is a gradient's."""
    if why := difference(plain, run):
        return why
    if "beside" not in run:
        return ""
    if any("gradients" in rank["carried"]["all"] for rank in run["ranks"]):
        return "it reduces gradients, as its marks say"
    return inexact_calls(run)


def judged(program, runs):
    """`runs`: by name, of "plain", "cinch", "nothing set" and "control" those there are."""
    result = Result(program, program in BESIDE_GRADIENTS, bool(runs["cinch"].get("indistinct")))

    def wrong(run):
        return inexact_calls(run) if result.beside_gradients else inexact_alone(runs["plain"], run)

    result.seconds = {name: run["seconds"] for name, run in runs.items()}
    result.inexact = {name: why for name in ("cinch", "nothing set") if name in runs and (why := wrong(runs[name]))}
    result.sums, result.checked = (runs["cinch"].get("beside", {}).get(what, 0) for what in ("sums", "checked"))
    if result.beside_gradients and not failure(runs["cinch"]):
        ends = [rank["carried"]["end"] for rank in runs["cinch"]["ranks"]]
        result.compressed_gradients = judge.share([end["gradients"] for end in ends if "gradients" in end])
    if "control" in runs:
        result.caught = not failure(runs["control"]) and bool(wrong(runs["control"]))
    return result


def run_over_links(prepared, folder, programs, settings):
    """With nothing set, on two hosts; None where there can be none."""
    with network.open_network(2, LINK, rate.bits_per_second(LINK)) as opened:
        if isinstance(opened, network.Loopback):
            print(f"With nothing set: not run, {opened.reason}", flush=True)
            return None
        namespaces = tuple(opened.command(host, [])[-1] for host in range(2))
        hosts = ranks.Hosts(namespaces, opened.host_address(0), opened.interface)
        return session.run_variant(prepared, "cinch-unset", folder, programs, settings | hosts.variables())


def run_all(prepared, programs, steps, folder, control):
    """{program: {name of the run: run}}, and whether there were links."""
    settings = {"JOB_STEPS": str(steps)}
    alone, unset = ([program for program in programs if program in group] for group in (ALONE, WITH_NOTHING_SET))
    found = {}
    if alone:
        found["plain"] = session.run_variant(prepared, "plain", folder, alone, settings)
    found["cinch"] = session.run_variant(prepared, "cinch", folder, programs, settings)
    if control:
        print(f"Control, with {' '.join(f'{name}={value}' for name, value in CONTROL.items())}:", flush=True)
        found["control"] = session.run_variant(prepared, "cinch", f"{folder}/control", programs, settings | CONTROL)
    over_links = run_over_links(prepared, folder, unset, settings) if unset else {}
    found["nothing set"] = over_links or {}
    return {program: {name: runs[program] for name, runs in found.items() if program in runs}
            for program in programs}, over_links is not None


def summary(results, had_links, seconds):
    stay = [result.gradients_stay for result in results if result.must_stay]
    unset = ["nothing set" in result.seconds for result in results]
    return {
        "exact_programs": len(results),
        "exact_failures": sum(bool(result.inexact) for result in results),
        "gradients_stay": f"{sum(stay)}/{len(stay)}",
        "with_nothing_set": sum(unset) if had_links else None,
        "prove_nothing": sum(bool(result.proves_nothing) for result in results),
        "failed": [result.program for result in results if result.inexact],
        "seconds": round(seconds),
    }


def run(prepared, options):
    """The exit status: 0 where all that ran was exact, and gradients stayed compressed beside it."""
    begun = time.monotonic()
    programs = [program for program in ALONE + BESIDE_GRADIENTS
                if not options.patterns or any(fnmatch.fnmatch(program, pattern) for pattern in options.patterns)]
    with tempfile.TemporaryDirectory(prefix="frameworks.") as scratch:
        folder = os.path.abspath(options.keep or scratch)
        found, had_links = run_all(prepared, programs, options.steps, folder, options.control)
    results = [judged(program, runs) for program, runs in found.items()]
    print()
    for result in results:
        print(result.line())
    line = summary(results, had_links, time.monotonic() - begun)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(line, file)
    print(json.dumps(line))
    return 0 if results and all(result.is_good for result in results) else 1


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("patterns", nargs="*", metavar="PATTERN", help="names of programs (default: all)")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--control", action="store_true", help="whether each program can find an error at all")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--keep", metavar="FOLDER", help="leaves the ranks' output, reports and call logs there")
    parser.add_argument("--python", help="of an environment with PyTorch; else environment.py's")
    parser.add_argument("--build", help="folder of a build to use as it is")
    return parser.parse_args(arguments)


def main():
    options = parse(sys.argv[1:])
    return run(environment.prepare(python=options.python, build=options.build), options)


if __name__ == "__main__":
    sys.exit(main())
