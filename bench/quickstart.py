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
DEFAULT_STEPS = 100
FULL_STEPS = 200
PROOF_STEPS = 30
# For the time left. Of a run: the seconds that do not depend on its steps (start, first steps that
# are not compressed yet, prediction of the error), and those that each step communicates at the
# default link. Measured on the emulator on two cores, as is the computation of a step.
EXPECTED_SECONDS = {
    "fp32": (4, 1.0),
    "bf16": (4, 0.5),
    "q8": (16, 0.25),
    "q4": (16, 0.15),
    "auto": (19, 0.1),
    "proof": (10, 0.15),
}
COMPUTATION_SECONDS = 0.12


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, prog="quickstart", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--link", default=DEFAULT_LINK, help=f"rate of every host's link (default {DEFAULT_LINK})"
    )
    length = parser.add_mutually_exclusive_group()
    length.add_argument(
        "--steps",
        type=int,
        default=DEFAULT_STEPS,
        help=f"training steps of every variant (default {DEFAULT_STEPS})",
    )
    length.add_argument(
        "--full",
        action="store_const",
        dest="steps",
        const=FULL_STEPS,
        help=f"{FULL_STEPS} steps, enough to judge the losses",
    )
    parser.add_argument("--text", help="text to learn from (default: CMake's help files)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help=argparse.SUPPRESS)
    parser.add_argument("--output", help=argparse.SUPPRESS)
    parser.add_argument("--setup-seconds", type=float, default=0, help=argparse.SUPPRESS)
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


def describe_library(program, gpus):
    if program == "train_lm_gpu":
        return f"NCCL on {gpus[0]}; the ranks are hosts of their own to NCCL and use its sockets"
    return "the emulator of NCCL and CUDA on this machine's CPU"


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
    others = machine.OtherLoad()
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
    row["others_share"] = others.share()
    return row, figures.loss_over_time(job.logs()[0])


def run_variants(options, plan, progress):
    """Rows, bounds and curves by variant. Every row is printed as soon as it is there."""
    rows, bounds, curves = {}, {}, {}
    progress.note(outcome.format_heading())
    for variant in training.VARIANTS:
        name = variant.name
        rows[name], curves[name] = run_variant(plan, variant, progress)
        rows[name]["shown_s"] = time.monotonic() - options.started
        if variant.bits is not None and plan.network.bits_per_second is not None:
            bounds[name] = figures.bound_ms(
                rows[name]["parameters"],
                variant.bits,
                training.RANKS,
                plan.network.bits_per_second,
            )
        progress.finish_job(outcome.format_row(name, rows, bounds))
    return rows, bounds, curves


def run_proof(plan, progress):
    """A short run whose residuals are compared with all that went in and came out."""
    job = training.Training(
        plan, training.PROOF, PROOF_STEPS, ("--dump-sums", "{folder}/rank{rank}.sums")
    )
    job.run(progress)
    norms = job.residual_norms()
    job.remove_dumps()
    progress.finish_job("  proof: compared what went in, what came out, and the residuals")
    return norms


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
        timed = checks.time_checks(rows, bounds)
        results += timed if was_quiet(rows) else checks.not_judged(timed)
    if options.steps >= FULL_STEPS and options.text is None:
        results += checks.loss_checks(rows)
    return results


def expected_seconds(steps, bits_per_second):
    """By variant and for the proof; only their ratios matter."""
    slowness = DEFAULT_LINK_BITS / bits_per_second if bits_per_second else 0
    return {
        name: fixed
        + (PROOF_STEPS if name == "proof" else steps)
        * (COMPUTATION_SECONDS + communication * slowness)
        for name, (fixed, communication) in EXPECTED_SECONDS.items()
    }


def busiest_share(rows):
    return max(row["others_share"] for row in rows.values())


def was_quiet(rows):
    """One disturbed row is enough: most checks of time compare two."""
    return busiest_share(rows) <= machine.QUIET_SHARE


def describe_run(options, plan, rows):
    """What the rows were measured with, and how long the whole command took."""
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
        "setup_s": options.setup_seconds,
        "first_row_s": round(rows["fp32"]["shown_s"], 1),
        "seconds": round(time.monotonic() - options.started, 1),
        "others_share": round(busiest_share(rows), 3),
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


def describe_checks(results, rows):
    failed = checks.failed(results)
    if failed:
        return f"{len(failed)} of {len(results)} checks failed."
    skipped = sum(check.passed is None for check in results)
    if skipped:
        return (
            f"{len(results) - skipped} checks passed. {skipped} of time were not judged: the "
            f"machine was busy, others took up to {busiest_share(rows):.0%} of its CPU."
        )
    return f"All {len(results)} checks passed."


def explain_rows(plan, rows, library):
    """Three lines: what the rows say, what they were measured on, and where the codec ran."""
    fp32, auto = rows["fp32"], rows["auto"]
    codec = (
        "the GPU; the model itself is trained on this machine's CPU"
        if plan.program == "train_lm_gpu"
        else "this machine's CPU, which the training shares: its times are not those of a GPU"
    )
    return (
        "Cinch with nothing set (auto), against fp32: "
        f"steps of {auto['step_ms']:.0f} ms instead of {fp32['step_ms']:.0f} ms, "
        f"{fp32['wire_bytes'] / auto['wire_bytes']:.1f}x fewer bytes, held-out loss "
        f"{100 * (auto['loss'] / fp32['loss'] - 1):+.2f} %.\n"
        f"Measured on {library}; {plan.network.describe()}.\n"
        f"The codec ran on {codec}."
    )


def next_command(program):
    if program == "train_lm_gpu":
        return "build/bin/cinch run -- torchrun train.py      (or any program of yours on NCCL)"
    return (
        "emulator/torch/run -n 4 --hosts 2 --link 100mbit --cinch emulator/torch/example.py\n"
        "  (or a PyTorch script of yours; installs PyTorch)"
    )


def run(options):
    gpus = machine.gpus()
    program = choose_program(options.build, gpus)
    library = describe_library(program, gpus)
    with network.open_network(training.RANKS, options.link, options.link_bits) as lab_network:
        plan = make_plan(options, lab_network, program)
        print(
            f"{training.RANKS} ranks train for {plan.steps} steps in each of "
            f"{len(training.VARIANTS)} variants\n"
            f"  network: {lab_network.describe()}\n  library: {library}\n",
            flush=True,
        )
        progress = Progress(expected_seconds(plan.steps, lab_network.bits_per_second))
        rows, bounds, curves = run_variants(options, plan, progress)
        norms = run_proof(plan, progress)
    results = make_checks(options, rows, bounds, norms)
    finish(options, plan, library, rows, bounds, curves, results)
    return 1 if checks.failed(results) else 0


def finish(options, plan, library, rows, bounds, curves, results):
    """Writes the JSON and the chart, and prints what they say."""
    base = os.path.join(options.output, "quickstart")
    title = f"{training.RANKS} ranks, {plan.network.describe()}"
    picture, why_none = plot.draw(base, title, curves)
    header = describe_run(options, plan, rows)
    with open(base + ".json", "w") as file:
        json.dump(header | outcome.to_json(rows, bounds, results), file, indent=1)
        file.write("\n")
    own_by_caller(base, base + ".json", *([picture] if picture else []))
    print(
        f"\n{outcome.format_checks(results)}\n\n{describe_checks(results, rows)}\n"
        f"Done in {format_seconds(header['seconds'])} minutes. "
        f"All that was measured: {base}.json\n\n"
        f"Chart: {picture or 'none, ' + why_none}\n{explain_rows(plan, rows, library)}\n\n"
        f"Next: {next_command(plan.program)}"
    )


def end_on_signal(number, _frame):
    raise KeyboardInterrupt(signal.Signals(number).name)


def main(arguments):
    options = parse_arguments(arguments)
    if options.check_arguments:
        return 0
    options.started = time.monotonic() - options.setup_seconds
    # As it was typed: --setup-seconds comes from ./quickstart itself.
    options.command = [a for a in arguments if not a.startswith("--setup-seconds")]
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
