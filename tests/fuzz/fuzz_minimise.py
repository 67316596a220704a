"""Makes a failing program shorter."""

import re
import subprocess


def steps_of(options):
    command = [options.rank, "--print", str(options.seed), "--without", options.without]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return sorted({int(step) for step in re.findall(r"^step (\d+)", text, re.MULTILINE)})


def is_legal(options, drop):
    command = [options.rank, "--legal", str(options.seed), "--drop", drop, "--without", options.without]
    return subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode == 0


def minimise(options, fails):
    """Steps to leave out, as for --drop: ever smaller runs of steps are tried, from the last one on."""
    kept, dropped = steps_of(options), []
    size = len(kept) // 2
    while size >= 1:
        for first in range(len(kept) - size, -size, -size):
            run = kept[max(first, 0):first + size]
            drop = ",".join(map(str, sorted(dropped + run)))
            if run and is_legal(options, drop) and fails(drop):
                dropped += run
                kept = [step for step in kept if step not in run]
        size //= 2
    return ",".join(map(str, sorted(dropped)))
