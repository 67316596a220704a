"""Does what is not known to be a gradient stay exact, and is what is one compressed? Programs in PyTorch that sum up
something else, on the emulator and bit for bit; streams of calls and averages of weights, generated from seeds drawn now;
captures into graphs on single ranks; every job of tests/frameworks that trains; and a race over links of 100 Mbit/s."""

import json
import os
import random
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, "build")
sys.path.append(os.path.join(ROOT, "emulator", "torch"))

import environment  # noqa: E402

# Tests that draw what they run from --seed, and print an object with these fields as their last line.
GENERATED = {
    "identity_weights": ("weights_runs", "weights_taken", "weights_run_away_taken", "gradients_found",
                         "gradients_found_from_autograd"),
    "identity_streams": ("streams", "stream_failures", "stream_share", "vetoes_matter", "noise_matters"),
}
# What they have to show. identity_weights itself passes with less, as long as that is known to be missed.
LEAST_SHARES = {"gradients_found": 0.99, "stream_share": 0.95}
NONE_OF = ("exact_failures", "weights_taken", "stream_failures")
CAPTURES = ("Defaults.test_captures_of_one_rank_alone_change_nothing",
            "Defaults.test_captures_at_random_change_nothing")
N_CAPTURE_PROGRAMS = 300

RACE_STEPS = 100
RACERS = ("plain", "bf16", "powersgd4", "cinch")
FSDP2 = {"plain_ms": "fsdp2", "cinch_ms": "fsdp2_cinch", "allgather_ms": "fsdp2_cinch_allgather"}
LEAST_FSDP2_GAIN, LEAST_ALLGATHER_GAIN = 1.3, 3.2


def say(text):
    print(text, file=sys.stderr, flush=True)


def build():
    """What is not among the project's targets is not built, and its figures are null."""
    prepare = ". tools/setup.sh; set_up; cmake --preset release"
    subprocess.run(["bash", "-euo", "pipefail", "-c", prepare], cwd=ROOT, check=True, stdout=sys.stderr)
    known = subprocess.run(["cmake", "--build", BUILD, "--target", "help"], capture_output=True, text=True, check=True)
    there = {line.split(":")[0] for line in known.stdout.splitlines()}
    targets = [*environment.TARGETS, "surface_rank", *(name for name in GENERATED if name in there)]
    subprocess.run(["cmake", "--build", BUILD, "--target", *targets], check=True, stdout=sys.stderr)


def exact_programs():
    """(its summary, whether all is well). There is no figure where it ended before it had one."""
    with tempfile.TemporaryDirectory(prefix="cinch-identity-") as folder:
        path = os.path.join(folder, "summary.json")
        script = os.path.join(ROOT, "tests", "frameworks", "exact_programs.py")
        command = [sys.executable, "-B", script, "--build", BUILD, "--json", path]
        status = subprocess.run(command, stdout=sys.stderr, check=False).returncode
        if not os.path.exists(path):
            return {}, False
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    return found, status == 0 and found["with_nothing_set"] is not None


def generated(name):
    """(the fields of a test's last line, whether it passed)"""
    program = os.path.join(BUILD, "tests", name)
    nothing = dict.fromkeys(GENERATED[name])
    if not os.path.exists(program):
        say(f"== {program} is not there")
        return nothing, False
    seed = random.SystemRandom().randrange(1 << 32)
    say(f"== {name} --seed {seed}")
    done = subprocess.run([program, "--seed", str(seed)], stdout=subprocess.PIPE, text=True, check=False)
    say(done.stdout)
    lines = done.stdout.strip().splitlines()
    try:
        found = json.loads(lines[-1])
        return {field: found[field] for field in nothing}, done.returncode == 0
    except (IndexError, KeyError, TypeError, ValueError):
        say(f"== {name} gave no figures (exit status {done.returncode})")
        return nothing, False


def capture_programs():
    """Whether ranks that capture what they please, others not, end as plain."""
    script = os.path.join(ROOT, "tests", "multiproc", "surface", "defaults_test.py")
    programs = [os.path.join(BUILD, *path) for path in (("tests", "surface_rank"), ("lib", "libcinch.so"),
                                                       ("bin", "cinch"))]
    done = subprocess.run([sys.executable, "-B", script, *CAPTURES, *programs],
                          env=os.environ | {"TEST_PROGRAMS": str(N_CAPTURE_PROGRAMS)}, stdout=sys.stderr, check=False)
    return done.returncode == 0


def from_json(script, *arguments):
    """What a script of tests/frameworks writes, null where it ended before, and whether it passed."""
    with tempfile.TemporaryDirectory(prefix="cinch-identity-") as folder:
        path = os.path.join(folder, "found.json")
        command = [sys.executable, "-B", os.path.join(ROOT, "tests", "frameworks", script), "--build", BUILD, "--json", path]
        status = subprocess.run([*command, *arguments], stdout=sys.stderr, check=False).returncode
        if not os.path.exists(path):
            return None, False
        with open(path, encoding="utf-8") as file:
            return json.load(file), status == 0


def job_figures(row):
    loss_vs_plain = row["cinch_loss"] / row["plain_loss"] if row["cinch_loss"] and row["plain_loss"] else None
    return {"from_step": row["from_step"], "share": row["compressed_when_known"], "loss_vs_plain": loss_vs_plain}


def training_jobs():
    """({job: {back end: figures}}, PyTorch's version, whether all are compressed as early and as far as judge.py says)"""
    found, passed = from_json("session.py", "--variants", "plain,cinch,plain-old,cinch-old", "training")
    if found is None:
        return None, None, False
    jobs = {}
    for row in filter(lambda row: row["has_gradients"], found["rows"]):
        name, back_end = row["job"].removesuffix("[old]"), "legacy" if row["job"].endswith("[old]") else "nccl2"
        jobs.setdefault(name, {})[back_end] = job_figures(row)
    return jobs, found["torch"], passed


def race():
    """The fields of the race, null where there can be no links, and whether the aims are met."""
    names = ",".join([*RACERS, *FSDP2.values()])
    found, _ = from_json("race.py", "--links", "100mbit", "--steps", str(RACE_STEPS), "--only", names)
    entries = found["links"]["100mbit"] if found else {}
    times = {field: entries.get(name, {}).get("step_ms") for field, name in FSDP2.items()}
    figures = {"race_100mbit": {name: entries.get(name) for name in RACERS}, "fsdp2_100mbit": times}
    if not entries:
        return figures, False
    return figures, (times["plain_ms"] >= LEAST_FSDP2_GAIN * times["cinch_ms"]
                     and times["plain_ms"] >= LEAST_ALLGATHER_GAIN * times["allgather_ms"])


def measure():
    build()
    programs, passed = exact_programs()
    figures = {name: programs.get(name) for name in ("exact_programs", "exact_failures")}
    for name in GENERATED:
        found, is_good = generated(name)
        figures |= found
        passed = passed and is_good
    captures = capture_programs()
    figures["capture_programs"] = "pass" if captures else "fail"
    passed = passed and captures and holds(figures)
    figures["jobs"], figures["torch"], are_compressed = training_jobs()
    raced, is_fast = race()
    return figures | raced, passed and are_compressed and is_fast


def holds(figures):
    """Whether all figures are there and as they have to be."""
    if any(figures[name] is None for name in figures):
        return False
    return (all(figures[name] == 0 for name in NONE_OF)
            and all(figures[name] >= least for name, least in LEAST_SHARES.items())
            and figures["vetoes_matter"] == "5/5" and figures["noise_matters"])
