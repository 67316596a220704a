#!/usr/bin/env python3
"""Trains the same language model five times over slow links: with fp32 gradients, with bf16
gradients, with Cinch's q8 and q4, and with Cinch where nothing is set. Prints what each took and
checks every figure; docs/quickstart.md says how they are taken. ./quickstart builds what this needs
and calls it."""

import argparse
import json
import os
import shlex
import signal
import sys
import time

from lab import checks, figures, machine, network, outcome, plot, rate, training
from lab.job import JobFailed
from lab.progress import Progress, format_seconds

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DEFAULT_LINK = "250mbit"
DEFAULT_LINK_BITS = rate.bits_per_second(DEFAULT_LINK)
DEFAULT_STEPS = 200
PROOF_STEPS = 30
# Shares of the time that the variants take, for the progress bar; wrong ones only make it uneven.
EXPECTED_SHARES = {"fp32": 45, "bf16": 25, "q8": 18, "q4": 14, "auto": 15, "proof": 4}


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, prog="quickstart", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--link", default=DEFAULT_LINK, help=f"rate of every host's link (default {DEFAULT_LINK})"
    )
    parser.add_argument(
        "--steps",
        type=int,
        default=DEFAULT_STEPS,
        help=f"training steps of every variant (default {DEFAULT_STEPS})",
    )
    parser.add_argument("--text", help="text to learn from (default: CMake's help files)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help=argparse.SUPPRESS)
    parser.add_argument("--output", help=argparse.SUPPRESS)
    parser.add_argument("--check-arguments", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    try:
        options.link_bits = rate.bits_per_second(options.link)
    except ValueError as error:
        parser.error(str(error))
    if options.steps < 10:
        parser.error("--steps: at least 10 are needed for steady figures")
    if options.text and not os.access(options.text, os.R_OK):
        parser.error(f"--text: cannot read {options.text}")
    options.output = options.output or options.build
    return options


def choose_program(build, gpus):
    """train_lm_gpu where there is a GPU and it could be built, else train_lm on the emulator."""
    real = os.path.join(build, "bin", "train_lm_gpu")
    return "train_lm_gpu" if gpus and os.access(real, os.X_OK) else "train_lm"


def describe_program(program, gpus):
    if program == "train_lm_gpu":
        return f"NCCL on {gpus[0]}; the ranks are hosts of their own to NCCL and use its sockets"
    return "the CPU stand-ins for NCCL and CUDA (emulator); codec on the CPU"


def make_plan(options, lab_network, program):
    steps = options.steps
    plan = training.Plan(
        build=options.build,
        scratch=training.fresh_folder(os.path.join(options.output, "quickstart")),
        program=program,
        network=lab_network,
        steps=steps,
        seed=options.seed,
        text=os.path.abspath(options.text) if options.text else None,
        timeout=1800,
        dump_steps=sorted({steps // 10, steps // 3, 2 * steps // 3, steps - 1}),
    )
    if program == "train_lm_gpu":
        plan.environment = {"NCCL_IB_DISABLE": "1"}
    return plan


def dump_arguments(plan):
    return (
        "--dump-gradients",
        "{folder}/rank{rank}.gradients",
        "--dump-steps",
        ",".join(map(str, plan.dump_steps)),
    )


def run_variant(plan, variant, progress):
    """One row of the table, and the points of its curve."""
    compressed = variant.settings is not None
    extra = ("--eval-every", str(max(1, plan.steps // 10)))
    job = training.Training(
        plan, variant, plan.steps, extra + (dump_arguments(plan) if compressed else ())
    )
    job.run(progress)
    row = job.summarise()
    if compressed:
        row |= job.reported_error()
        row |= {
            f"{stage}_expected": value
            for stage, value in job.predicted_error(row["parameters"]).items()
        }
    job.remove_dumps()
    progress.finish_job(
        f"{row['step_ms']:.0f} ms a step, of which {row['comm_ms']:.0f} ms communication; "
        f"held-out loss {row['loss']:.4f}"
    )
    return row, figures.loss_over_time(job.logs()[0])


def run_proof(plan, progress):
    """A short run whose residuals are compared with all that went in and came out."""
    job = training.Training(
        plan, training.PROOF, PROOF_STEPS, ("--dump-sums", "{folder}/rank{rank}.sums")
    )
    job.run(progress)
    norms = job.residual_norms()
    job.remove_dumps()
    progress.finish_job("what went in minus what came out was compared with the residuals")
    return norms


def add_bounds(rows, bits_per_second):
    """The least time that a variant's payload takes, by variant; empty where links have no rate."""
    if bits_per_second is None:
        return {}
    return {
        variant.name: figures.bound_ms(
            rows[variant.name]["parameters"], variant.bits, training.RANKS, bits_per_second
        )
        for variant in training.VARIANTS
        if variant.bits is not None
    }


def make_checks(options, rows, bounds, norms):
    """Time and loss have limits for the default link, length and text only: a faster link leaves
    the codec on a CPU behind, a shorter run ends in mid-fall."""
    results = [
        *checks.wire_checks(rows),
        *checks.codec_checks(rows),
        checks.residual_check(norms),
        checks.identical_check(rows),
    ]
    if bounds and options.link_bits <= DEFAULT_LINK_BITS:
        results += checks.time_checks(rows, bounds)
    if options.steps >= DEFAULT_STEPS and options.text is None:
        results += checks.loss_checks(rows)
    return results


def describe_run(options, plan, seconds):
    """What the figures were taken with."""
    return {
        "command": shlex.join(["./quickstart", *options.command]),
        "commit": machine.commit(ROOT),
        "hardware": machine.describe(),
        "program": plan.program,
        "network": plan.network.describe(),
        "link": options.link if plan.network.bits_per_second else None,
        "ranks": training.RANKS,
        "steps": plan.steps,
        "seed": plan.seed,
        "text": plan.text,
        "seconds": round(seconds, 1),
    }


def files_below(path):
    return [
        os.path.join(folder, name)
        for folder, folders, files in os.walk(path)
        for name in folders + files
    ]


def own_by_caller(*paths):
    """Under sudo, what was written belongs to whoever called."""
    if "SUDO_UID" not in os.environ:
        return
    for path in paths:
        for name in [path, *files_below(path)]:
            os.chown(name, int(os.environ["SUDO_UID"]), int(os.environ["SUDO_GID"]))


def print_ending(json_path, picture, why_none, results):
    failed = [check for check in results if not check.passed]
    print(f"\nFigures: {json_path}")
    print(f"Plot: {picture}" if picture else f"No plot: {why_none}")
    if failed:
        print(f"\n{len(failed)} of {len(results)} checks failed.")
        return
    print(
        f"\nAll {len(results)} checks passed. What to try next:\n"
        "  ./quickstart --link 1gbit              a faster network\n"
        "  ./quickstart --text FILE               your own text\n"
        "  build/bin/cinch run -- COMMAND         your own NCCL program\n"
        "  build/bin/cinch config                 every parameter"
    )


def run(options):
    started = time.monotonic()
    gpus = machine.gpus()
    program = choose_program(options.build, gpus)
    with network.open_network(training.RANKS, options.link, options.link_bits) as lab_network:
        plan = make_plan(options, lab_network, program)
        print(
            f"{training.RANKS} ranks train for {plan.steps} steps in each of "
            f"{len(training.VARIANTS)} variants\n"
            f"  network: {lab_network.describe()}\n  library: {describe_program(program, gpus)}\n",
            flush=True,
        )
        progress = Progress(EXPECTED_SHARES)
        rows, curves = {}, {}
        for variant in training.VARIANTS:
            rows[variant.name], curves[variant.name] = run_variant(plan, variant, progress)
        norms = run_proof(plan, progress)
        bounds = add_bounds(rows, lab_network.bits_per_second)
    results = make_checks(options, rows, bounds, norms)
    return finish(options, plan, rows, curves, bounds, results, time.monotonic() - started)


def finish(options, plan, rows, curves, bounds, results, seconds):
    print(f"\n{outcome.format_rows(rows, bounds)}\n\n{outcome.format_checks(results)}")
    base = os.path.join(options.output, "quickstart")
    picture, why_none = plot.draw(
        base, f"{training.RANKS} ranks, {plan.network.describe()}", curves
    )
    with open(base + ".json", "w") as file:
        header = describe_run(options, plan, seconds)
        json.dump(header | outcome.to_json(rows, bounds, results), file, indent=1)
        file.write("\n")
    own_by_caller(base, base + ".json", *([picture] if picture else []))
    print(f"\nDone in {format_seconds(seconds)} minutes.", end="")
    print_ending(base + ".json", picture, why_none, results)
    return 0 if all(check.passed for check in results) else 1


def end_on_signal(number, _frame):
    raise KeyboardInterrupt(signal.Signals(number).name)


def main(arguments):
    options = parse_arguments(arguments)
    if options.check_arguments:
        return 0
    options.command = arguments
    signal.signal(signal.SIGTERM, end_on_signal)
    signal.signal(signal.SIGHUP, end_on_signal)
    try:
        return run(options)
    except (JobFailed, figures.LogError, network.NetworkError, OSError) as error:
        print(
            f"\nquickstart failed: {error}\nLogs: {os.path.join(options.output, 'quickstart')}",
            file=sys.stderr,
        )
    except KeyboardInterrupt:
        print(
            "\nquickstart was interrupted; its processes and namespaces are gone", file=sys.stderr
        )
        return 130
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
