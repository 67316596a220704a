"""The outcome of a comparison, for people and as JSON. Pure functions."""

from lab import checks, table

_COLUMNS = (
    "",
    "step",
    "communication",
    "its bound",
    "wire bytes / step",
    "whole run",
    "held-out loss",
)


def format_rows(rows, bounds):
    """The table of variants. "whole run" is how many times fewer bytes than fp32 the run sent."""
    lines = [_COLUMNS]
    for name, row in rows.items():
        whole = rows["fp32"]["wire_bytes_whole_run"] / row["wire_bytes_whole_run"]
        lines.append(
            (
                name,
                f"{row['step_ms']:.0f} ms",
                f"{row['comm_ms']:.0f} ms",
                f"{bounds[name]:.0f} ms" if name in bounds else "-",
                table.format_bytes(row["wire_bytes"]),
                f"{whole:.2f}x fewer",
                f"{row['loss']:.4f}",
            )
        )
    return table.format_table(lines)


def format_checks(results):
    lines = [("check", "figure", "wanted", "")]
    lines += [
        (check.name, check.figure, check.limit, "pass" if check.passed else "FAIL")
        for check in results
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
