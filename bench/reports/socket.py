"""The net plugin over sockets, measured now: goodput over unequal links between two network
namespaces, beside a static transport and plain TCP; latency; seeded chaos; conformance. Needs root.

Figures of goodput are fractions of the sum of the links' rates; headers take 0.044 of these.
vs_iperf3 is that of the default, sampled checksums; those of the others are printed. The share of an
iperf3 that moves blocks as long as the plugin's messages (1 MiB) is vs_iperf3_1m.
CINCH_CHAOS_RUNS says how many seeds of chaos (1,000)."""

import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys

from lab.job import JobFailed
from lab.network import NetworkError, remove_leftovers
from net import goodput, latency
from net.goodput import Programs
from net.links import ParallelLinks

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, "build")
TARGETS = (
    "nccl_net_cinch",
    "net_conformance",
    "net_socket_chaos_test",
    "trivial_net_v12",
    "cinch_emulator_nccl",
    "cinch_emulator_cudart",
)
PREPARE = f"""
. tools/setup.sh
set_up
cmake --preset release
cmake --build --preset release --target {' '.join(TARGETS)}
"""

# Mbit/s of the links.
EQUAL = (400, 400, 400, 400)
UNEQUAL = (400, 400, 400, 100)
MIXED = (500, 400, 300, 200)
SICK = (400, 400, 400, 5)
CUT_LINK = 0  # whose flow carries the short records, too, until then
CHECKED_MESSAGES = 300

RUNS = 7  # of what is compared with something else, in turns with it
STARTS = 3  # for each of these, of which the median counts: on few cores, who shares one matters
STREAMS = 4
CHECKSUMS = ("off", "sampled", "all")
DEFAULT_CHECKSUM = "sampled"
CHAOS_RUNS = 1000

LEAST = {"equal": 0.93, "unequal": 0.92, "mixed": 0.92, "sick": 0.88, "cut": 0.90}
LEAST_OF_IPERF = {"off": 0.90, "sampled": 0.90, "all": 0.75}
MOST_LATENCY = 1.1


def rounded(figures):
    """Four digits say all that the noise leaves."""
    if isinstance(figures, dict):
        return {name: rounded(value) for name, value in figures.items()}
    return round(figures, 4) if isinstance(figures, float) else figures


def say(text):
    print(text, file=sys.stderr, flush=True)


def build():
    subprocess.run(
        ["bash", "-euo", "pipefail", "-c", PREPARE], cwd=ROOT, check=True, stdout=sys.stderr
    )


def measure_goodput(links, programs):
    figures = {}
    for name, mbits in (("equal", EQUAL), ("unequal", UNEQUAL), ("mixed", MIXED), ("sick", SICK)):
        figures[name] = goodput.shaped(links, programs, mbits)
        say(f"== {name}: {figures[name]:.3f} of {sum(mbits)} Mbit/s")
    figures["cut"] = goodput.cut(links, programs, EQUAL, CUT_LINK)
    say(f"== cut: {figures['cut']:.3f} of the links that are left")
    for name, mbits in (("static_unequal", UNEQUAL), ("static_sick", SICK)):
        figures[name] = goodput.static(links, programs, mbits)
        say(f"== {name}: {figures[name]:.3f}")
    say(f"== static with equal links: {goodput.static(links, programs, EQUAL):.3f}")
    return figures


def start_unshaped(links, programs):
    """One start of each, in Mbit/s: {checksum setting: (iperf3 right before it, the plugin)}, and
    iperf3 with long blocks."""
    pairs = {}
    for checksum in CHECKSUMS:
        tcp, _ = goodput.iperf(links, 0, STREAMS)
        pairs[checksum] = tcp, goodput.unshaped(links, programs, checksum, links.interfaces[0])[0]
    return pairs, goodput.iperf(links, 0, STREAMS, goodput.MESSAGE_BYTES)[0]


def unshaped_run(links, programs):
    """By checksum setting, the medians of STARTS: [of iperf3, of iperf3 with long blocks]"""
    shares = {checksum: [] for checksum in CHECKSUMS}
    for _ in range(STARTS):
        pairs, long_blocks = start_unshaped(links, programs)
        for checksum, (tcp, plugin) in pairs.items():
            shares[checksum].append((plugin / tcp, plugin / long_blocks))
        line = ", ".join(
            f"{name} {plugin / 1000:.1f} beside {tcp / 1000:.1f}"
            for name, (tcp, plugin) in pairs.items()
        )
        say(f"   Gbit/s, plugin and iperf3: {line}; blocks of 1 MiB {long_blocks / 1000:.1f}")
    return {
        checksum: [statistics.median(each) for each in zip(*starts)]
        for checksum, starts in shares.items()
    }


def measure_unshaped(links, programs):
    """The plugin's share of what iperf3 moves, with its own blocks and with long ones: each a
    median of runs in turns, by checksum setting.

    Each start has an iperf3 of its own beside it: there are machines that go through half a minute
    in which all of TCP is at a third of its speed."""
    links.shape(None)
    runs = []
    for run in range(RUNS):
        runs.append(unshaped_run(links, programs))
        of_tcp = ", ".join(f"{name} {share:.3f}" for name, (share, _) in runs[-1].items())
        say(f"== unshaped {run + 1} of {RUNS}, of iperf3: {of_tcp}")
    shares = [
        {name: statistics.median(run[name][block] for run in runs) for name in CHECKSUMS}
        for block in range(2)
    ]
    for text, share in zip(("iperf3", "iperf3 with blocks of 1 MiB"), shares):
        say(f"== of {text}: " + ", ".join(f"{name} {part:.3f}" for name, part in share.items()))
    return shares


def ratio_in_turns(measure_one, first, second):
    """The median of first/second, measured in turns."""

    def median(plugin):
        return statistics.median(measure_one(plugin) for _ in range(STARTS))

    pairs = [(median(first), median(second)) for _ in range(RUNS)]
    medians = [statistics.median(each) for each in zip(*pairs)]
    return statistics.median(a / b for a, b in pairs), medians


def measure_latency(links, programs):
    links.shape(None)
    ratio, medians = ratio_in_turns(
        lambda plugin: latency.of_nccl(links, programs, plugin), programs.plugin, None
    )
    say(
        "== 8 bytes there and back, NCCL program: {:.1f} us, built-in sockets {:.1f} us".format(
            *medians
        )
    )
    plain, medians = ratio_in_turns(
        lambda plugin: latency.of_plugin(programs, plugin), programs.plugin, programs.trivial_plugin
    )
    say(
        "== the plugin alone: {:.1f} us, the trivial plugin {:.1f} us".format(*medians)
        + f", ratio {plain:.2f}"
    )
    return ratio


def measure_chaos(programs):
    """(seeds, seeds that failed)"""
    runs = int(os.environ.get("CINCH_CHAOS_RUNS", CHAOS_RUNS))
    done = subprocess.run(
        [programs.chaos],
        env=dict(os.environ, CINCH_CHAOS_RUNS=str(runs)),
        stdout=subprocess.PIPE,
        text=True,
    )
    if done.returncode == 0:
        return runs, 0
    say(done.stdout)
    failed = set(re.findall(r"\bseed (\d+)", done.stdout))
    return runs, max(1, len(failed))


def measure_conformance(programs):
    """{version: "pass" or the cases that failed}"""
    done = subprocess.run(
        [programs.harness, programs.plugin],
        env=dict(os.environ, NCCL_SOCKET_IFNAME="lo"),
        stdout=subprocess.PIPE,
        text=True,
    )
    if done.returncode != 0:
        say(done.stdout)
    return json.loads(done.stdout.splitlines()[-1])["versions"]


def failures(figures, unshaped, wrong):
    """What misses its mark, in words."""
    missed = [f"{name} is below {least}" for name, least in LEAST.items() if figures[name] < least]
    missed += [
        f"checksums {name}: below {least} of iperf3"
        for name, least in LEAST_OF_IPERF.items()
        if unshaped[name] < least
    ]
    if figures["latency_ratio"] > MOST_LATENCY:
        missed.append(f"latency_ratio is above {MOST_LATENCY}")
    if wrong:
        missed.append(f"{wrong} messages were wrong after the cut")
    if figures["chaos_failures"]:
        missed.append("chaos")
    missed += [
        f"conformance {name}" for name, text in figures["conformance"].items() if text != "pass"
    ]
    return missed


def measure_all(links, programs):
    figures = measure_goodput(links, programs)
    wrong = goodput.checked_over_cut(links, programs, EQUAL, CUT_LINK, CHECKED_MESSAGES)
    say(f"== {CHECKED_MESSAGES} messages over a cut: {wrong} wrong")
    unshaped, unshaped_long = measure_unshaped(links, programs)
    figures["vs_iperf3"] = unshaped[DEFAULT_CHECKSUM]
    figures["vs_iperf3_1m"] = unshaped_long[DEFAULT_CHECKSUM]
    figures["latency_ratio"] = measure_latency(links, programs)
    figures["chaos_runs"], figures["chaos_failures"] = measure_chaos(programs)
    figures["conformance"] = measure_conformance(programs)
    return figures, failures(figures, unshaped, wrong)


def end_on_signal(number, _frame):
    raise KeyboardInterrupt(signal.Signals(number).name)


def measure():
    if os.geteuid() != 0:
        sys.exit("bench/report socket makes network namespaces: run it as root")
    if shutil.which("iperf3") is None:
        sys.exit("bench/report socket compares with iperf3, which is not installed")
    build()
    signal.signal(signal.SIGTERM, end_on_signal)
    signal.signal(signal.SIGHUP, end_on_signal)
    remove_leftovers()
    try:
        with ParallelLinks() as links:
            figures, missed = measure_all(links, Programs(BUILD))
    except (JobFailed, NetworkError) as error:
        sys.exit(f"bench/report: {error}")
    for text in missed:
        say(f"== missed: {text}")
    return rounded(figures), not missed
