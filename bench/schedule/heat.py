"""The grid as a table and as heat maps, in Markdown."""

# Of a time beside another one, from the best to the worst.
_SHADES = ((0.5, "🟦"), (0.95, "🟩"), (1.05, "⬜"), (1.1, "🟨"), (float("inf"), "🟥"))


def size_text(n_bytes):
    return f"{n_bytes >> 20}M" if n_bytes >= 1 << 20 else f"{n_bytes >> 10}K"


def shade(ratio):
    return next(text for limit, text in _SHADES if ratio <= limit)


def job_text(cell):
    return f"{cell['hosts']}x{cell['ranks_per_host']} {cell['type']}"


def table(cells):
    names = list(cells[0]["variants"])
    lines = [
        "| link | job | bytes | " + " | ".join(f"{name}, ms" for name in names)
        + " | auto does | auto / pass | auto / best |",
        "|" + "---|" * (len(names) + 6),
    ]
    for cell in cells:
        times = [f"{1e3 * cell['variants'][name]['seconds']:.2f}" for name in names]
        does = "pass" if cell["variants"]["auto"]["passed"] > 0.5 else "compress"
        lines.append(
            f"| {cell['link']} | {job_text(cell)} | {size_text(cell['bytes'])} | "
            + " | ".join(times)
            + f" | {does} | {cell['vs_pass']:.2f} | {cell['vs_best']:.2f} |"
        )
    return "\n".join(lines) + "\n"


def maps(cells):
    """auto's time by plain NCCL's, and by the best fixed choice's: rates and jobs down, sizes
    across."""
    sizes = sorted({cell["bytes"] for cell in cells})
    rows = {}
    for cell in cells:
        rows.setdefault((cell["link"], job_text(cell)), {})[cell["bytes"]] = cell
    lines = []
    for name, title in (("vs_pass", "auto / pass"), ("vs_best", "auto / best")):
        lines += [f"{title}: 🟦 to .5, 🟩 to .95, ⬜ to 1.05, 🟨 to 1.1, 🟥 above", ""]
        lines += ["| link | job | " + " | ".join(map(size_text, sizes)) + " |"]
        lines += ["|" + "---|" * (len(sizes) + 2)]
        for (link, job), row in rows.items():
            shades = [f"{shade(row[size][name])} {row[size][name]:.2f}" for size in sizes]
            lines.append(f"| {link} | {job} | " + " | ".join(shades) + " |")
        lines.append("")
    return "\n".join(lines)
