#!/usr/bin/env python3
"""Does training end where it ends with plain NCCL? Jobs of tests/frameworks, longer and with several seeds.

    losses.py [--steps 200] [--seeds 3] [--json FILE] [--build FOLDER] [PATTERN ...]
    losses.py --gathers [--steps 1000] ...

Without a pattern all jobs with gradients run, plain and under Cinch with compression always on, also with PyTorch's
older back end where that makes other calls. A loss is the mean of the last five steps of all ranks, or of all
steps, and what is compared are means over the seeds; what is known is printed and written after each of them. --gathers: sharded training, whose weights are gathered exactly and at 8, 6 and 4 bits.
"""
import argparse
import sys
import tempfile
from dataclasses import asdict, dataclass
from statistics import mean

import judge
import session
from registry import TRAINING
from session import environment  # emulator/torch/environment.py

GATHERS = {"exact": {}, "8 bits": {"CINCH_ALLGATHER": "y"}}
GATHERS |= {f"{bits} bits": {"CINCH_ALLGATHER": "y", "CINCH_RULES": f"q{bits} operation=AllGather"} for bits in (6, 4)}
SHARDED = ("fsdp2_units", "fsdp2_bf16", "deepspeed_zero3", "deepspeed_zero3_bf16")


@dataclass
class Result:
    """Of a job under Cinch; lists have an entry for each seed."""

    job: str
    setting: str
    plain: list
    cinch: list
    above: float | None  # how much higher the loss is in the end, as a share of plain's
    above_in_all: float | None  # and over all steps
    from_step: int | None  # the latest of all seeds
    share: float | None  # of the gradients' bytes when they ought to be known, the least of all seeds

    def line(self):
        if self.above is None:
            return f"{self.job:44} {self.setting:8} it did not end"
        return (f"{self.job:44} {self.setting:8} {mean(self.plain):8.4f} {mean(self.cinch):8.4f} {100 * self.above:+7.2f} %"
                f" {100 * self.above_in_all:+7.2f} %   from step {self.from_step}, {session.percent(self.share)}")


def result_of(job, setting, rows):
    """`rows`: of judge.py, one for each seed."""
    def of_all(name):
        return [getattr(row, name) for row in rows]

    def share_above(plain, cinch):
        return mean(cinch) / mean(plain) - 1 if None not in [*plain, *cinch] and mean(plain) else None

    plain, cinch, first, shares = map(of_all, ("plain_loss", "cinch_loss", "from_step", "compressed_when_known"))
    return Result(job, setting, plain, cinch, share_above(plain, cinch),
                  share_above(of_all("plain_mean_loss"), of_all("cinch_mean_loss")),
                  max(first) if all(first) else None, min(shares) if None not in shares else None)


def run_seed(prepared, patterns, settings, same, folder, old):
    """(setting, row of judge.py) of each job with gradients, back end and of `settings`, {name: variables}."""
    for ending in ("", "-old") if old else ("",):
        plain = session.run_variant(prepared, f"plain{ending}", folder, patterns, same)
        for setting, variables in settings.items():
            cinch = session.run_variant(prepared, f"cinch{ending}", f"{folder}/{setting}", patterns, same | variables)
            for row in judge.rows({f"plain{ending}": plain, f"cinch{ending}": cinch}):
                if row.has_gradients:
                    yield setting, row


def measure(prepared, options, patterns, steps):
    """(number of seeds, [Result]) after each seed."""
    rows, settings = {}, GATHERS if options.gathers else {"": {}}
    for seed in range(1, options.seeds + 1):
        with tempfile.TemporaryDirectory(prefix="losses.") as folder:
            same = {"JOB_STEPS": str(steps), "JOB_SEED": str(seed)}
            for setting, row in run_seed(prepared, patterns, settings, same, folder, old=not options.gathers):
                rows.setdefault((row.job, setting), []).append(row)
        yield seed, [result_of(*key, found) for key, found in rows.items()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("patterns", nargs="*", metavar="PATTERN")
    parser.add_argument("--gathers", action="store_true")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--build", help="folder of a build to use as it is")
    options = parser.parse_args()
    patterns = options.patterns or (SHARDED if options.gathers else (TRAINING,))
    steps = options.steps or (1000 if options.gathers else 200)
    prepared = environment.prepare(build=options.build)
    results = []
    for seeds, results in measure(prepared, options, patterns, steps):
        print(f"\nAfter {seeds} of {options.seeds} seeds:")
        for result in results:
            print(result.line(), flush=True)
        if options.json:
            command = f"tests/frameworks/losses.py{' --gathers' * options.gathers} --steps {steps} --seeds {seeds}"
            session.write_json(options.json, prepared, " ".join([command, *options.patterns]),
                               {"kind": "gathers" if options.gathers else "jobs", "steps": steps, "seeds": seeds,
                                "results": [asdict(result) for result in results]})
    return 0 if results and all(result.above is not None for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
