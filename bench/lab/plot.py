"""Held-out loss against wall time, drawn by gnuplot."""

import os
import shutil
import subprocess


def _terminal():
    """What this gnuplot can draw: PNG where possible."""
    known = subprocess.run(
        ["gnuplot", "-e", "set terminal"], capture_output=True, text=True, stdin=subprocess.DEVNULL
    ).stderr
    names = {line.split()[0] for line in known.splitlines() if line.split()}
    for terminal, ending in (("pngcairo", "png"), ("png", "png"), ("svg", "svg")):
        if terminal in names:
            return terminal, ending
    return None, None


def _script(terminal, output, title, curves):
    lines = [
        f"set terminal {terminal} size 900,560",
        f"set output '{output}'",
        f"set title '{title}'",
        "set xlabel 'training time, seconds'",
        "set ylabel 'held-out loss, nats per byte'",
        "set grid",
        "set key top right",
    ]
    for name, points in curves.items():
        lines.append(f"${name} << END")
        lines += [f"{x:.3f} {y:.6f}" for x, y in points]
        lines.append("END")
    lines.append(
        "plot "
        + ", ".join(f"${name} with linespoints linewidth 2 title '{name}'" for name in curves)
    )
    return "\n".join(lines) + "\n"


def draw(path_without_ending, title, curves):
    """Returns the path of the picture, or None and the reason where there is none."""
    if shutil.which("gnuplot") is None:
        return None, "gnuplot is not installed"
    terminal, ending = _terminal()
    if terminal is None:
        return None, "this gnuplot draws neither PNG nor SVG"
    path = f"{path_without_ending}.{ending}"
    if os.path.exists(path):
        os.remove(path)
    done = subprocess.run(
        ["gnuplot"],
        input=_script(terminal, path, title.replace("'", ""), curves),
        capture_output=True,
        text=True,
    )
    if done.returncode != 0 or not os.path.exists(path):
        return None, f"gnuplot failed: {done.stderr.strip()}"
    return path, None
