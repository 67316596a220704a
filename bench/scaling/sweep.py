"""From 2 to 4,096 ranks."""

from lab.table import format_table

MOST_RANKS = 4096
SCHEMES = ("pair", "flat", "hierarchical", "grid")
SHOWN_ERRORS = ("flat", "hierarchical", "grid")


def rank_counts(ranks_per_host):
    """Powers of 2, on two hosts at least."""
    ranks = max(2, 2 * ranks_per_host)
    while ranks <= MOST_RANKS:
        yield ranks
        ranks *= 2


def _row(question, schemes):
    exact = min((s for s in schemes.values() if s["exact"]), key=lambda s: s["seconds"])
    row = {
        "ranks": question["ranks"],
        "hosts": question["hosts"],
        "exact": exact["scheme"],
        "exact_s": exact["seconds"],
    }
    for name in SCHEMES:
        found = schemes.get(name)
        row[name] = found and {
            key: found[key] for key in ("seconds", "wire_s", "latency_s", "codec_s", "nmse")
        }
    row["fastest"] = min(schemes.values(), key=lambda s: s["seconds"])["scheme"]
    executed = [s for s in schemes.values() if s["in_this_version"]]
    row["fastest_in_this_version"] = min(executed, key=lambda s: s["seconds"])["scheme"]
    return row


def sweep(model, facts, ranks_per_host):
    """A row for each number of ranks. `facts` is a question without ranks and hosts."""
    questions = [
        facts | {"ranks": ranks, "hosts": ranks // ranks_per_host}
        for ranks in rank_counts(ranks_per_host)
    ]
    return [_row(q, schemes) for q, schemes in zip(questions, model.predict(questions))]


def table(rows):
    heading = ("ranks", "hosts", "plain ms", "by", *(f"{scheme} ms" for scheme in SCHEMES))
    texts = [(*heading, *(f"NMSE {scheme}" for scheme in SHOWN_ERRORS), "fastest")]
    for row in rows:
        times = [f"{1e3 * row[s]['seconds']:.2f}" if row[s] else "-" for s in SCHEMES]
        errors = [
            f"{row[s]['nmse']:.2e}" if row[s] and row[s]["nmse"] is not None else "-"
            for s in SHOWN_ERRORS
        ]
        plain = (f"{1e3 * row['exact_s']:.2f}", row["exact"])
        texts.append((str(row["ranks"]), str(row["hosts"]), *plain, *times, *errors, row["fastest"]))
    return format_table(texts)
