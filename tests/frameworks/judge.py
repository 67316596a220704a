"""What is right and what is wrong with a job's runs, one row for each job and back end.

A run is what worker.py printed for a job. The rows are what docs/frameworks.md shows and what the test
compares with known_failures.py.
"""
from dataclasses import asdict, dataclass, field

from known_failures import COMPRESSED, EXACT, KNOWN_FAILURES, LOSS
from truth import KNOWN_BY

# Of the gradients' bytes in the last third of the steps, where a step or two after an evaluation may pass.
ENOUGH_COMPRESSED = 0.75
# And of those from step KNOWN_BY on; an evaluation every ten steps may hide one of them.
LEAST_COMPRESSED, LEAST_WITH_EVALUATIONS = 0.95, 0.90

# How much higher the loss may be under Cinch, as a share of plain's. Where plain's is close to 0, a share of
# it says nothing.
LOSS_TOLERANCE, LOSS_NOISE = 0.05, 0.02


@dataclass
class Row:
    job: str
    family: str = ""
    compressible: bool = True
    indistinct: str = ""  # why gradients may pass though they could be compressed
    late: str = ""  # why they may pass for longer than KNOWN_BY steps
    has_gradients: bool = False  # of 64 KiB and more, on more than one rank
    # Of the last five steps, and of all.
    plain_loss: float | None = None
    cinch_loss: float | None = None
    plain_mean_loss: float | None = None
    cinch_mean_loss: float | None = None
    # Shares of the gradients' bytes that were compressed: over all steps, over the last third of them.
    compressed: float | None = None
    compressed_in_the_end: float | None = None
    from_step: int | None = None  # the first one that all ranks had compressed, counted from 1
    compressed_when_known: float | None = None  # from step truth.KNOWN_BY on; None: there are no such steps
    passed_because: str = ""  # the outcome of most gradients that passed in the end
    # Calls that carried anything else and were compressed, by what they carried.
    inexact_calls: dict = field(default_factory=dict)
    gloo: str = "not run"  # "equal", "different", or why it cannot be compared
    # Check by check, what is wrong.
    wrong: dict = field(default_factory=dict)
    known_failure: str = ""

    def as_json(self):
        return asdict(self)

    @property
    def unexpected(self):
        """Sentences: what is wrong and not known, what is known and not wrong, or wrong for another reason."""
        known = KNOWN_FAILURES.get(self.job)
        expected, allowed = (set(known.checks), {*known.checks, *known.may}) if known else (set(), set())
        found = [f"{check}: {text}" for check, text in self.wrong.items() if check not in allowed]
        found += [f"{check}: right now, and still listed in known_failures.py: take it off the list"
                  for check in sorted(expected - set(self.wrong)) if self.was_judged]
        if known and known.outcome and COMPRESSED in self.wrong and self.passed_because != known.outcome:
            found.append(f"{COMPRESSED}: they passed as {self.passed_because}, not as {known.outcome}")
        return found

    @property
    def was_judged(self):
        """Whether there was a run under Cinch that ended, with a call log."""
        return self.compressed is not None


def loss_of(run):
    return sum(rank["loss"] for rank in run["ranks"]) / len(run["ranks"])


def mean_loss_of(run):
    losses = [loss for rank in run["ranks"] for loss in rank["losses"]]
    return sum(losses) / len(losses) if losses else None


def has_ended(run):
    return not run["errors"]


def parameters(run):
    return [rank["parameters"] for rank in run["ranks"]]


def check_run(row, name, run):
    """What must hold of each run by itself."""
    if not has_ended(run):
        row.wrong[f"{name} ends"] = run["errors"][0].strip().splitlines()[-1]
    elif run["replicated"] and len(set(parameters(run))) > 1:
        row.wrong[f"{name} is the same on all ranks"] = "the final parameters differ"


def compare_with_gloo(row, plain, gloo):
    if "skipped" in gloo:
        row.gloo = gloo["skipped"]
        return
    check_run(row, "gloo", gloo)
    if not has_ended(plain) or not has_ended(gloo):
        return
    row.gloo = "equal" if parameters(plain) == parameters(gloo) else "different"
    if row.gloo == "different":
        row.wrong["plain equals gloo"] = "the final parameters differ"


def check_carried(row, cinch):
    """What was compressed, by the call logs of all ranks."""
    logs = [rank["carried"] for rank in cinch["ranks"] if rank["carried"]]
    if not logs:
        return
    whole, end = ([log[when]["gradients"] for log in logs if "gradients" in log[when]] for when in ("all", "end"))
    row.has_gradients = bool(whole)
    row.compressed, row.compressed_in_the_end = share(whole), share(end)
    known = [log["known"]["gradients"] for log in logs if "gradients" in log["known"]]
    row.compressed_when_known = share(known) if known else None
    first = [log["from_step"] for log in logs if "gradients" in log["all"]]
    row.from_step = max(first) if first and all(first) else None
    row.passed_because = most_frequent(end)
    if cinch["compressible"] and not cinch["indistinct"] and not is_compressed(row):
        row.wrong[COMPRESSED] = (
            f"{row.compressed:.0%} of their bytes, {row.compressed_in_the_end:.0%} in the last third of the steps; "
            f"from step {row.from_step} on, {row.compressed_when_known or 0:.0%} after step {KNOWN_BY}; "
            f"passed: {row.passed_because}")
    for log in logs:
        for what, found in log["all"].items():
            if what != "gradients" and found["compressed_calls"]:
                row.inexact_calls[what] = row.inexact_calls.get(what, 0) + found["compressed_calls"]
    if row.inexact_calls:
        row.wrong[EXACT] = ", ".join(
            f"{n} calls that carried {what} were compressed" for what, n in row.inexact_calls.items())


def is_compressed(row):
    if row.compressed_in_the_end < ENOUGH_COMPRESSED:
        return False
    if row.late or row.compressed_when_known is None:
        return True
    evaluates = row.family == "ddp_evaluations" or "evaluation" in row.job
    least = LEAST_WITH_EVALUATIONS if evaluates else LEAST_COMPRESSED
    return row.from_step is not None and row.from_step <= KNOWN_BY and row.compressed_when_known >= least


def most_frequent(found):
    """The outcome that most bytes of those that passed had."""
    sizes = {}
    for one in found:
        for outcome, size in one["passed"].items():
            sizes[outcome] = sizes.get(outcome, 0) + size
    return max(sizes, key=sizes.get, default="")


def share(found):
    whole = sum(one["bytes"] for one in found)
    return sum(one["compressed_bytes"] for one in found) / whole if whole else 0.0


def check_cinch(row, plain, cinch):
    check_run(row, "Cinch", cinch)
    if not has_ended(cinch):
        return
    row.cinch_loss, row.cinch_mean_loss = loss_of(cinch), mean_loss_of(cinch)
    check_carried(row, cinch)
    if not all(rank["intact"] for rank in cinch["ranks"]):
        row.wrong.setdefault(EXACT, "the job's own check of its sums failed")
    if has_ended(plain):
        above = row.cinch_loss - row.plain_loss
        if above > max(LOSS_TOLERANCE * abs(row.plain_loss), LOSS_NOISE):
            row.wrong[LOSS] = f"{row.cinch_loss:.4f} instead of {row.plain_loss:.4f}"


def judge(name, runs):
    """The row of a job on one back end; `runs`: by variant, of "plain", "cinch" and "gloo" those there are."""
    row = Row(name)
    if plain := runs.get("plain"):
        row.family, row.compressible = plain["family"], plain["compressible"]
        row.indistinct, row.late = plain["indistinct"], plain["late"]
        check_run(row, "plain", plain)
        if has_ended(plain):
            row.plain_loss, row.plain_mean_loss = loss_of(plain), mean_loss_of(plain)
        if "gloo" in runs:
            compare_with_gloo(row, plain, runs["gloo"])
        if "cinch" in runs:
            check_cinch(row, plain, runs["cinch"])
    if known := KNOWN_FAILURES.get(name):
        row.known_failure = known.right
    return row


def rows(results):
    """Of {variant: {job: run}}: all rows, those of the older back end with [old] behind the name."""
    found = []
    for ending, mark in (("", ""), ("-old", "[old]")):
        names = results.get(f"plain{ending}", {})
        for name, run in names.items():
            if "skipped" in run:
                continue
            variants = {"plain": f"plain{ending}", "cinch": f"cinch{ending}"}
            variants |= {"gloo": "gloo"} if not ending else {}
            found.append(judge(name + mark, {short: results[long][name] for short, long in variants.items()
                                             if name in results.get(long, {})}))
    return found
