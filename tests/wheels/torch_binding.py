#!/usr/bin/env python3
"""Checks how a released PyTorch is bound to NCCL, with and without Cinch preloaded; no GPU is used.
Prints the facts found as one JSON object in the last line. Fails where one is not as Cinch takes
for granted, and is skipped where PyTorch cannot be had.

torch_binding.py BUILD_DIR
"""

import os
import subprocess
import sys
import tempfile

import binding
import elf
import loader_log
import package_index
import api_table  # beside the table's own tests, where binding looks too

VERSION = "2.15.0"
ASK = "import torch; print('torch:', torch.__version__, *torch.cuda.nccl.version())"


def import_torch(python, **env):
    """What a process that imports PyTorch says of itself: version, and NCCL's three numbers."""
    done = subprocess.run(
        [python, "-W", "ignore", "-c", ASK],
        env=dict(os.environ, **env),
        check=True,
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done.stdout.rpartition("torch: ")[2].split()


def bindings_under_preload(python, preload):
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "log")
        env = {"LD_DEBUG": "bindings", "LD_DEBUG_OUTPUT": log, "LD_BIND_NOW": "1"}
        import_torch(python, LD_PRELOAD=preload, **env)
        return loader_log.nccl_bindings_of(folder)


def binding_problems(undefined, bindings, exports):
    """What is wrong with where the names that PyTorch needs are bound."""
    bound = {b.symbol: b.library for b in bindings if b.binder == "libtorch_cuda.so"}
    problems = [f"{name} was not bound" for name in sorted(undefined - bound.keys())]
    return problems + binding.misdirected(bound, exports)


def check(build):
    """(facts, problems)"""
    cache, preload = binding.folders(build)
    name = f"torch-{VERSION}"
    packages = package_index.environment(cache, name, f"torch=={VERSION}")
    python = package_index.python_of(os.path.join(cache, name))

    library = os.path.join(packages, "torch", "lib", "libtorch_cuda.so")
    undefined = {s for s in elf.undefined(library) if s.startswith(("nccl", "pnccl"))}
    bindings = bindings_under_preload(python, preload)
    plain, preloaded = import_torch(python), import_torch(python, LD_PRELOAD=preload)
    problems = binding_problems(undefined, bindings, api_table.exported_names())
    if plain != preloaded:
        problems.append(f"PyTorch says {preloaded} of itself under the preload, {plain} without")
    dynamic = elf.dynamic(library)
    if "libnccl.so.2" not in dynamic["needed"]:
        problems.append("PyTorch does not link to libnccl.so.2")
    facts = {
        "torch": preloaded[0],
        "nccl": ".".join(preloaded[1:]),
        "libtorch_cuda": dynamic,
        "exports_nccl": sorted(s for s in elf.exported(library) if s.startswith("nccl")),
        "to_cinch": sorted(undefined & api_table.exported_names()),
        "to_nccl": sorted(undefined - api_table.exported_names()),
        "nccl_to_cinch": sorted(
            b.symbol for b in bindings if b.binder == "libnccl.so.2" and b.library == "libcinch.so"
        ),
    }
    return facts, problems


if __name__ == "__main__":
    sys.exit(binding.report(check, *sys.argv[1:]))
