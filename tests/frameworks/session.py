#!/usr/bin/env python3
"""Runs the jobs of tests/frameworks on the emulator and says how they came out.

    session.py [--variants plain,cinch,gloo] [--json FILE] [--keep FOLDER] PATTERN ...

A pattern is a job's name, with * where it has to be, or a family (a file of jobs/). Variants:

    plain        PyTorch's own NCCL back end on the emulator, no Cinch
    cinch        the same under Cinch, with compression always on
    gloo         the same jobs on CPU tensors, without the emulator
    plain-old, cinch-old   with PyTorch's older NCCL back end, for those jobs where it makes other calls

The exit status is 1 where a job came out otherwise than known_failures.py says.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
from datetime import date

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path += [os.path.join(ROOT, "emulator", "torch"), os.path.join(ROOT, "bench")]
sys.dont_write_bytecode = True

import environment  # noqa: E402
import judge  # noqa: E402
from lab import machine  # noqa: E402

VARIANTS = ("plain", "cinch", "gloo", "plain-old", "cinch-old")


def variables(prepared, variant):
    own = {} if variant == "gloo" else prepared.variables(cinch=variant.startswith("cinch"))
    return os.environ | own | {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1",
                               "PYTHONUNBUFFERED": "1", "TOKENIZERS_PARALLELISM": "false"}


class Failed(Exception):
    """The process that runs a variant's jobs ended before they had."""


def run_variant(prepared, variant, folder, patterns, settings=None):
    """{job: run} of a variant. `settings`: variables for its processes."""
    command = [prepared.python, os.path.join(HERE, "worker.py"), variant, os.path.join(folder, variant), *patterns]
    environ = variables(prepared, variant) | (settings or {})
    found = {}
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) as worker:
        for line in worker.stdout:
            if not line.startswith("{"):  # a framework's own message
                continue
            run = json.loads(line)
            found[run["job"]] = run
            print(describe(variant, run), flush=True)
    if worker.returncode:
        raise Failed(f"{variant}: {' '.join(command)} ended with status {worker.returncode}")
    return found


def describe(variant, run):
    if "skipped" in run:
        return f"{variant:10} {run['job']:40} not run: {run['skipped']}"
    if run["errors"]:
        return f"{variant:10} {run['job']:40} {run['errors'][0].strip().splitlines()[-1]}"
    return f"{variant:10} {run['job']:40} {run['seconds']:5.1f} s  loss {judge.loss_of(run):.4f}"


def run_all(prepared, variants, folder, patterns):
    """{variant: {job: run}}"""
    return {variant: run_variant(prepared, variant, folder, patterns) for variant in variants}


def percent(value):
    return "-" if value is None else f"{100 * value:.0f} %"


def number(value):
    return "-" if value is None else f"{value:.4f}"


def print_rows(rows):
    print(f"\n{'job':44} {'plain':>8} {'Cinch':>8} {'gradients compressed':>21}  others")
    for row in rows:
        shares = f"{percent(row.compressed)} ({percent(row.compressed_in_the_end)})" if row.has_gradients else "none"
        others = "exact" if not row.inexact_calls else f"not exact: {row.inexact_calls}"
        print(f"{row.job:44} {number(row.plain_loss):>8} {number(row.cinch_loss):>8} {shares:>21}  {others}")
        for sentence in row.unexpected:
            print(f"    UNEXPECTED {sentence}")


def summary(rows):
    compared = [row for row in rows if row.gloo in ("equal", "different")]
    return {
        "jobs": len({row.job.removesuffix("[old]") for row in rows}),
        "rows": len(rows),
        "rows_run": sum(not any(check.endswith(" ends") for check in row.wrong) for row in rows),
        "gloo_equal": f"{sum(row.gloo == 'equal' for row in compared)}/{len(compared)}",
        "known_failures": sum(bool(row.known_failure) for row in rows),
        "unexpected": sum(bool(row.unexpected) for row in rows),
    }


def torch_version(prepared):
    return subprocess.run([prepared.python, "-c", "from importlib.metadata import version; print(version('torch'))"],
                          capture_output=True, text=True, check=True).stdout.strip()


def commit():
    found = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True,
                           check=False)
    return found.stdout.strip()


def write_json(path, prepared, command, content):
    """What a command of this folder measured, with what it was measured on."""
    origin = {"date": date.today().isoformat(), "commit": commit(), "command": command,
              "torch": torch_version(prepared), "machine": machine.describe() | {"nccl": "the emulator"}}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(origin | content, file, indent=1)
        file.write("\n")


def write(path, prepared, rows, variants, patterns):
    quoted = " ".join(f"'{pattern}'" for pattern in patterns)
    write_json(path, prepared, f"tests/frameworks/session.py --variants {','.join(variants)} {quoted}",
               {"summary": summary(rows), "rows": [row.as_json() for row in rows]})


def run(prepared, variants, patterns, keep=None, json_file=None):
    """The exit status: 1 where a job came out otherwise than known_failures.py says, or none ran."""
    with tempfile.TemporaryDirectory(prefix="frameworks.") as scratch:
        results = run_all(prepared, variants, os.path.abspath(keep or scratch), patterns)
    rows = judge.rows(results)
    print_rows(rows)
    if json_file:
        write(json_file, prepared, rows, variants, patterns)
    print(json.dumps(summary(rows)))
    return 1 if not rows or any(row.unexpected for row in rows) else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("patterns", nargs="+", metavar="PATTERN")
    parser.add_argument("--variants", default="plain,cinch,gloo")
    parser.add_argument("--json", metavar="FILE", help="writes what docs/frameworks.md is made from")
    parser.add_argument("--keep", metavar="FOLDER", help="leaves the ranks' output, reports and call logs there")
    parser.add_argument("--python", help="of an environment with PyTorch; else environment.py's")
    parser.add_argument("--build", help="folder of a build to use as it is")
    options = parser.parse_args()
    variants = options.variants.split(",")
    if unknown := set(variants) - set(VARIANTS):
        parser.error(f"no such variant: {', '.join(sorted(unknown))}")
    prepared = environment.prepare(python=options.python, build=options.build)
    return run(prepared, variants, options.patterns, options.keep, options.json)


if __name__ == "__main__":
    sys.exit(main())
