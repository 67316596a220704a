#!/usr/bin/env python3
"""When error feedback helps, hurts, or does nothing: trains small models with simulated ranks.

    study.py BUILD RESULTS [GROUP ...]

runs the groups of matrix.py (default: all) that RESULTS, a file of JSON lines, does not hold yet,
with the codecs of the build folder (target cinch_feedback_codec), appends a line per run, and ends
with the tables of summary.py. It can be stopped and started again.
"""

import functools
import json
import os
import pathlib
import sys

# Before numpy: a run is deterministic, and one core's work.
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from feedback import codec, summary, trial  # noqa: E402
from feedback.matrix import GROUPS  # noqa: E402
from learning.tasks import TASKS  # noqa: E402


def read(path):
    """The finished runs, in order."""
    if not os.path.exists(path):
        return []
    with open(path) as file:
        return [json.loads(line) for line in file]


def trial_of(row):
    """Of a row, which may be older than a field."""
    names = trial.Trial.__dataclass_fields__.keys() & row.keys()
    return trial.Trial(**{name: row[name] for name in names})


@functools.cache
def data_of(task):
    return TASKS[task].data()


def main(build, results, *groups):
    library = codec.load(build)
    done = {trial_of(row).key() for row in read(results)}
    for group in groups or GROUPS:
        for each in GROUPS[group]:
            if each.key() in done:
                continue
            row = trial.run(each, data_of(each.task), library)
            done.add(each.key())
            with open(results, "a") as file:
                file.write(json.dumps(row) + "\n")
    summary.main(results)


if __name__ == "__main__":
    main(*sys.argv[1:])
