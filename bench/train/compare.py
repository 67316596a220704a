#!/usr/bin/env python3
"""Trains the same model with and without compressed gradients, on the same links, and prints what
each took.

    compare.py gpt|resnet50|SCRIPT [flags] [-- the script's own flags]
    compare.py gpt --ranks 4 --link 1gbit --steps 500 -- --batch 16 --text FILE

The variants take turns: each round runs them all from one seed, every second round backwards, and
ratios are taken within a round. Exits 0 where every job ended well, 1 where one did not, where
Cinch compressed nothing, or where ranks disagree, 2 for a wrong command line. How the figures are
taken: docs/training-benches.md."""

import argparse
import datetime
import json
import os
import pathlib
import shlex
import shutil
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from lab import machine, network, rate  # noqa: E402
from lab.job import JobFailed  # noqa: E402
from lab.progress import Progress  # noqa: E402
from train import figures, variants  # noqa: E402
from train import job as jobs  # noqa: E402

ROOT = str(pathlib.Path(__file__).resolve().parents[2])
INTERRUPTED = 130
PARTIAL = ".partial"  # the figures so far, in a file of this name, until all jobs have ended


def make_parser():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("script", help="gpt, resnet50, or the path of a script that takes the same flags")
    add("--variants", help=f"of {variants.NAMES}, with commas between; the first is compared with")
    add("--rounds", type=positive, default=2, help="turns of each variant (default 2)")
    add("--ranks", type=positive, default=2, help="processes (default 2)")
    add("--link", metavar="RATE", help="put every rank behind a link of this rate, as 1gbit")
    add("--hosts", type=positive, default=1,
        help="have NCCL take the ranks for those of N hosts; implied by --link")
    add("--wrap", choices=("ddp", "fsdp2"), default="ddp")
    add("--steps", type=positive, default=200)
    add("--seed", type=int, default=1, help="of the first round; the next ones count up")
    add("--device", choices=("cuda", "cpu"), default="cuda")
    add("--target", type=float, metavar="LOSS",
        help="held-out loss to take the time to (default: the lowest that all jobs have reached)")
    add("--set", action="append", default=[], metavar="NAME=VALUE", dest="settings",
        help="a parameter of Cinch's, for all of its variants")
    add("--stall", type=positive, default=300, metavar="SECONDS",
        help="a job whose rank 0 prints no figures for so long is ended (default 300)")
    add("--cinch", default=os.path.join(ROOT, "build", "bin", "cinch"), metavar="PROGRAM")
    add("--json", metavar="FILE",
        help="(default: bench/results/train/DATE-COMMIT-SCRIPT-WRAP.json)")
    add("--logs", default=os.path.join(ROOT, "build", "train"), metavar="FOLDER")
    return parser


def positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("has to be at least 1")
    return number


def parse_arguments(arguments):
    parser = make_parser()
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    options = parser.parse_args(arguments[:cut])
    options.arguments = arguments[cut + 1 :]
    options.command = shlex.join(["bench/train/compare.py", *arguments])
    try:
        check_options(options)
    except (ValueError, variants.VariantError) as error:
        parser.error(str(error))
    return options


def check_options(options):
    """Fills in what depends on other flags. Raises ValueError or VariantError."""
    options.link_bits = rate.bits_per_second(options.link) if options.link else None
    if options.link:
        options.hosts = options.ranks
    if options.hosts > options.ranks:
        raise ValueError(f"--hosts {options.hosts}: more than the {options.ranks} ranks")
    if not os.path.isfile(jobs.script_path(options.script)):
        raise ValueError(f"{options.script} is neither of {', '.join(jobs.SCRIPTS)} nor a file")
    wrong = [text for text in options.settings if not text.startswith("CINCH_") or "=" not in text]
    if wrong:
        raise ValueError(f"--set {wrong[0]}: not of the form CINCH_NAME=VALUE")
    settings = dict(text.split("=", 1) for text in options.settings)
    names = options.variants or variants.default_names(options.wrap, options.device)
    options.variants = variants.parse(names, options.wrap, options.device, settings)
    uses_cinch = any(variant.settings is not None for variant in options.variants)
    if uses_cinch and not os.access(options.cinch, os.X_OK):
        raise ValueError(f"--cinch {options.cinch}: no such program; build it, or name another")


def open_links(options):
    """The network that all variants share. Raises NetworkError where a rate cannot be had."""
    if options.link is None:
        return network.Loopback(options.ranks, "the links of this machine")
    links = network.open_network(options.ranks, options.link, options.link_bits)
    if isinstance(links, network.Loopback):
        raise network.NetworkError(f"--link {options.link}: {links.reason}")
    return links


def make_plan(options, links):
    logs = os.path.join(os.path.abspath(options.logs), script_name(options))
    shutil.rmtree(logs, ignore_errors=True)
    return jobs.Plan(
        script=options.script,
        network=links,
        is_limited=options.link is not None,
        ranks=options.ranks,
        hosts=options.hosts,
        steps=options.steps,
        wrap=options.wrap,
        device=options.device,
        stall_seconds=options.stall,
        cinch=os.path.abspath(options.cinch),
        logs=logs,
        arguments=options.arguments,
    )


def script_name(options):
    return f"{pathlib.Path(options.script).stem}-{options.wrap}"


def turns(order, rounds):
    """(round, variant), every second round backwards, so that a drift meets all alike."""
    for number in range(1, rounds + 1):
        yield from ((number, variant) for variant in (order if number % 2 else order[::-1]))


def run_all(options, plan, keep):
    """The runs of all rounds, in the order of their turns; all so far are given to keep() after
    each, lest those that came to their ends be lost with one that does not."""
    order = list(turns(options.variants, options.rounds))
    progress = Progress({title(number, variant): 1 for number, variant in order})
    runs = []
    for number, variant in order:
        progress.start(title(number, variant))
        runs.append(run_one(plan, variant, number, options.seed + number - 1, progress))
        unit, per_second = figures.unit_of(runs[-1]["final"])
        step_ms = 1e3 * figures.step_of(runs[-1])
        progress.finish_job(
            f"{title(number, variant)}: {step_ms:.1f} ms a step, {per_second:.0f} {unit}/s"
        )
        keep(runs)
    return runs


def title(number, variant):
    return f"{variant.name}, round {number}"


def run_one(plan, variant, number, seed, progress):
    try:
        return jobs.run(plan, variant, number, seed, progress)
    except (JobFailed, figures.FigureError) as error:
        raise type(error)(f"{title(number, variant)}: {error}") from error


def describe_run(options, links):
    """What the figures were taken with."""
    return {
        "date": datetime.date.today().isoformat(),
        "commit": machine.commit(ROOT),
        "command": options.command,
        "machine": machine.describe(),
        "network": links.describe() if options.link else "the links of this machine",
        "ranks": options.ranks,
        "hosts": options.hosts,
        "steps": options.steps,
        "rounds": options.rounds,
    }


def json_path(options, header):
    if options.json:
        return options.json
    name = f"{header['date']}-{header['commit']}-{script_name(options)}.json"
    return os.path.join(ROOT, "bench", "results", "train", name)


def write_json(path, contents):
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, "w") as file:
        json.dump(contents, file, indent=1)
        file.write("\n")


def run(options):
    with open_links(options) as links:
        header = describe_run(options, links)
        print(
            f"{options.script}, {options.wrap}: {options.ranks} ranks; {options.rounds} rounds of "
            f"{len(options.variants)} variants, {options.steps} steps each\n"
            f"  network: {header['network']}\n",
            flush=True,
        )
        path = json_path(options, header)
        runs = run_all(
            options,
            make_plan(options, links),
            lambda so_far: write_json(path + PARTIAL, header | conclude(options, so_far)),
        )
    os.replace(path + PARTIAL, path)
    return tell(conclude(options, runs), path)


def conclude(options, runs):
    target = options.target or figures.default_target(runs)
    return {
        "target_loss": target,
        "variants": figures.summarise(runs, target),
        "problems": list(figures.problems(runs)),
        "runs": runs,
    }


def tell(found, path):
    """Returns the exit status."""
    table = figures.format_rows(found["variants"], found["target_loss"])
    print(f"\n{table}\n\nFigures: {path}")
    for sentence in found["problems"]:
        print(f"PROBLEM {sentence}")
    return 1 if found["problems"] else 0


def end_on_signal(number, _frame):
    raise KeyboardInterrupt(signal.Signals(number).name)


def main(arguments):
    options = parse_arguments(arguments)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end_on_signal)
    try:
        return run(options)
    except (JobFailed, figures.FigureError, network.NetworkError, OSError) as error:
        print(f"\ncompare.py failed: {error}\nLogs: {options.logs}", file=sys.stderr)
    except KeyboardInterrupt:
        print("\ncompare.py was interrupted; its processes are gone", file=sys.stderr)
        return INTERRUPTED
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
