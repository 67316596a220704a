"""PyTorch's own distributed tests on the emulator, plain or under Cinch.

PyTorch's wheel holds 315 tests of torch.distributed and DistributedDataParallel (DistributedTest). This
program runs them with the nccl back end on two ranks, each with a device and an NCCL host of its own. It
runs inside the emulator's environment:

    python distributed_tests.py [PATTERN ...] [--implementation old|new] [--corner | --report | --every K]
                                [--small-calls] [--json FILE] [--list]

Where libcinch.so is preloaded, what may be compressed is compressed, whatever that costs (CINCH_WHEN=always);
detection is as always: training steps are compressed once they are known as such, and everything else has to
stay exact. It prints a line for each test and ends with status 1 if a test failed that distributed_expected.py
does not list, or one passed that it lists.
"""
import argparse
import fnmatch
import glob
import json
import os
import sys
import tempfile
import time

import distributed_expected
import distributed_rank
import ranks

# One of them takes a minute where a core has to serve both ranks, and more on a busy machine.
TIMEOUT_SECONDS = 300
PASSED, SKIPPED, FAILED, TIMED_OUT = "passed", "skipped", "failed", "timed out"


ALWAYS_COMPRESS = {"CINCH_WHEN": "always"}
# Most models in these tests are smaller than what Cinch compresses otherwise.
SMALL_CALLS = {"CINCH_MIN_BYTES": "1K"}


def under_cinch():
    return "libcinch.so" in os.environ.get("LD_PRELOAD", "")


def test_names(tests):
    return sorted(name for name in dir(tests) if name.startswith("test_"))


def chosen_names(tests, options):
    names = test_names(tests)
    if options.corner or options.report:
        listed = distributed_expected.CORNER if options.corner else distributed_expected.REPORT
        names = [name for name in names if name in listed]
    if options.patterns:
        names = [name for name in names if any(fnmatch.fnmatch(name, p) for p in options.patterns)]
    return names[::options.every]


def error_in(text):
    """What a traceback says of the error: its line and the next, not those of the C++ stack behind them."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("To execute this test")]
    for i, line in enumerate(lines):
        if not line[0].isspace() and ("Error" in line or "Exception" in line):
            return " ".join(lines[i:i + 2])[:300]
    return lines[-1][:300] if lines else "no message"


def result_of(outcomes):
    """(result, reason) of a test from its ranks' outcomes, as PyTorch's own parent process finds it."""
    from torch.testing._internal.common_distributed import MultiProcessTestCase, TEST_SKIPS
    skips = {skip.exit_code: skip.message for skip in TEST_SKIPS.values()}
    for outcome in outcomes:
        if outcome.ok and outcome.result.code == MultiProcessTestCase.TEST_ERROR_EXIT_CODE:
            return FAILED, f"rank {outcome.rank}: {error_in(outcome.result.message)}"
    for outcome in outcomes:
        if not outcome.ok and "did not end" not in outcome.error:
            return FAILED, f"rank {outcome.rank}: {error_in(outcome.error)}"
    for outcome in outcomes:
        if not outcome.ok:
            return TIMED_OUT, outcome.error
    first = outcomes[0].result
    if first.code in skips:
        return SKIPPED, first.message or skips[first.code]
    return (PASSED, "") if first.code == 0 else (FAILED, f"rank 0 ended with status {first.code}")


def cinch_variables(folder, options):
    if not under_cinch():
        return {}
    small = SMALL_CALLS if options.small_calls else {}
    return ALWAYS_COMPRESS | small | {"CINCH_STATS": os.path.join(folder, "cinch.%p")}


def seen_by_cinch(folder):
    """How many NCCL calls Cinch saw, both ranks together, and why it took no part, if it did not."""
    n_calls, absent = 0, ""
    for path in glob.glob(os.path.join(folder, "cinch.*.json")):
        with open(path) as file:
            communicators = json.load(file)["communicators"]
        n_calls += sum(each["totals"]["compressed_calls"] + each["totals"]["passed_calls"] for each in communicators)
        absent = next((each["verdict"] for each in communicators if "cannot take part" in each["verdict"]), absent)
    return n_calls, absent


def run_test(tests, name, options):
    method = getattr(tests, name)
    if getattr(method, "__unittest_skip__", False):
        return {"result": SKIPPED, "reason": method.__unittest_skip_why__, "seconds": 0.0,
                "seen_calls": 0}
    started = time.monotonic()
    with distributed_rank.new_folder() as folder:
        outcomes = ranks.run_ranks(lambda rank: distributed_rank.run(tests, name, folder, rank),
                                   distributed_rank.WORLD_SIZE, timeout=options.timeout,
                                   environment=cinch_variables(folder, options))
        n_seen, absent = seen_by_cinch(folder)
    result, reason = (FAILED, absent) if absent else result_of(outcomes)
    if options.output and result not in (PASSED, SKIPPED):
        for outcome in outcomes:
            print(f"--- rank {outcome.rank}\n{outcome.output}\n{outcome.error}\n{outcome.result}")
    return {"result": result, "reason": reason, "seconds": round(time.monotonic() - started, 2),
            "seen_calls": n_seen}


def unexpected(name, found, expected):
    """Why a result is not as distributed_expected.py says, or an empty text."""
    failed = found["result"] in (FAILED, TIMED_OUT)
    if failed and name not in expected:
        return "failed unexpectedly"
    if found["result"] == PASSED and name in expected:
        return "passed, although distributed_expected.py says that it fails: take it off the list"
    return ""


def summary(results):
    counts = {kind: sum(found["result"] == kind for found in results.values())
              for kind in (PASSED, SKIPPED, FAILED, TIMED_OUT)}
    ran = len(results) - counts[SKIPPED]
    return {"total": len(results), "ran": ran, **counts}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("patterns", nargs="*", metavar="PATTERN", help="names of tests, * and ? as in a shell")
    parser.add_argument("--implementation", choices=("old", "new"), default="new",
                        help="of the nccl back end: old is ProcessGroupNCCL, new is PyTorch's default since 2.15")
    parser.add_argument("--every", type=int, default=1, metavar="K", help="every K-th test only")
    parser.add_argument("--corner", action="store_true", help="the few that every change is tested with")
    parser.add_argument("--report", action="store_true", help="the fixed list that bench/report runs")
    parser.add_argument("--small-calls", action="store_true", help="under Cinch: compress calls of 1 KiB and more")
    parser.add_argument("--timeout", type=float, default=TIMEOUT_SECONDS, metavar="SECONDS", help="of a test")
    parser.add_argument("--json", metavar="FILE", help="writes counts and results there")
    parser.add_argument("--output", action="store_true", help="prints what the ranks of failed tests printed")
    parser.add_argument("--list", action="store_true", help="prints the names of the chosen tests and ends")
    return parser.parse_args()


def run_all(tests, names, options):
    expected = distributed_expected.failures(options.implementation)
    results, surprises = {}, []
    for name in names:
        found = results[name] = run_test(tests, name, options)
        print(f"{found['result']:9} {found['seconds']:6.1f} s  {name}  {found['reason']}", flush=True)
        if why := unexpected(name, found, expected):
            surprises.append(f"{name}: {why}")
    # None of these tests trains on different batches for long enough that gradients are known as such.
    if under_cinch() and not any(found["seen_calls"] for found in results.values()):
        surprises.append("Cinch saw none of their calls")
    return results, surprises


def main():
    options = parse()
    with tempfile.TemporaryDirectory() as folder:
        distributed_rank.prepare_environment(options.implementation, folder)
        tests = distributed_rank.load(ranks.import_early)
    names = chosen_names(tests, options)
    if options.list:
        print("\n".join(names))
        return 0
    results, surprises = run_all(tests, names, options)
    counts = summary(results)
    print("\n".join(surprises))
    print(json.dumps(counts))
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"implementation": options.implementation, "cinch": under_cinch(), **counts,
                       "tests": results}, file, indent=1)
    return 1 if surprises or not names else 0


if __name__ == "__main__":
    sys.exit(main())
