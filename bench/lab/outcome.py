"""The outcome of a comparison, for people and as JSON. Pure functions."""

from lab import checks, table

# Widths are fixed, because every row is printed before the next one is known.
_COLUMNS = {
    "": 4,
    "step": 9,
    "communication": 13,
    "its bound": 9,
    "wire bytes / step": 17,
    "whole run": 13,
    "held-out loss": 13,
}
_RESULTS = {True: "pass", False: "FAIL", None: "the machine was busy: not judged"}


def format_heading():
    return table.format_heading(list(_COLUMNS), list(_COLUMNS.values()))


def format_row(name, rows, bounds):
    """A row of the table of variants. "whole run" is how many times fewer bytes than fp32 the run
    sent."""
    row = rows[name]
    cells = (
        name,
        f"{row['step_ms']:.0f} ms",
        f"{row['comm_ms']:.0f} ms",
        f"{bounds[name]:.0f} ms" if name in bounds else "-",
        table.format_bytes(row["wire_bytes"]),
        f"{rows['fp32']['wire_bytes_whole_run'] / row['wire_bytes_whole_run']:.2f}x fewer",
        f"{row['loss']:.4f}",
    )
    return table.format_row(cells, list(_COLUMNS.values()))


def format_checks(results):
    lines = [("check", "measured", "wanted", "")]
    lines += [
        (check.name, check.figure, check.limit, _RESULTS[check.passed]) for check in results
    ]
    return table.format_table(lines)


def to_json(rows, bounds, results):
    def over_bound(name):
        return rows[name]["comm_ms"] / bounds[name] if name in bounds else None

    return {
        **rows,
        "bounds_ms": bounds,
        "fp32_vs_bound": over_bound("fp32"),
        "q4_vs_bound": over_bound("q4"),
        "loss_first": rows["fp32"]["loss_first"],
        "ranks_identical": checks.identical_check(rows).passed,
        "checks": [vars(check) for check in results],
    }
