#!/usr/bin/env python3
"""How fast does a model train over slow links, and how well: plain, PyTorch's own hooks, Cinch with nothing set.

    race.py [--links 100mbit,1gbit] [--steps 120] [--seeds 1] [--only ENTRY,...] [--json FILE] [--build FOLDER]

Two ranks, each a host of its own in a network namespace, on the emulator. A step's time is the median after the
first 60; the held-out loss is that after as many steps for all.
"""
import argparse
import json
import sys
import tempfile
from statistics import mean, median

import ranks
import session
from lab import network, rate  # bench/lab
from session import environment  # emulator/torch/environment.py

# By name: job of jobs/race.py, variant, and what a user would set beside.
ENTRIES = {
    "plain": ("race_ddp", "plain", {}),
    "bf16": ("race_ddp_bf16_hook", "plain", {}),
    "powersgd1": ("race_ddp_powersgd1", "plain", {}),
    "powersgd4": ("race_ddp_powersgd4", "plain", {}),
    "cinch": ("race_ddp", "cinch-unset", {}),
    "fsdp2": ("race_fsdp2", "plain", {}),
    "fsdp2_cinch": ("race_fsdp2", "cinch-unset", {}),
    "fsdp2_cinch_allgather": ("race_fsdp2", "cinch-unset", {"CINCH_ALLGATHER": "y"}),
    "zero2": ("race_zero2", "plain", {}),
    "zero2_cinch": ("race_zero2", "cinch-unset", {}),
}


class NotMeasured(Exception):
    """Why there is no figure."""


def run_entry(prepared, name, hosts, folder, steps, seed):
    job, variant, settings = ENTRIES[name]
    own = {"JOB_STEPS": str(steps), "JOB_SEED": str(seed)}
    # One host's interface is the other one's way to it: NCCL's own choice among several would be another.
    own |= {"NCCL_SOCKET_IFNAME": hosts.interface}
    run = session.run_variant(prepared, variant, f"{folder}/{name}/{seed}", [job], own | settings | hosts.variables())[job]
    if run["errors"]:
        raise NotMeasured(f"{name}: {run['errors'][0].strip().splitlines()[-1]}")
    return [one["figures"] | {"reported": one.get("reported")} for one in run["ranks"]]


def summary(found):
    """Of the figures of all ranks and seeds; "compressed": of what their reports say."""
    made = {"step_ms": round(median(one["step_ms"] for one in found), 1),
            "heldout": round(mean(one["held_out"] for one in found), 4)}
    reported = [one["reported"] for one in found if one["reported"] is not None]
    return made | ({"compressed": round(mean(reported), 3)} if reported else {})


def race(prepared, link, names, steps, seeds, folder):
    """{entry: figures}"""
    with network.open_network(2, link, rate.bits_per_second(link)) as opened:
        if isinstance(opened, network.Loopback):
            raise NotMeasured(opened.reason)
        namespaces = tuple(opened.command(host, [])[-1] for host in range(2))
        hosts = ranks.Hosts(namespaces, opened.host_address(0), opened.interface)
        found = {name: [] for name in names}
        for seed in range(seeds):
            for name in names:
                found[name] += run_entry(prepared, name, hosts, f"{folder}/{link}", steps, seed)
                print(f"{link:8} {name:24} {summary(found[name])}", flush=True)
    return {name: summary(figures) for name, figures in found.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--links", default="100mbit,1gbit")
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--only", help=f"of {', '.join(ENTRIES)}")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--build", help="folder of a build to use as it is")
    options = parser.parse_args()
    names = options.only.split(",") if options.only else [*ENTRIES]
    if unknown := set(names) - set(ENTRIES):
        parser.error(f"no such entry: {', '.join(sorted(unknown))}")
    prepared = environment.prepare(build=options.build)
    try:
        with tempfile.TemporaryDirectory(prefix="race.") as folder:
            links = {link: race(prepared, link, names, options.steps, options.seeds, folder)
                     for link in options.links.split(",")}
    except NotMeasured as reason:
        print(f"error: {reason}", file=sys.stderr)
        return 1
    if options.json:
        command = f"tests/frameworks/race.py --links {options.links} --steps {options.steps} --seeds {options.seeds} --only {','.join(names)}"
        session.write_json(options.json, prepared, command,
                           {"steps": options.steps, "seeds": options.seeds, "links": links})
    print(json.dumps(links))
    return 0


if __name__ == "__main__":
    sys.exit(main())
