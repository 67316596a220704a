#!/usr/bin/env python3
"""Checks how a released JAX is bound to NCCL, with and without Cinch preloaded; no GPU is used. It
has no link to NCCL: only the preload's dlsym can reach it. Prints the facts found as one JSON
object in the last line. Fails where one is not as Cinch takes for granted, and is skipped where JAX
cannot be had.

jax_binding.py BUILD_DIR
"""

import json
import os
import subprocess
import sys

import binding
import elf
import package_index
import api_table  # after binding, which knows where

HERE = os.path.dirname(os.path.abspath(__file__))
VERSION = "0.10.2"
NCCL = "2.32.3"
PACKAGES = (f"jax-cuda12-pjrt=={VERSION}", f"nvidia-nccl-cu12=={NCCL}")
# By this line Cinch says that it was called, and which NCCL is under it.
BOUND = "CINCH/INIT using NCCL"


def probe(python, nccl, plugin, stubs, names, **env):
    """(what jax_probe.py found, whether Cinch was called)"""
    done = subprocess.run(
        [python, os.path.join(HERE, "jax_probe.py"), nccl, plugin, json.dumps(stubs), *names],
        env=dict(os.environ, NCCL_DEBUG="INFO", **env),
        check=True,
        capture_output=True,
        text=True,
        timeout=300,
    )
    return json.loads(done.stdout.strip().splitlines()[-1]), BOUND in done.stdout


def stub_problems(plain, preloaded):
    problems = []
    if plain[0]["results"] != [0, 0] or plain[1]:
        problems.append(f"XLA's stubs do not reach NCCL: {plain}")
    if not preloaded[1]:
        problems.append("XLA's stub of ncclGroupStart does not reach Cinch")
    if {k: plain[0][k] for k in ("results", "version")} != {
        k: preloaded[0][k] for k in ("results", "version")
    }:
        problems.append(f"XLA's stubs answer otherwise under the preload: {preloaded[0]}")
    return problems


def check(build):
    """(facts, problems)"""
    cache, preload = binding.folders(build)
    name = f"jax-{VERSION}"
    packages = package_index.environment(cache, name, *PACKAGES, dependencies=False)
    python = package_index.python_of(os.path.join(cache, name))
    nccl = os.path.join(packages, "nvidia", "nccl", "lib", "libnccl.so.2")
    plugin = os.path.join(packages, "jax_plugins", "xla_cuda12", "xla_cuda_plugin.so")

    stubs = {n: a for n, a in elf.local_functions(plugin).items() if n.startswith("nccl")}
    table = {function.name for function in api_table.read_table()}
    names = sorted(stubs.keys() & table & elf.exported(nccl).keys())
    plain = probe(python, nccl, plugin, stubs, names)
    preloaded = probe(python, nccl, plugin, stubs, names, LD_PRELOAD=preload)
    exports = api_table.exported_names()
    problems = binding.misdirected(preloaded[0]["files"], exports) + stub_problems(plain, preloaded)
    facts = {
        "jax": VERSION,
        "nccl": NCCL,
        "xla_cuda_plugin": elf.dynamic(plugin),
        "undefined_nccl": sorted(s for s in elf.undefined(plugin) if "nccl" in s),
        "stubs": len(stubs),
        "to_cinch": sorted(set(names) & exports),
        "to_nccl": sorted(set(names) - exports),
        "stubs_not_in_nccl": sorted(stubs.keys() - elf.exported(nccl).keys()),
    }
    return facts, problems


if __name__ == "__main__":
    sys.exit(binding.report(check, *sys.argv[1:]))
