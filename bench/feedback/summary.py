#!/usr/bin/env python3
"""What the study found: every way of feedback beside the others, and what is outside of noise.

    summary.py RESULTS

reads the lines of study.py. Losses are held-out ones in percent over the run without compression
from the same start and with the same batches. The last line is a JSON object for bench/report.
"""

import json
import math
import pathlib
import statistics
import sys
from collections import defaultdict

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from lab.table import format_table  # noqa: E402

# Names of feedback by (gain, decay, weight), in the order of the table. A weight that is not 1 was
# tried and is not in the product: what a decoded value counts for where the residual is made.
FEEDBACK = {
    (0.0, 1.0, 1.0): "none",
    (0.02, 1.0, 1.0): ".02",
    (0.05, 1.0, 1.0): ".05",
    (0.1, 1.0, 1.0): ".1",
    (0.2, 1.0, 1.0): ".2",
    (0.4, 1.0, 1.0): ".4",
    (1.0, 1.0, 1.0): "full",
    (0.8, 0.8, 1.0): "decay .8",
    (0.1, 1.0, 0.85): ".1 x .85",
    (0.1, 1.0, 0.95): ".1 x .95",
    (0.1, 1.0, 1.06): ".1 x 1.06",
    (0.1, 1.0, 1.08): ".1 x 1.08",
    (0.1, 1.0, 1.12): ".1 x 1.12",
    (0.02, 0.98, 1.0): ".02, decay .98",
    (0.05, 0.95, 1.0): ".05, decay .95",
    (0.05, 0.9, 1.0): ".05, decay .9",
    (0.1, 0.9, 1.0): ".1, decay .9",
    (0.1, 0.8, 1.0): ".1, decay .8",
}
# What a setting consists of, with its usual values.
_SETTING = ("task", "steps", "ranks", "optimiser", "beta2", "rate", "clip")
_USUAL = {"ranks": 4, "optimiser": None, "beta2": 0.99, "rate": 1.0, "clip": None}
_FIGURES = ("nmse", "lp", "v", "residual_ratio", "bits")
# What counts as a difference: this many standard errors, and as much as rounding alone does.
ERRORS = 3.0
FLOOR = 0.4  # percent
# What CINCH_CODEC=auto chooses among (interpose/policy/precision/checkup.cc), where it compresses.
CHOSEN = {"h2", "h3", "h4", "q4", "q5", "q6", "q8"}
# The runs that show that 2 bits need feedback.
NEEDED = _USUAL | {"task": "lm", "steps": 600}
NEEDED_CODEC = "q2"


def automatic(codec):
    """The feedback that CINCH_ERROR_FEEDBACK=auto gives a codec (interpose/policy/policy.cc)."""
    if codec.startswith("sign"):
        return "decay .8"
    return "none" if codec.endswith("8") else ".1"


class Study:
    """Runs by setting, codec and feedback."""

    def __init__(self, rows):
        exact = {(setting_of(row), row["seed"]): row["loss"] for row in rows if not row["codec"]}
        self.cells = defaultdict(dict)  # (setting, coding) -> feedback -> seed -> percent
        self.figures = defaultdict(list)  # (setting, coding, feedback) -> rows
        for row in rows:
            if row["codec"] is None:
                continue
            setting, coding = setting_of(row), coding_of(row)
            percent = 100 * (_loss(row["loss"]) / exact[setting, row["seed"]] - 1)
            feedback = feedback_of(row)
            self.cells[setting, coding].setdefault(feedback, {})[row["seed"]] = percent
            self.figures[setting, coding, feedback].append(row)

    def scatter(self, setting):
        """The standard deviation of a difference between two ways of feedback, from all pairs of
        the task's runs of that length: three seeds alone do not tell it. The median, because what
        diverges scatters without bound; of the variances of three values, half are below ln 2 times
        the true one."""
        variances = [
            statistics.variance(differences)
            for (other, _), cell in self.cells.items()
            if _same_kind(setting, other)
            for differences in _all_differences(cell)
            if len(differences) > 1 and all(map(math.isfinite, differences))
        ]
        return math.sqrt(statistics.median(variances) / math.log(2)) if variances else math.inf


def setting_of(row):
    return tuple((name, row[name]) for name in _SETTING)


def feedback_of(row):
    """Its name."""
    return FEEDBACK[row["gain"], row["decay"], row.get("weight", 1.0)]


def coding_of(row):
    return row["codec"], row["gradient"], row["residual"], row.get("exact", 0), row.get("scattered", False)


def verdict(study, setting, coding, one, other):
    """How much more percent `one` has than `other`: (mean, standard error, what that means)."""
    cell = study.cells[setting, coding]
    seeds = sorted(cell[one].keys() & cell[other].keys())
    differences = [cell[one][seed] - cell[other][seed] for seed in seeds]
    mean = statistics.fmean(differences)
    error = study.scatter(setting) / math.sqrt(len(differences))
    return mean, error, word_for(mean, error)


def word_for(mean, error):
    """What a difference means: "equal" is within noise; "unknown" is where noise is."""
    if not math.isfinite(error):
        return "unknown"
    limit = max(ERRORS * error, FLOOR)
    return "worse" if mean > limit else "better" if mean < -limit else "equal"


def comparisons(study):
    """(setting, coding, other feedback, verdict on auto against it), where both were run."""
    for (setting, coding), cell in study.cells.items():
        auto = automatic(coding[0])
        for other in ("none", "full"):
            if other != auto and auto in cell and other in cell:
                yield setting, coding, other, verdict(study, setting, coding, auto, other)


def needed(rows):
    """Mean held-out losses; None where such runs are not there."""

    def mean(codec, feedback):
        chosen = [
            row["loss"]
            for row in rows
            if all(row[name] == value for name, value in NEEDED.items())
            and coding_of(row) == (codec, "fp32", "fp32", 0, False)
            and feedback_of(row) == feedback
        ]
        return round(statistics.fmean(chosen), 5) if chosen else None

    return {
        "without": mean(NEEDED_CODEC, "none"),
        "with": mean(NEEDED_CODEC, automatic(NEEDED_CODEC)),
        "fp32": mean(None, "none"),
    }


def loss_table(study):
    used = {name for cell in study.cells.values() for name in cell}
    names = [name for name in FEEDBACK.values() if name in used]
    lines = [("task, steps", "codec", "seeds", *names)]
    for (setting, coding), cell in study.cells.items():
        cells = [_percent(cell[name]) if name in cell else "" for name in names]
        seeds = {seed for by_seed in cell.values() for seed in by_seed}
        lines.append((describe(setting), describe_coding(coding), str(len(seeds)), *cells))
    return format_table(lines)


def figure_table(study):
    lines = [("task, steps", "codec", "feedback", "NMSE", "LP", "V", "|e|/|g|", "bits")]
    for (setting, coding, feedback), rows in study.figures.items():
        means = [statistics.fmean(row[name] for row in rows) for name in _FIGURES]
        cells = [f"{mean:.3g}" for mean in means]
        lines.append((describe(setting), describe_coding(coding), feedback, *cells))
    return format_table(lines)


def verdict_table(study):
    lines = [("task, steps", "codec", "auto against", "difference", "")]
    for setting, coding, other, (mean, error, word) in comparisons(study):
        difference = f"{mean:+.2f} +- {error:.2f}"
        lines.append((describe(setting), describe_coding(coding), other, difference, word))
    return format_table(lines)


def describe(setting):
    values = dict(setting)
    text = f"{values.pop('task')} {values.pop('steps')}"
    changed = [f"{name} {value}" for name, value in values.items() if value != _USUAL[name]]
    return ", ".join([text, *changed])


def describe_coding(coding):
    text, gradient, residual, exact, scattered = coding
    if scattered:
        text += ", scattered"
    if gradient != "fp32":
        text += f" of {gradient}"
    if residual != "fp32":
        text += f", {residual} residuals"
    return f"{text}, from step {exact}" if exact else text


def report(study, rows):
    """For bench/report. `worse` names what automatic feedback spoils with any codec; whether it is
    never worse is said of the codecs that Cinch chooses by itself."""
    worse = [
        (coding[0], f"{describe(setting)} {describe_coding(coding)} than {other}: {mean:+.2f} %")
        for setting, coding, other, (mean, _, word) in comparisons(study)
        if word == "worse"
    ]
    return {
        "needed": needed(rows),
        "auto_never_worse": not any(codec in CHOSEN for codec, _ in worse),
        "worse": [text for _, text in worse],
    }


def main(path):
    with open(path) as file:
        rows = [json.loads(line) for line in file]
    study = Study(rows)
    print("Held-out loss, percent over no compression\n\n" + loss_table(study))
    print("\nFeedback 'auto' against none and full\n\n" + verdict_table(study))
    print("\nThe reduced gradient, mean over the run\n\n" + figure_table(study) + "\n")
    print(json.dumps(report(study, rows)))


def _same_kind(setting, other):
    return all(dict(setting)[name] == dict(other)[name] for name in ("task", "steps"))


def _all_differences(cell):
    """Of each pair of ways of feedback, the differences by seed."""
    names = sorted(cell)
    for i, one in enumerate(names):
        for other in names[:i]:
            seeds = cell[one].keys() & cell[other].keys()
            yield [cell[one][seed] - cell[other][seed] for seed in seeds]


def _percent(by_seed):
    values = list(by_seed.values())
    text = f"{statistics.fmean(values):+.2f}"
    if len(values) == 1:
        return text
    return f"{text} +- {statistics.stdev(values) / math.sqrt(len(values)):.2f}"


def _loss(value):
    """A run that diverged has none."""
    return math.inf if value is None else value


if __name__ == "__main__":
    main(sys.argv[1])
