"""A training script for tests of the driver: the flags and lines of the real ones, and no training.
Its losses and times follow from the variant."""

import argparse
import json
import os
import subprocess
import sys
import time

CHECKPOINTS = 4
STEP_SECONDS = {"none": 0.2, "bf16": 0.15, "powersgd": 0.1}
WIRE_BYTES = {None: 500, "q8": 2000, "q4": 1000}


def parse_arguments():
    parser = argparse.ArgumentParser()
    for name in ("wrap", "hook", "device", "interface", "state"):
        parser.add_argument(f"--{name}")
    for name in ("steps", "seed"):
        parser.add_argument(f"--{name}", type=int)
    for name in ("die", "hang", "differ", "nan"):
        parser.add_argument(f"--{name}", action="store_true")
    return parser.parse_args()


def leave_child(folder, rank):
    """A process that outlives this one unless it is ended. Returns when all ranks have theirs."""
    child = subprocess.Popen(["sleep", "1000"])
    with open(os.path.join(folder, f"child{rank}.new"), "w") as file:
        file.write(str(child.pid))
    os.rename(file.name, os.path.join(folder, f"child{rank}"))
    ranks = range(int(os.environ["WORLD_SIZE"]))
    while not all(os.path.exists(os.path.join(folder, f"child{other}")) for other in ranks):
        time.sleep(0.02)


def step_seconds(options):
    return 0.05 if "CINCH_STATS" in os.environ else STEP_SECONDS[options.hook]


def checkpoints(options):
    """A line down from 5, ending at 2; a seed later, a tenth higher."""
    for i in range(CHECKPOINTS + 1):
        step = options.steps * i // CHECKPOINTS
        loss = 5 - 3 * i / CHECKPOINTS + 0.1 * (options.seed - 1)
        loss = float("nan") if options.nan else loss
        yield {"step": step, "loss": loss, "seconds": step * step_seconds(options)}


def final(options):
    return {
        "final": True,
        "steps": options.steps,
        "checkpoints": list(checkpoints(options)),
        "step_seconds": step_seconds(options),
        "tokens_per_second": 100 / step_seconds(options),
        "wire_bytes_per_step": 5000 if options.interface else None,
        "ranks": int(os.environ["WORLD_SIZE"]),
        "ranks_identical": not options.differ,
    }


def write_report(path, steps):
    """What Cinch leaves, as far as it is read."""
    passes = os.environ.get("CINCH_MODE") == "observe"
    calls = 0 if passes else steps
    passed = {"mode": {"calls": 7, "bytes": 70}}
    sent = WIRE_BYTES[os.environ.get("CINCH_CODEC")] * calls
    totals = {"compressed_calls": calls, "wire_bytes": sent, "passed_calls": 7}
    with open(path + ".json", "w") as file:
        json.dump({"format": 2, "communicators": [{"passed": passed}], "totals": totals}, file)


def main():
    options, rank = parse_arguments(), int(os.environ["RANK"])
    if "CINCH_STATS" not in os.environ and any(name.startswith("CINCH_") for name in os.environ):
        sys.exit("a setting of Cinch's has come through")
    if options.state:
        leave_child(options.state, rank)
    if options.die and rank == 1:
        sys.exit("the reason")
    if options.hang and rank == 1:
        time.sleep(1000)
    if rank == 0:
        print("something else\n{not JSON", flush=True)
        print(json.dumps({"step": 1, "loss": 4.5, "seconds": 0.1}), flush=True)
        if options.hang:
            time.sleep(1000)
        print(json.dumps(final(options)), flush=True)
    if "CINCH_STATS" in os.environ:
        write_report(os.environ["CINCH_STATS"], options.steps)


if __name__ == "__main__":
    main()
