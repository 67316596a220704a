"""The figures of jobs and of the whole comparison, from what ranks print and what Cinch reports.
Pure functions."""

import json
import math
from statistics import mean, median

from lab import table

REPORT_FORMAT = 2


class FigureError(Exception):
    """A job has not left what a finished one leaves; the text says what is missing."""


def parse_records(lines):
    """The lines of JSON among whatever else a rank prints."""
    records = []
    for line in lines:
        if line.startswith("{"):
            try:
                records.append(json.loads(line))
            except ValueError:
                continue
    return records


def final_of(records, steps):
    final = records[-1] if records else {}
    if not final.get("final"):
        raise FigureError(f"rank 0 ended without its last line, after {len(records)} lines of JSON")
    if final["steps"] != steps:
        raise FigureError(f"rank 0 made {final['steps']} steps instead of {steps}")
    return final


def unit_of(final):
    """("tokens", how many per second)"""
    for name, value in final.items():
        if name.endswith("_per_second"):
            return name.removesuffix("_per_second"), value
    raise FigureError("rank 0's last line does not say how much it did per second")


def sum_reports(reports):
    """What Cinch's reports of all ranks say together, as {"compressed_calls": .., "passed": ..}."""
    totals, passed = {}, {}
    for report in reports:
        if report.get("format") != REPORT_FORMAT:
            raise FigureError(f"a report of format {report.get('format')}, not {REPORT_FORMAT}")
        for name, value in report["totals"].items():
            totals[name] = totals.get(name, 0) + value
        for communicator in report["communicators"]:
            for reason, entry in communicator["passed"].items():
                passed[reason] = passed.get(reason, 0) + entry["calls"]
    return totals | {"passed": passed}


def seconds_to(checkpoints, loss):
    """When the held-out loss first was this low, on straight lines between checkpoints; or None."""
    before = None
    for point in checkpoints:
        if point["loss"] <= loss:
            if before is None:
                return point["seconds"]
            share = (before["loss"] - loss) / (before["loss"] - point["loss"])
            return before["seconds"] + share * (point["seconds"] - before["seconds"])
        before = point
    return None


def default_target(runs):
    """The lowest loss that every run has reached; None where one never was a number."""
    lowest = [min(filter(math.isfinite, losses_of(run)), default=math.inf) for run in runs]
    return max(lowest) if all(map(math.isfinite, lowest)) else None


def losses_of(run):
    return [point["loss"] for point in run["final"]["checkpoints"]]


def summarise(runs, target):
    """{variant: its row}; the runs of all rounds, variants in the order of the first round. The last
    round may have come to no end."""
    first = runs[0]["variant"]
    base = {run["round"]: step_of(run) for run in runs if run["variant"] == first}
    names = dict.fromkeys(run["variant"] for run in runs)
    return {
        name: _row([run for run in runs if run["variant"] == name], base, target) for name in names
    }


def step_of(run):
    return run["final"]["step_seconds"]


def _row(runs, base, target):
    """Times are medians over the rounds, losses means; a ratio is taken within its round, where that
    has the first variant already."""
    finals = [run["final"] for run in runs]
    times = [seconds_to(final["checkpoints"], target) if target else None for final in finals]
    return {
        "step_ms": 1e3 * median(map(step_of, runs)),
        "step_ratio": median(
            step_of(run) / base[run["round"]] for run in runs if run["round"] in base
        ),
        "unit": unit_of(finals[0])[0],
        "per_second": median(unit_of(final)[1] for final in finals),
        "wire_bytes": median_or_none(final["wire_bytes_per_step"] for final in finals),
        "cinch_wire_bytes": median_or_none(map(cinch_bytes_per_step, runs)),
        "loss": mean(final["checkpoints"][-1]["loss"] for final in finals),
        "seconds_to_target": median_or_none(times),
    }


def cinch_bytes_per_step(run):
    """What a rank sent in compressed calls, spread over all steps of the job."""
    if not run.get("cinch"):
        return None
    return run["cinch"]["wire_bytes"] / run["final"]["ranks"] / run["final"]["steps"]


def median_or_none(values):
    values = list(values)
    return None if None in values else median(values)


def problems(runs):
    """What makes a comparison worthless, as sentences."""
    for run in runs:
        who = f"{run['variant']}, round {run['round']}"
        if run["final"].get("ranks_identical") is False:
            yield f"{who}: the ranks ended with different parameters"
        if not all(map(math.isfinite, losses_of(run))):
            yield f"{who}: a loss is no number"
        if run.get("cinch") and not run["cinch"]["compressed_calls"]:
            why = ", ".join(f"{reason} {n}" for reason, n in run["cinch"]["passed"].items())
            yield f"{who}: Cinch compressed nothing; calls that passed: {why or 'none'}"


def format_rows(rows, target):
    first = next(iter(rows.values()))
    goal = f"to {target:.4g}" if target else "to target"
    base = f"of {next(iter(rows))}'s"
    lines = [
        ("", "step", base, f"{first['unit']}/s", "wire bytes/step", "Cinch's part", "loss", goal)
    ]
    lines += [_cells(name, row) for name, row in rows.items()]
    return table.format_table(lines)


def _cells(name, row):
    wire, ours, seconds = (
        row[key] for key in ("wire_bytes", "cinch_wire_bytes", "seconds_to_target")
    )
    return (
        name,
        f"{row['step_ms']:.1f} ms",
        f"{row['step_ratio']:.3f}",
        f"{row['per_second']:.0f}",
        "-" if wire is None else table.format_bytes(wire),
        "-" if ours is None else table.format_bytes(ours),
        f"{row['loss']:.4f}",
        "-" if seconds is None else f"{seconds:.1f} s",
    )
