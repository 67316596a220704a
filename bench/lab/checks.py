"""What must hold for a run to count, each with its figure. Pure functions on the summaries."""

from dataclasses import dataclass, replace

# Of the residual's own norm: fp32 sums of a few dozen steps round by far less, a lost tile by far
# more.
RESIDUAL_TOLERANCE = 1e-3

# auto chooses its precision once in 200 calls, for the error of all shards together: that of the
# quietest shards is above the mean.
_MOST_OVER_PREDICTED = {"q8": 2, "q4": 2, "auto": 4}


@dataclass(frozen=True)
class Check:
    name: str
    figure: str
    limit: str
    passed: bool | None  # None: not judged


def at_most(name, value, limit, unit=""):
    return Check(name, f"{value:.3f}{unit}", f"at most {limit:g}{unit}", value <= limit)


def at_least(name, value, limit, unit=""):
    return Check(name, f"{value:.3f}{unit}", f"at least {limit:g}{unit}", value >= limit)


def _within(name, value, low, high):
    return Check(name, f"{value:.3f}", f"{low:g} to {high:g}", low <= value <= high)


def _loss_distance(rows, name, percent):
    distance = 100 * abs(rows[name]["loss"] / rows["fp32"]["loss"] - 1)
    return at_most(f"{name}: distance of the held-out loss from fp32's", distance, percent, " %")


def time_checks(rows, bounds):
    """Only where links have a known rate."""
    return [
        at_most(
            "fp32: communication over its bound", rows["fp32"]["comm_ms"] / bounds["fp32"], 1.15
        ),
        at_most("q4: communication over its bound", rows["q4"]["comm_ms"] / bounds["q4"], 1.6),
        at_least(
            "q4: communication shorter than fp32's",
            rows["fp32"]["comm_ms"] / rows["q4"]["comm_ms"],
            4,
            "x",
        ),
        at_least(
            "auto: communication shorter than fp32's",
            rows["fp32"]["comm_ms"] / rows["auto"]["comm_ms"],
            4,
            "x",
        ),
    ]


def not_judged(results):
    return [replace(check, passed=None) for check in results]


def failed(results):
    return [check for check in results if check.passed is False]


def wire_checks(rows):
    return [
        at_least(
            "q4: wire bytes fewer than fp32's",
            rows["fp32"]["wire_bytes"] / rows["q4"]["wire_bytes"],
            7,
            "x",
        ),
        at_least(
            "q4: wire bytes fewer than bf16's",
            rows["bf16"]["wire_bytes"] / rows["q4"]["wire_bytes"],
            3.5,
            "x",
        ),
        at_least(
            "auto: wire bytes fewer than fp32's",
            rows["fp32"]["wire_bytes"] / rows["auto"]["wire_bytes"],
            9,
            "x",
        ),
    ]


def loss_checks(rows):
    fall = 100 * (1 - rows["fp32"]["loss"] / rows["fp32"]["loss_first"])
    return [
        at_least("fp32: fall of the held-out loss", fall, 40, " %"),
        _loss_distance(rows, "q8", 0.3),
        _loss_distance(rows, "q4", 1),
        _loss_distance(rows, "auto", 1),
    ]


def codec_checks(rows):
    """That the codec acts at all: a codec that does nothing leaves a perfect loss."""
    checks = []
    for name, most in _MOST_OVER_PREDICTED.items():
        row = rows[name]
        for stage, label in (("nmse", "encode"), ("nmse_reduce", "reduce")):
            checks.append(
                _within(
                    f"{name}: reported over predicted error, {label}",
                    row[stage] / row[stage + "_expected"],
                    0.5,
                    most,
                )
            )
    return checks


def residual_check(norms):
    share = norms["unexplained"] / norms["kept"] if norms["kept"] > 0 else float("inf")
    return Check(
        "q4: sum(in) - sum(out) - residual, over the residual",
        f"{share:.2e}",
        f"at most {RESIDUAL_TOLERANCE:g}",
        share <= RESIDUAL_TOLERANCE and norms["outputs_equal"],
    )


def identical_check(rows):
    different = [name for name, row in rows.items() if len(set(row["hashes"])) != 1]
    return Check(
        "parameters identical on all ranks",
        ", ".join(different) or "all variants",
        "all variants",
        not different,
    )
