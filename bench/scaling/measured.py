"""Measured runs of `cinch bench` on the emulator, and how far the model is off.

At each number of ranks the costs are fitted to every other size:

- a hop and a byte of the link, to plain NCCL: the emulator has the ring only;
- a call and a byte of the codec, to compressed calls less what their bytes and hops take. One cost for
  encode, reduce and decode together: their sum is all that a call's time tells.

The other sizes are then foretold, and from the fit of 4 ranks those of 8. All ranks share the cores of
this machine, so that twice as many ranks find a codec of half the speed where there are no more cores.
"""

import os
import statistics

from lab import rate
from lab.network import SlowLinks
from scaling.model import NOTHING, scaled

RANKS = (2, 4, 8)
FEWER, MORE = 4, 8  # from the fit of which, what is foretold
VALUE_BYTES = 4
# Values. What fits into the burst that a shaped link lets through at once (64 KiB) tells nothing of
# its rate.
SIZES = (1 << 15, 1 << 20, 2)


def run_all(bench_of, link, rounds, say):
    """{ranks: {"fp32" or "fp32 q4": [{bytes, seconds, nmse}]}}, each the least of the rounds: what
    else runs on the machine only adds to it."""
    found = {}
    for ranks in RANKS:
        with SlowLinks(ranks, link, rate.bits_per_second(link)) as network:
            bench = bench_of(network, SIZES)
            sweeps = {name: [] for name in ("fp32", "fp32 q4")}
            for turn in range(rounds):
                for name, made in sweeps.items():
                    made.append(bench.sweep(name))
                    say(f"== {ranks} ranks, {link}, round {turn + 1}, {name}")
        found[ranks] = {name: _rows(made) for name, made in sweeps.items()}
    return found


def _rows(sweeps):
    return [
        {
            "bytes": count * VALUE_BYTES,
            "seconds": min(sweep[count]["time_us"] for sweep in sweeps) * 1e-6,
            "nmse": last["nmse"],
        }
        for count, last in sweeps[-1].items()
    ]


def question_of(ranks, n_bytes, fit):
    return {
        "op": "allreduce",
        "dtype": "fp32",
        "codec": "q4",
        "bytes": n_bytes,
        "ranks": ranks,
        "hosts": ranks,
        "network": fit["network"],
        "reduce": fit["codec"],
    }


def fit_ranks(model, ranks, plain, compressed):
    """The costs that make these rows."""
    hops = 2 * (ranks - 1)
    ring = model.fit([(row["bytes"] * hops / ranks, row["seconds"]) for row in plain])
    fit = {"network": ring | {"fixed_s": ring["fixed_s"] / hops}, "codec": NOTHING}
    answers = model.predict([question_of(ranks, row["bytes"], fit) for row in compressed])
    samples = [
        (row["bytes"], row["seconds"], answer["flat"]["seconds"])
        for row, answer in zip(compressed, answers)
    ]
    return fit | {"codec": model.fit(samples)}


def compare(model, ranks, fit, runs, what):
    """Rows of what was foretold and what was measured."""
    rows = []
    for name, scheme in (("fp32", "ring"), ("fp32 q4", "flat")):
        answers = model.predict([question_of(ranks, row["bytes"], fit) for row in runs[name]])
        for row, answer in zip(runs[name], answers):
            made = answer[scheme]
            rows.append(
                {
                    "check": what,
                    "ranks": ranks,
                    "scheme": scheme,
                    "bytes": row["bytes"],
                    "measured_s": row["seconds"],
                    "predicted_s": made["seconds"],
                    "error": made["seconds"] / row["seconds"] - 1,
                    "measured_nmse": row["nmse"],
                    "predicted_nmse": made["nmse"],
                }
            )
    return rows


def _every_other(runs, first):
    return {name: rows[first::2] for name, rows in runs.items()}


def check(model, runs, cores=None):
    """(fits by ranks, rows of compare())."""
    cores = cores or len(os.sched_getaffinity(0))
    fits, rows = {}, []
    for ranks, found in runs.items():
        known = _every_other(found, 0)
        fits[ranks] = fit_ranks(model, ranks, known["fp32"], known["fp32 q4"])
        rows += compare(model, ranks, fits[ranks], _every_other(found, 1), "other sizes")
    if FEWER in fits and MORE in runs:
        slower = max(1, MORE / cores) / max(1, FEWER / cores)
        fit = fits[FEWER] | {"codec": scaled(fits[FEWER]["codec"], slower)}
        rows += compare(model, MORE, fit, runs[MORE], "other ranks")
    return fits, rows


def summary(rows):
    """{check: {scheme: median and largest deviation}}."""
    found = {}
    for what in dict.fromkeys(row["check"] for row in rows):
        found[what] = {}
        for scheme in ("ring", "flat"):
            errors = [
                abs(row["error"]) for row in rows if (row["check"], row["scheme"]) == (what, scheme)
            ]
            found[what][scheme] = {"median": statistics.median(errors), "worst": max(errors)}
    return found
