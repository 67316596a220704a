#!/usr/bin/env python3
"""Calls every function of the table once in a program that Cinch is preloaded into, on a libnccl
that records its calls, and prints how many came through unharmed as one JSON object in the last
line. Fails where one did not.

transparency.py BUILD_DIR PRELOAD
"""

import json
import os
import subprocess
import sys

import api_table

MODES = ("on", "observe", "off")


def complaint(function, mode, program, preload, nccl_folder):
    """Why `function` does not come through in this mode; None if it does."""
    env = dict(os.environ, LD_PRELOAD=preload, LD_LIBRARY_PATH=nccl_folder, CINCH_MODE=mode)
    done = subprocess.run(
        [program, function.name], env=env, capture_output=True, text=True, timeout=60
    )
    if done.returncode != 0:
        return f"exit status {done.returncode}: {done.stdout}{done.stderr}".strip()
    wanted = "libnccl.so.2" if function.role == "untouched" else "libcinch.so"
    bound = os.path.basename(done.stdout.strip())
    return None if bound == wanted else f"is bound to {bound}, not to {wanted}"


def check(build, preload):
    """(functions of the table, those that come through in every mode)"""
    program = os.path.join(build, "tests", "surface", "one_call")
    nccl_folder = os.path.join(build, "tests", "fake")
    table = api_table.read_table()
    harmed = set()
    for function in table:
        for mode in MODES:
            reason = complaint(function, mode, program, preload, nccl_folder)
            if reason is not None:
                print(f"{function.name} with CINCH_MODE={mode} {reason}", flush=True)
                harmed.add(function.name)
    return len(table), len(table) - len(harmed)


def main(build, preload):
    functions, passed = check(build, preload)
    print(json.dumps({"functions": functions, "passed": passed}))
    return 0 if functions == passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
