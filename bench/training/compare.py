#!/usr/bin/env python3
"""Trains the same small models with and without Cinch, on the emulated NCCL, and compares what
they have learned.

    compare.py BUILD [--codec CODEC] [--small] [--within PERCENT] [--bits BITS] [--set NAME=VALUE]

trains three tasks from three seeds each, or with --small one task from one seed, and prints as the
last line {"lm": {"fp32": mean held-out loss, "CODEC": .., "CODEC_bits": per value on the wire,
"CODEC_share": of all values, those that were compressed, "fp32_seeds": [..], "CODEC_seeds": [..]},
"digits": {..}, "table": {..}}. Fails where a mean loss is more than --within percent behind fp32's,
where more bits are sent than --bits, and where a tenth of the values was not compressed. Ends with
status 77 where numpy or scikit-learn is missing.
"""

import argparse
import importlib.util
import json
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from training.experiment import Experiment, run  # noqa: E402

SKIPPED = 77
SEEDS = (1, 2, 3)
STEPS = {"lm": 600, "digits": 400, "table": 300}
SMALL_STEPS, SMALL_SEEDS = {"lm": 150}, (1,)
LEAST_SHARE = 0.9


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--codec", default="q4")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--within", type=float, default=0.5, metavar="PERCENT")
    parser.add_argument("--bits", type=float, default=32)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", dest="settings")
    options = parser.parse_args(arguments)
    options.settings = dict(setting.split("=", 1) for setting in options.settings)
    return options


def missing_packages():
    return [name for name in ("numpy", "sklearn") if not importlib.util.find_spec(name)]


def outcomes(options, task, steps, seeds):
    """{"fp32": by seed, codec: by seed}"""
    found = {"fp32": [], options.codec: []}
    for seed in seeds:
        for name in found:
            codec = None if name == "fp32" else name
            experiment = Experiment(task, steps, seed, codec, options.settings)
            with tempfile.TemporaryDirectory() as folder:
                outcome = run(experiment, str(options.build.resolve()), folder)
            print(f"{task} seed {seed} {name}: {outcome}", flush=True)
            found[name].append(outcome)
    return found


def summarise(found):
    """The figures of one task, rounded for people."""
    figures = {}
    for name, by_seed in found.items():
        figures[name] = round(_mean(outcome.loss for outcome in by_seed), 5)
        figures[f"{name}_seeds"] = [round(outcome.loss, 5) for outcome in by_seed]
        if name != "fp32":
            figures[f"{name}_bits"] = round(_mean(outcome.bits for outcome in by_seed), 3)
            figures[f"{name}_share"] = round(_mean(outcome.share for outcome in by_seed), 3)
    return figures


def failures(task, figures, codec, within, bits):
    """What is wrong with a task's figures, as sentences."""
    behind = 100 * (figures[codec] / figures["fp32"] - 1)
    # Written so that a loss that is no number fails.
    if not behind <= within:
        yield f"{task}: the loss of {codec} is {behind:.2f} % behind fp32's, allowed {within} %"
    if not figures[f"{codec}_bits"] <= bits:
        yield f"{task}: {codec} sends {figures[f'{codec}_bits']} bits per value, allowed {bits}"
    if not figures[f"{codec}_share"] >= LEAST_SHARE:
        yield f"{task}: only {figures[f'{codec}_share']} of the values were compressed"


def main(arguments):
    options = parse_arguments(arguments)
    if missing := missing_packages():
        print(f"skipped: needs the Python packages {', '.join(missing)}")
        return SKIPPED
    steps, seeds = (SMALL_STEPS, SMALL_SEEDS) if options.small else (STEPS, SEEDS)
    summary = {task: summarise(outcomes(options, task, steps[task], seeds)) for task in steps}
    wrong = [
        sentence
        for task, figures in summary.items()
        for sentence in failures(task, figures, options.codec, options.within, options.bits)
    ]
    for sentence in wrong:
        print(sentence)
    print(json.dumps(summary))
    return 1 if wrong else 0


def _mean(values):
    values = list(values)
    return sum(values) / len(values)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
