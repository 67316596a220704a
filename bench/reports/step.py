"""Is a training step ever slower under Cinch than plain, is what compressing gains found, and what does Cinch
keep? Programs that train on the emulator, loops of one call, and the selector in simulation, all measured now."""

import glob
import json
import os
import subprocess
import sys
import tempfile

from lab.network import SlowLinks
from schedule import grid as loops_grid
from step import grid
from step.job import run

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, "build")
TARGETS = "cinch cinch_codec_host cinch_emulator_nccl cinch_emulator_cudart selector_test"
PREPARE = f"""
. tools/setup.sh
set_up
cmake --preset release
cmake --build --preset release --target {TARGETS}
"""
# So many bytes of gradients that their sums take some 30 ms.
BYTES = {"100mbit": 256 << 10, "1gbit": 2 << 20, "none": 4 << 20}
VS_PLAIN, VS_BEST = 1.04, 1.04
WORTH_FINDING = 0.1  # gains of so much of the step have to be found
SLOWER_PLAIN, FASTER, CHANGES, ADAPT_STEPS = 0.93, 0.9, 6, 40
LONG_CALL = 1e-3  # seconds: loops of longer calls are judged by their ratio,
LOOP_RATIO, LOOP_EXTRA_US = 1.05, 20  # of shorter ones by what is added
BYTES_PER_PARAMETER = {"2": 1.3, "3": 1.6, "plain_wins": 0.05, "relayout_growth": 0.05}
BUCKET = 25 << 20  # bytes of gradients: PyTorch's
BUCKETS = (12, 24)  # of the models whose memory is measured
LARGE = 1e9  # parameters that it is computed for
MODELS = 4  # one after another
SELECTOR = ("interpose/policy/selector/*", "interpose/comm/step_selection.*", "interpose/comm/step_timer.*",
            "interpose/execute/call_mode.*")


def say(text):
    print(text, file=sys.stderr, flush=True)


def measure_cells():
    """Two hosts of one rank, with three backward passes; with one: two of two, and two networks."""
    cells = []
    for link, n_bytes in BYTES.items():
        for job, backward in (("2x1", "0,1,4"), ("2x2", "1"), ("2x1x2", "1")):
            arguments = ["--links", link, "--jobs", job, "--backward", backward, "--bytes", str(n_bytes)]
            cells += grid.measure(grid.parse([BUILD, *arguments]))
    return cells


def summary_of_cells(cells):
    missed = [cell for cell in cells if cell["gain"] >= WORTH_FINDING and not cell["is_found"]]
    return {
        "worst_vs_plain": max(cell["vs_plain"] for cell in cells),
        "worst_vs_best": max(cell["vs_best"] for cell in cells),
        "missed_gains": len(missed),
    }


def measure_simulation():
    with tempfile.TemporaryDirectory(prefix="cinch-step-") as folder:
        command = [os.path.join(BUILD, "tests", "selector_test"), "--gtest_filter=Selector.*",
                   f"--gtest_output=json:{folder}/out.json"]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
        with open(f"{folder}/out.json", encoding="utf-8") as file:
            suites = json.load(file)["testsuites"]
    found = {case["name"]: case for suite in suites for case in suite["testsuite"]}
    slower, faster = found["StaysPlainWhereThatIsFaster"], found["FindsAGainOfTenPercent"]
    return {
        "slower_plain_share": float(slower["plain_share"]),
        "faster_share": float(faster["compressed_share"]),
        "changes": float(slower["changes"]),
        "adapt_steps": int(found["FollowsALinkWithinFortySteps"]["adapt_steps"]),
    }


def measure_loops():
    arguments = ["--links", "none,1gbit", "--jobs", "2x1", "--types", "fp32", "--sizes", "16K,256K,4M", "--rounds", "1"]
    cells = loops_grid.measure(loops_grid.parse([BUILD, *arguments]))["cells"]
    ratios, extras = [], []
    for cell in cells:
        plain, auto = (cell["variants"][name]["seconds"] for name in ("pass", "auto"))
        (ratios if plain >= LONG_CALL else extras).append(auto / plain if plain >= LONG_CALL else 1e6 * (auto - plain))
    return {"worst_ratio_1ms": max(ratios), "worst_extra_us": max(extras)}


def bytes_beyond_plain(network, variant, n_buckets, models=1):
    """After each model; and the parameters of one."""
    arguments = {"bytes": BUCKET * n_buckets, "buckets": n_buckets, "steps": 60, "models": models, "batches": 1}
    used = {name: run(BUILD, network, name, 1, arguments).kib for name in ("plain", variant)}
    return [1024 * (mine - plain) for mine, plain in zip(used[variant], used["plain"])], BUCKET * n_buckets / 4


def of_a_large_model(network, variant):
    """Bytes for each of LARGE parameters, by the line through what two models take: what all buckets share is taken once."""
    taken = []
    for n_buckets in BUCKETS:
        found, parameters = bytes_beyond_plain(network, variant, n_buckets)
        taken.append((parameters, found[-1]))
        say(f"memory, {network.ranks} ranks, {variant}: {found[-1] / parameters:.3f} bytes for each of {parameters:.3g} parameters")
    (few, less), (many, more) = taken
    return (less + (more - less) / (many - few) * (LARGE - few)) / LARGE


def measure_memory():
    """Bytes for each parameter beyond plain."""
    found = {}
    for ranks in (2, 3):
        with SlowLinks(ranks, None, None) as network:
            found[str(ranks)] = of_a_large_model(network, "always")
            if ranks == 2:
                found["plain_wins"] = of_a_large_model(network, "feedback")
                after, parameters = bytes_beyond_plain(network, "always", BUCKETS[0], MODELS)
                found["relayout_growth"] = (after[-1] - after[0]) / parameters
    return found


def lines_of_selector():
    paths = [path for pattern in SELECTOR for path in glob.glob(os.path.join(ROOT, pattern))]
    return sum(len(open(path, encoding="utf-8").readlines()) for path in paths)


def has_passed(figures):
    simulated, loops, memory = (figures[name] for name in ("sim", "loops", "bytes_per_parameter"))
    return (
        figures["worst_vs_plain"] <= VS_PLAIN
        and figures["worst_vs_best"] <= VS_BEST
        and figures["missed_gains"] == 0
        and simulated["slower_plain_share"] >= SLOWER_PLAIN
        and simulated["faster_share"] >= FASTER
        and simulated["changes"] <= CHANGES
        and simulated["adapt_steps"] <= ADAPT_STEPS
        and loops["worst_ratio_1ms"] <= LOOP_RATIO
        and loops["worst_extra_us"] <= LOOP_EXTRA_US
        and all(memory[name] <= most for name, most in BYTES_PER_PARAMETER.items())
    )


def measure():
    subprocess.run(["bash", "-euo", "pipefail", "-c", PREPARE], cwd=ROOT, check=True, stdout=sys.stderr)
    figures = summary_of_cells(measure_cells())
    say(f"== {figures}")
    figures["sim"] = measure_simulation()
    figures["loops"] = measure_loops()
    say(f"== {figures['sim']} {figures['loops']}")
    figures["bytes_per_parameter"] = measure_memory()
    figures["selector_lines"] = lines_of_selector()
    return figures, has_passed(figures)
