#!/usr/bin/env python3
"""Runs random NCCL programs without Cinch, with Cinch switched off and with Cinch compressing, and
compares what they do. README.md says how to read and replay a failure.

    fuzz_driver.py --programs 300 [--seed FIRST] [--jobs 2] --rank build/tests/fuzz_rank --preload LIBCINCH

The last line is JSON: {"programs":N,"failures":N,"compressed_calls":N,"first_seed":N}.
"""

import argparse
import json
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

from fuzz_compare import compare_modes, compressed_calls
from fuzz_minimise import minimise
from fuzz_run import CONFIGURATIONS, PLAIN, OFF, config_of, replay_command, run_batch

BATCH = 25  # programs that one fuzz_rank runs
SHARE_COMPRESSED = 0.4  # of all programs, at least
ENOUGH = 20  # programs to expect that of; and of one configuration, that any had compressed results


def check_batch(options, config, seeds, folder):
    """[(seed, [what is wrong], number of compressed results)] of programs of one configuration."""
    runs = [run_batch(options, mode, seeds, folder) for mode in (PLAIN, OFF, config)]
    verdicts = []
    for seed in seeds:
        plain, off, on = (run[seed] for run in runs)
        wrong = compare_modes(plain, off, on, config)
        verdicts.append((seed, wrong, compressed_calls(plain, on)))
    return verdicts


def name_of_config(options, seed):
    return options.config or config_of(seed).name


def batches_of(options):
    by_config = {config.name: [] for config in CONFIGURATIONS}
    for seed in range(options.seed, options.seed + options.programs):
        by_config[name_of_config(options, seed)].append(seed)
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
    config = next(c for c in CONFIGURATIONS if c.name == name_of_config(options, options.seed))

    def fails(drop):
        options.drop = drop
        return bool(check_batch(options, config, [options.seed], folder)[0][1])

    return minimise(options, fails)


def too_idle(options, results):
    """What compressed too little, as sentences."""
    by_config = {}
    for seed, _, compressed in results:
        by_config.setdefault(name_of_config(options, seed), []).append(compressed > 0)
    for name, shares in by_config.items():
        print(f"{name}: {sum(shares)} of {len(shares)} programs had compressed results")
        if len(shares) >= ENOUGH and not any(shares):
            yield f"{name} compressed nothing"
    if len(results) >= ENOUGH and sum(map(sum, by_config.values())) < SHARE_COMPRESSED * len(results):
        yield "too few programs compressed anything"


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
    idle = list(too_idle(options, results))
    for sentence in idle:
        print(sentence, file=sys.stderr)
    print(json.dumps({"programs": len(results), "failures": failures,
                      "compressed_calls": sum(compressed for _, _, compressed in results),
                      "first_seed": options.seed}, separators=(",", ":")))
    return 1 if failures or idle else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
