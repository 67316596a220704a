"""What the channel over which Cinch's ranks agree costs, and what it stands: programs that are ahead, stopped, killed
or short of descriptors, connections that break while the ranks decide, descriptors of many communicators, a flood of silent connections, system calls and
allocations of a step, a handshake of 16,384 ranks, all measured now. CONTROL_FULL=1 runs each program 30 times."""

import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, "build")
PROGRAM = os.path.join(BUILD, "tests", "surface_rank")
PRELOAD = os.path.join(BUILD, "lib", "libcinch.so")
AGREEMENT_TEST = os.path.join(BUILD, "tests", "agreement_test")
CHAOS = os.path.join(BUILD, "tests", "channel_chaos_test")
HANDSHAKE = os.path.join(BUILD, "bin", "control_handshake")
TARGETS = "surface_rank cinch cinch_codec_host control_allocations control_handshake agreement_test channel_chaos_test"
PREPARE = f"""
. tools/setup.sh
set_up
cmake --preset release
cmake --build --preset release --target {TARGETS}
"""
TIMES, TIMES_OF_FULL = 3, 30
RANKS, RANKS_OF_A_PROCESS = 16384, 8
COMMUNICATORS, STRANGERS, STEPS, HOSTS = 200, 6000, 1000, 64
FUZZ_INPUTS = 10_000_000
CHAOS_RUNS, LEAST_OF_A_PHASE = 1000, 50
# Beyond these the report fails.
MOST_DESCRIPTORS, MOST_DELAY_MS, MOST_SECONDS, MOST_MIB, MOST_OF_PLAIN = 20, 1000, 10, 256, 1.3


def say(text):
    print(text, file=sys.stderr, flush=True)


def find(folder, name):
    for parent, _, names in os.walk(folder):
        if name in names:
            return os.path.join(parent, name)
    raise FileNotFoundError(f"{folder} has no {name}")


def passes(test, settings=None):
    """Whether the tests of AgreementTest's program of that name pass, of which there is at least one."""
    command = [AGREEMENT_TEST, f"--gtest_filter={test}"]
    done = subprocess.run(command, env=os.environ | (settings or {}), capture_output=True, text=True, check=False)
    ran = re.search(r"(\d+) tests? from", done.stdout)
    if done.returncode != 0:
        say(done.stdout[-4000:])
    return done.returncode == 0 and ran is not None and int(ran[1]) > 0


def break_connections():
    """{"runs", "failures", "phases"} of seeded programs whose connections break in each phase of a decision."""
    done = subprocess.run([CHAOS, "--gtest_filter=*NoRankIsLost*"], env=os.environ | {"TEST_RUNS": str(CHAOS_RUNS)},
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    found = re.search(r"^\{.*\}$", done.stdout, re.MULTILINE)
    if found is None:
        say(done.stdout[-4000:])
        return {"runs": None, "failures": None, "phases": None}
    return json.loads(found[0])


def measure_handshake():
    command = [HANDSHAKE, str(RANKS), str(RANKS_OF_A_PROCESS)]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def measure():
    subprocess.run(["bash", "-euo", "pipefail", "-c", PREPARE], cwd=ROOT, check=True, stdout=sys.stderr)
    sys.path.insert(0, os.path.join(ROOT, "tests", "control"))
    import cases
    import cost

    programs = cost.Programs(PROGRAM, PRELOAD, find(BUILD, "libcontrol_allocations.so"))
    handshake = measure_handshake()
    say(f"== {handshake}")
    many_hosts = cost.time_of_many_hosts(programs, HOSTS)
    say(f"== {HOSTS} hosts: {many_hosts:.2f} of plain's time")
    steady = cost.steady_state(programs, STEPS)
    say(f"== {steady}")
    descriptors = cost.descriptors(programs, COMMUNICATORS)
    failed, delay = cost.flood(programs, STRANGERS)
    say(f"== {descriptors} descriptors, {failed} failed, {delay} ms")
    model = passes("DecisionSearch.*")
    fuzzed = passes("AgreementWire.DamagedFramesNeverDoHarm", {"TEST_FUZZ_INPUTS": str(FUZZ_INPUTS)})
    chaos = break_connections()
    say(f"== {chaos}")
    times = TIMES_OF_FULL if os.environ.get("CONTROL_FULL") else TIMES
    with_cases = cases.run_all(PROGRAM, PRELOAD, times, os.urandom(4).hex(), out=sys.stderr)
    figures = {
        "cases": with_cases["cases"],
        "cases_passed": with_cases["cases_passed"],
        "runs_of_a_case": times,
        "chaos_runs": chaos["runs"],
        "chaos_failures": chaos["failures"],
        "phases": chaos["phases"],
        "model_check": "pass" if model else "fail",
        "steps": STEPS,
        "syscalls": steady["syscalls"],
        "allocations": steady["allocations"],
        "waits_at_marks": steady["waits"],
        "descriptors_200_comms": descriptors,
        "handshake_16384_s": handshake["seconds"],
        "handshake_16384_mib": handshake["peak_mib"],
        "flood_failed_opens": failed,
        "flood_start_delay_ms": delay,
        "many_hosts_ratio": round(many_hosts, 3),
        "fuzz_inputs": FUZZ_INPUTS if fuzzed else None,
    }
    passed = (
        figures["cases_passed"] == figures["cases"]
        and model
        and fuzzed
        and chaos["failures"] == 0
        and min(chaos["phases"].values()) >= LEAST_OF_A_PHASE
        and steady["syscalls"] == steady["allocations"] == 0
        and steady["waits"] * 1000 <= STEPS
        and descriptors <= MOST_DESCRIPTORS
        and failed == 0
        and delay <= MOST_DELAY_MS
        and handshake["seconds"] <= MOST_SECONDS
        and handshake["peak_mib"] <= MOST_MIB
        and many_hosts <= MOST_OF_PLAIN
    )
    return figures, passed
