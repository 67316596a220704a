"""Pieces of a page: the same text for the same figures, on every machine."""


def table(head, rows):
    """A table; the cells of the first column are words, all others figures."""
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def chart(title, x_title, labels, y_title, curves):
    """Curves over labels, drawn by whoever shows the page (Mermaid). {name: values}."""
    largest = max(value for values in curves.values() for value in values)
    lines = [
        "```mermaid",
        "xychart-beta",
        f'  title "{title}"',
        f'  x-axis "{x_title}" [{", ".join(labels)}]',
        f'  y-axis "{y_title}" 0 --> {figure(largest * 1.05)}',
    ]
    for values in curves.values():
        lines.append(f"  line [{', '.join(figure(value) for value in values)}]")
    names = "; ".join(f"line {i} is {name}" for i, name in enumerate(curves, 1))
    return "\n".join([*lines, "```", "", f"From the first to the last: {names}."])


def figure(value):
    """Three digits."""
    if value is None:
        return "-"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def count(value):
    """1,024 as 1 Ki, where it is that."""
    for unit, size in (("Mi", 1 << 20), ("Ki", 1 << 10)):
        if value >= size and value % size == 0:
            return f"{value // size} {unit}"
    return str(value)


def yes(value):
    return {True: "yes", False: "**no**", None: "not run"}[value]
