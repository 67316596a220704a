"""Every barrier and every fence of the device's code is needed, and ThreadSanitizer sees where one is missing: without
any one of them a race is reported, with all of them none.

    barriers_test.py CUDA_AGENTS_RACES_TEST
"""

import os
import subprocess
import sys
import tempfile

# What meets all of them: every codec, residual and alignment, whole launches and batches, kernels of their own, probes,
# statistics.
FILTER = "Agents.Hostile*:Agents.Probes*:Agents.AllReduces*:Agents.Defaults*"
FEWEST = 10  # fewer would mean that the list is not of all


def run(program, **environment):
    values = dict(os.environ, GTEST_FILTER=FILTER, TSAN_OPTIONS="halt_on_error=1", **environment)
    return subprocess.run([program], env=values, capture_output=True, text=True, errors="replace", timeout=550, check=False)


def main(program):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "barriers")
        outcome = run(program, CINCH_SIMT_BARRIERS=path)
        assert outcome.returncode == 0, outcome.stdout[-3000:] + outcome.stderr[-3000:]
        with open(path, encoding="utf-8") as file:
            barriers = sorted(file.read().split())
    assert len(barriers) >= FEWEST, barriers
    missed = []
    for barrier in barriers:
        outcome = run(program, CINCH_SIMT_WITHOUT=barrier)
        is_found = outcome.returncode != 0 and "ThreadSanitizer: data race" in outcome.stderr
        print(f"without {barrier}: {'a race' if is_found else 'NO RACE'}", flush=True)
        missed += [] if is_found else [barrier]
    print(f"{len(barriers) - len(missed)} of {len(barriers)} found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
