"""What Cinch did with a job, in one screen, from the report of rank 0."""
import glob
import json
import os
import re
import subprocess

# What fits on a screen with the rest.
MOST_CALLS = 8
MOST_TIMED = 3
MOST_REASONS = 3

# Frameworks exchange handfuls of integers besides: below this share of all bytes a call has no line of its own.
LEAST_SHARE = 0.001


def summary(folder, setting, tool):
    """The text. `folder` has the reports of all processes, `tool` is the program cinch, which knows the reasons."""
    found = find_first_rank(folder)
    if found is None:
        return ("== Cinch has nothing to report: the script made no NCCL communicator, or was ended before its first "
                "report")
    path, communicators = found
    lines = [f"== What Cinch did, as rank 0 saw it: {setting}"]
    lines += unusual_results(communicators)
    calls = merged_calls(communicators)
    lines += totals(calls, communicators)
    lines += call_table(calls)
    lines += timings(communicators)
    lines += reasons(calls, explanations(tool, path))
    return "\n".join(lines)


def find_first_rank(folder):
    """The path and the communicators of the process that is rank 0 of the largest communicator."""
    best, best_size = None, 0
    for path in sorted(glob.glob(os.path.join(folder, "*.json"))):
        try:
            with open(path) as file:
                communicators = json.load(file).get("communicators", [])
        except (OSError, ValueError):  # not a report, or not one of rank's
            continue
        size = max((each["ranks"] for each in communicators if each["rank"] == 0), default=0)
        if size > best_size:
            best, best_size = (path, communicators), size
    return best


def unusual_results(communicators):
    """Of the handshakes: only those that say more than that all is well."""
    return [f"{each['name']}: {each['verdict']}" for each in communicators
            if each["verdict"] != "all ranks run Cinch with the same settings"][:MOST_REASONS]


def merged_calls(communicators):
    """The calls of all communicators by name and class, the most bytes first."""
    merged = {}
    for communicator in communicators:
        for call in communicator["calls"]:
            into = merged.setdefault((call["name"], call["class"]), {
                "name": call["name"], "class": call["class"], "calls": 0, "bytes": 0, "compressed": 0, "outcomes": {}})
            for field in ("calls", "bytes", "compressed"):
                into[field] += call[field]
            for outcome, count in call["outcomes"].items():
                into["outcomes"][outcome] = into["outcomes"].get(outcome, 0) + count
    return sorted(merged.values(), key=lambda call: -call["bytes"])


def totals(calls, communicators):
    slots = [slot for communicator in communicators for slot in communicator["slots"]]
    compressed = sum(slot["bytes_in"] for slot in slots)
    everything = sum(call["bytes"] for call in calls)
    gradients = [call for call in calls if call["class"] == "gradient"]
    whole = sum(call["bytes"] for call in gradients)
    # All repetitions of a call have the same size.
    part = sum(call["bytes"] * call["compressed"] / call["calls"] for call in gradients)
    lines = [f"gradients       {amount(whole)}, {percent(part, whole)} of it compressed" if whole else
             "gradients       none recognised"]
    if compressed:
        bits = sum(slot["bytes_in"] * slot["bits_per_value"] for slot in slots) / compressed
        lines.append(f"compressed      {amount(compressed)}, to {bits:.2f} bits a value at the end")
    lines.append(f"all NCCL calls  {amount(everything)}")
    return lines


def call_table(calls):
    if not calls:
        return []
    least = LEAST_SHARE * sum(call["bytes"] for call in calls)
    shown = [call for call in calls if call["bytes"] >= least][:MOST_CALLS]
    rows = [("CALL", "TAKEN FOR", "CALLS", "BYTES", "COMPRESSED", "OTHERS PASSED FOR")]
    rows += [(call["name"], call["class"], str(call["calls"]), amount(call["bytes"]), str(call["compressed"]),
              ", ".join(passed_for(call)) or "-") for call in shown]
    others = calls[len(shown):]
    rest = [f"and {len(others)} others, {amount(sum(call['bytes'] for call in others))} in all"] if others else []
    return table(rows) + rest


def passed_for(call):
    """The reasons for which calls passed uncompressed, the most frequent first."""
    counts = {name: count for name, count in call["outcomes"].items() if name != "compressed"}
    return sorted(counts, key=lambda name: -counts[name])[:2]


def timings(communicators):
    """What training steps took plain and compressed, and how they are sent, where Cinch has timed it."""
    timed = [communicator for communicator in communicators if communicator["sending"]["examinations"]]
    timed.sort(key=lambda communicator: -communicator["totals"]["bytes_in"])
    rows = [("A STEP OF", "PLAIN", "STATELESS", "FULL", "SENT")]
    for communicator in timed[:MOST_TIMED]:
        sending = communicator["sending"]
        times = [f"{sending[kind]:.1f} ms" if sending[kind] else "-" for kind in ("plain_ms", "stateless_ms", "full_ms")]
        rows.append((communicator["name"], *times, sending["choice"]))
    return table(rows) if timed else []


def reasons(calls, explained):
    """Why what is or may be a gradient passed, by bytes, with what to do."""
    passed = {}
    for call in calls:
        if call["class"] in ("gradient", "unknown"):
            for name in passed_for(call):
                passed[name] = passed.get(name, 0) + call["bytes"] * call["outcomes"][name] / call["calls"]
    lines = []
    for name in sorted(passed, key=lambda name: -passed[name])[:MOST_REASONS]:
        lines += explained.get(name, [])
    return lines


def explanations(tool, path):
    """{reason: its lines} as `cinch explain --report` words them."""
    try:
        done = subprocess.run([tool, "explain", "--report", path], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    found, current = {}, None
    for line in done.stdout.splitlines():
        if match := re.match(r"([a-z][a-z_ -]*): ", line):
            current = found.setdefault(match[1], [line])
        elif current is not None and line.startswith("  "):
            current.append(line)
        else:
            current = None
    return found


def table(rows):
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]


def percent(part, whole):
    return f"{100 * part / whole:.0f} %"


def amount(nbytes):
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if nbytes >= size:
            return f"{nbytes / size:.1f} {unit}"
    return f"{nbytes:.0f} B"
