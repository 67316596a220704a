"""Plain-text tables."""


def format_table(rows):
    """Rows of equal length, the first of them the heading: the first column to the left, the others
    to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [format_row(row, widths) for row in rows[1:]]
    return "\n".join([format_heading(rows[0], widths), *lines])


def format_heading(cells, widths):
    return f"{format_row(cells, widths)}\n  {'  '.join('-' * width for width in widths)}"


def format_row(cells, widths):
    aligned = [
        cell.ljust(width) if column == 0 else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(cells, widths))
    ]
    return "  " + "  ".join(aligned).rstrip()


def format_bytes(number):
    for unit in ("B", "kB", "MB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.2f} {unit}"
        number /= 1000
    return f"{number:.2f} GB"
