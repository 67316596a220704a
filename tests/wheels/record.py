#!/usr/bin/env python3
"""Takes the facts of how released NCCL, PyTorch and JAX are bound and writes them to a file, as
kept in bench/results/bindings, each with what is not as Cinch takes for granted. Writes nothing
where one cannot be had.

record.py BUILD_DIR FILE
"""

import datetime
import json
import os
import platform
import sys

import jax_binding
import nccl_releases
import torch_binding


def facts_of(check, build):
    facts, problems = check(build)
    return facts | {"problems": problems}


def main(build, path):
    nccl = nccl_releases.check_all(build)
    if nccl["unavailable"]:
        sys.exit(f"cannot be had: {nccl['unavailable']}")
    results = {
        "date": datetime.date.today().isoformat(),
        "machine": f"{platform.machine()}, {' '.join(platform.libc_ver())}, no GPU used",
        "command": "tests/wheels/record.py BUILD_DIR FILE",
        "torch": facts_of(torch_binding.check, build),
        "jax": facts_of(jax_binding.check, build),
        "nccl": nccl["releases"],
    }
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(results, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
