"""The net plugin over verbs, measured now, in a virtual machine whose kernel has Soft-RoCE: conformance of
all table versions, goodput beside ib_write_bw, links that end, training; and seeded failures of the
provider in memory.

vs_ib_write_bw is that of the number of queue pairs with the lower median of pairs measured in turns;
goodput has all of them, goodput_polling those where both sides poll without a pause, as NCCL does: there
the two take the processors that the kernel moves the bytes with. guest_seconds is how long the short form
takes, which is one of the tests.
CINCH_VERBS_SEEDS says how many failures of the provider in memory (500)."""

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, "build")
RESULTS = os.path.join(BUILD, "tests", "verbs_vm", "full")
TARGETS = (
    "nccl_net_cinch",
    "net_conformance",
    "net_ib_connection_test",
    "cinch",
    "cinch_codec_host",
    "train_lm",
)
PREPARE = f"""
. tools/setup.sh
set_up
set_up_tests
cmake --preset release
cmake --build --preset release --target {' '.join(TARGETS)}
"""
SEEDS = int(os.environ.get("CINCH_VERBS_SEEDS", "500"))
SEEDED_TEST = "VerbsFailover.EverythingArrivesOverTheOtherDevice"
SEEDED_TIMEOUT = 1800
LEAST_OF_IB_WRITE_BW = 0.85
MOST_SHORT_SECONDS = 180
GBIT_PER_MIB = 8 * 2**20 / 1e9


def say(text):
    print(text, file=sys.stderr, flush=True)


def build():
    subprocess.run(
        ["bash", "-euo", "pipefail", "-c", PREPARE], cwd=ROOT, check=True, stdout=sys.stderr
    )


def run_guest(name):
    """Whether the script in the guest ended well, and seconds of the machine."""
    command = ["ctest", "--test-dir", BUILD, "--tests-regex", f"^verbs_vm_{name}$", "--verbose"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    say("\n".join(line for line in done.stdout.splitlines() if re.search("guest: |verbs_vm: ", line)))
    seconds = re.search(r"off after (\S+) s", done.stdout)
    if seconds is None:
        sys.exit(f"bench/report: the machine of verbs_vm_{name} did not run:\n{done.stdout}")
    return done.returncode == 0, float(seconds[1])


def records(name):
    """What the guest has left as lines of JSON."""
    path = os.path.join(RESULTS, name + ".jsonl")
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def conformance():
    """By version: pass where all numbers of queues and both ways of division passed."""
    verdicts = {}
    for record in records("conformance"):
        version = record["version"]
        passed = record["result"] == "pass" and verdicts.get(version, "pass") == "pass"
        verdicts[version] = "pass" if passed else "fail"
    return verdicts


def goodput(column):
    """By number of queue pairs: the median share of ib_write_bw."""
    shares = {}
    for record in records("goodput"):
        theirs = record["ib_write_bw_mib_per_s"] * GBIT_PER_MIB
        shares.setdefault(str(record["queues"]), []).append(record[column] / theirs)
    return {queues: round(statistics.median(each), 4) for queues, each in shares.items()}


def seeded_failures():
    """How many of SEEDS runs on the provider in memory did not end as they should."""
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        command = [os.path.join(BUILD, "tests", "net_ib_connection_test"),
                   f"--gtest_filter={SEEDED_TEST}", f"--gtest_output=json:{report}"]
        settings = dict(os.environ, CINCH_TEST_SEEDS=str(SEEDS))
        try:
            subprocess.run(command, env=settings, stdout=sys.stderr, timeout=SEEDED_TIMEOUT, check=False)
            with open(report, encoding="utf-8") as file:
                tests = json.load(file)["testsuites"][0]["testsuite"]
        except (subprocess.TimeoutExpired, OSError) as error:
            say(f"== {error}")
            return SEEDS  # it hung, or crashed: what the others would have done is not known
    return sum(len(test.get("failures", [])) for test in tests)


def training_is_identical():
    """Whether all ranks, over verbs and over sockets, ended with the same parameters and loss."""
    ends = []
    for transport in ("verbs", "socket"):
        for rank in (0, 1):
            steps = records(f"training.{transport}.{rank}")
            ends += steps[-1:]
    return len(ends) == 4 and all(end == ends[0] and end.get("final") for end in ends)


def missed(figures, guests_passed):
    """What misses its mark, in words."""
    texts = [f"verbs_vm_{name}" for name, passed in guests_passed.items() if not passed]
    texts += [f"conformance {name}" for name, text in figures["conformance"].items() if text != "pass"]
    if figures["vs_ib_write_bw"] < LEAST_OF_IB_WRITE_BW:
        texts.append(f"vs_ib_write_bw is below {LEAST_OF_IB_WRITE_BW}")
    if figures["fault_failures"] != 0:
        texts.append("failures")
    if figures["guest_seconds"] > MOST_SHORT_SECONDS:
        texts.append(f"the short form takes more than {MOST_SHORT_SECONDS} s")
    if not figures["train_ranks_identical"]:
        texts.append("training")
    return texts


def measure():
    build()
    shutil.rmtree(RESULTS, ignore_errors=True)
    short_passed, seconds = run_guest("short")
    full_passed, full_seconds = run_guest("full")
    in_guest = records("failures")
    wrong = sum(record["result"] != "pass" for record in in_guest)
    shares = goodput("plugin_gbit_per_s")
    figures = {
        "conformance": conformance(),
        "vs_ib_write_bw": min(shares.values(), default=0),
        "goodput": shares,
        "goodput_polling": goodput("polling_gbit_per_s"),
        "fault_runs": SEEDS + len(in_guest),
        "fault_runs_in_guest": len(in_guest),
        "fault_failures": wrong + seeded_failures(),
        "guest_seconds": seconds,
        "full_guest_seconds": full_seconds,
        "train_ranks_identical": training_is_identical(),
    }
    texts = missed(figures, {"short": short_passed, "full": full_passed})
    for text in texts:
        say(f"== missed: {text}")
    return figures, not texts
