"""What the preload costs a program that has nothing to do with NCCL: `bash -c :` is run with and without it,
turn by turn. Prints one JSON object; asserts nothing.

    start_cost.py [--runs 200] BUILD_DIR
"""

import argparse
import json
import os
import statistics
import subprocess
import time


def run_ms(preload):
    env = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    if preload:
        env["LD_PRELOAD"] = preload
    start = time.perf_counter()
    subprocess.run(["bash", "-c", ":"], env=env, check=True)
    return (time.perf_counter() - start) * 1e3


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--runs", type=int, default=200)
    options = parser.parse_args()
    libcinch = os.path.abspath(os.path.join(options.build, "lib", "libcinch.so"))
    plain, preloaded = [], []
    for _ in range(options.runs):
        plain.append(run_ms(None))
        preloaded.append(run_ms(libcinch))
    figures = {"runs": options.runs, "plain_ms": statistics.median(plain),
               "preloaded_ms": statistics.median(preloaded)}
    figures["ratio"] = figures["preloaded_ms"] / figures["plain_ms"]
    print(json.dumps({name: round(value, 3) for name, value in figures.items()}))


if __name__ == "__main__":
    main()
