#!/usr/bin/env python3
"""Runs random NCCL programs without Cinch, with Cinch switched off and with Cinch compressing, and
compares what they do. README.md says how to read and replay a failure.

    fuzz_driver.py --programs 300 [--seed FIRST] [--jobs 2] --rank build/tests/fuzz_rank --preload LIBCINCH

The last line is JSON: {"programs":N,"failures":N,"compressed_calls":N,"first_seed":N}.
"""

import argparse
import json
import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

from fuzz_compare import compare_modes, compressed_calls
from fuzz_minimise import minimise
from fuzz_run import CONFIGURATIONS, PLAIN, OFF, config_of, replay_command, run_batch

BATCH = 25  # programs that one fuzz_rank runs
SHARE_COMPRESSED = 0.4  # of all programs, at least


def check_batch(options, config, seeds, folder):
    """[(seed, [what is wrong], number of compressed results)] of programs of one configuration."""
    runs = [run_batch(options, mode, seeds, folder) for mode in (PLAIN, OFF, config)]
    verdicts = []
    for seed in seeds:
        plain, off, on = (run[seed] for run in runs)
        wrong = compare_modes(plain, off, on, config)
        verdicts.append((seed, wrong, compressed_calls(plain, on)))
    return verdicts


def batches_of(options):
    by_config = {config.name: [] for config in CONFIGURATIONS}
    for seed in range(options.seed, options.seed + options.programs):
        by_config[(options.config or config_of(seed).name)].append(seed)
    for config in CONFIGURATIONS:
        seeds = by_config[config.name]
        for first in range(0, len(seeds), BATCH):
            yield config, seeds[first:first + BATCH]


def tell(options, seed, wrong):
    print(f"FAILED program {seed}:")
    for line in wrong[:12]:
        print(f"    {line}")
    if len(wrong) > 12:
        print(f"    and {len(wrong) - 12} more")
    print(f"    replay: {replay_command(options, seed)}", flush=True)


def minimised(options, folder):
    """The steps that the program can do without and still fail."""
    config = next(c for c in CONFIGURATIONS if c.name == (options.config or config_of(options.seed).name))

    def fails(drop):
        options.drop = drop
        return bool(check_batch(options, config, [options.seed], folder)[0][1])

    return minimise(options, fails)


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1, help="of the first program")
    parser.add_argument("--jobs", type=int, default=2, help="programs that run at once")
    parser.add_argument("--config", choices=[c.name for c in CONFIGURATIONS], help="instead of one by seed")
    parser.add_argument("--drop", default="", help="leave out these steps: 5,6,9")
    parser.add_argument("--without", default="", help="features that are not used: graphs,splits")
    parser.add_argument("--deadline", type=int, default=60, help="seconds for one program")
    parser.add_argument("--verbose", action="store_true", help="print the programs and all output")
    parser.add_argument("--minimise", action="store_true", help="drop steps while program --seed still fails")
    parser.add_argument("--rank", required=True, help="the fuzz_rank program")
    parser.add_argument("--preload", required=True, help="what goes into LD_PRELOAD")
    return parser.parse_args(arguments)


def main(arguments):
    options = parse(arguments)
    results = []
    if options.minimise:
        with tempfile.TemporaryDirectory() as folder:
            options.drop = minimised(options, folder)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        for verdicts in pool.map(lambda job: check_batch(options, *job, folder), batches_of(options)):
            for seed, wrong, _ in verdicts:
                if wrong:
                    tell(options, seed, wrong)
            results += verdicts
    failures = sum(1 for _, wrong, _ in results if wrong)
    compressing = sum(1 for _, _, compressed in results if compressed > 0)
    print(f"{compressing} of {len(results)} programs had compressed results")
    print(json.dumps({"programs": len(results), "failures": failures,
                      "compressed_calls": sum(compressed for _, _, compressed in results),
                      "first_seed": options.seed}, separators=(",", ":")))
    enough = options.programs < 20 or compressing >= SHARE_COMPRESSED * len(results)
    if not enough:
        print("too few programs compressed anything", file=sys.stderr)
    return 0 if failures == 0 and enough else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
