#!/usr/bin/env python3
"""Writes docs/frameworks.md from the newest file in bench/results/frameworks; with --check, compares.

    bench/frameworks_page.py [--check] [--results FILE] [--page docs/frameworks.md]

tests/frameworks/session.py --json writes such a file. Nothing on the page comes from anywhere else.
"""
import argparse
import glob
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True

from page.markdown import table  # noqa: E402
from results_page import differences  # noqa: E402

FAMILIES = {
    "ddp": "DistributedDataParallel, and gradients that a script reduces itself",
    "ddp_models": "DistributedDataParallel: models that are not all parameters, or not all trained",
    "ddp_evaluations": "DistributedDataParallel with evaluations and metrics",
    "sharded": "FSDP1, FSDP2, HSDP, ZeroRedundancyOptimizer",
    "deepspeed_zero": "DeepSpeed",
    "trainers": "accelerate and Hugging Face's Trainer",
    "megatron": "Megatron-core",
    "model_parallel": "Tensor parallelism and pipelines",
    "averaging": "Averages of weights",
    "science": "Programs without gradients",
}

EXACT = "what is no gradient stays exact"
COMPRESSED = "gradients are compressed"

HEAD = """# What Cinch does with each framework today

{summary}

{n_jobs} small jobs, each written as its users write it, run with PyTorch {torch}'s own CUDA build on the
[emulator](../emulator): plain, and under Cinch with compression always on (`CINCH_WHEN=always`). The call log of each
rank says which calls were compressed, and the jobs mark what each call carries. To see what Cinch does with
a script of yours, without a GPU:

```
emulator/torch/run -n 2 --cinch train.py
```

and with a job of this page: `tests/frameworks/session.py {example}`.

How to read the tables:

- *loss*: the mean of the ranks' last five steps; with few steps of tiny models, a test that training works, no
  benchmark.
- *gradients compressed*: the first step of which at least 95 % of their bytes were, where the run counted that; their
  share over all steps, and in the last third of the steps. Calls below 64 KiB are not counted.
- *the rest*: whether all calls that carry something else (weights, activations, metrics, sums) stayed exact.
- *CPU*: whether the same job on CPU tensors over gloo, without the emulator, ends with the same parameters, bit for
  bit, as the plain run.
- Names with `[old]` ran with PyTorch's older NCCL back end (`TORCH_DIST_USE_NCCL2=0`), where that makes other calls.

Made by `bench/frameworks_page.py` from `{path}` (commit {commit}, `{command}`). Do not change it by hand."""


def percent(value):
    return "-" if value is None else f"{100 * value:.0f} %"


def loss(value):
    return "-" if value is None else f"{value:.4f}"


def shares(row):
    if not row["has_gradients"]:
        return "none"
    if not row["compressible"]:
        return f"{percent(row['compressed'])}, may pass"
    begin = f"from step {row['from_step']}, " if row.get("from_step") else ""
    return f"{begin}{percent(row['compressed'])}, {percent(row['compressed_in_the_end'])} in the end"


def rest(row):
    if not row["inexact_calls"]:
        return "exact"
    return "**not exact**: " + ", ".join(f"{n} calls with {what}" for what, n in sorted(row["inexact_calls"].items()))


def cpu(row):
    return {"equal": "equal", "different": "**different**", "not run": ""}.get(row["gloo"], "no")


def rows_table(rows):
    return table(["job", "loss, plain", "loss, Cinch", "gradients compressed", "the rest", "CPU"],
                 [[f"`{row['job']}`", loss(row["plain_loss"]), loss(row["cinch_loss"]), shares(row), rest(row),
                   cpu(row)] for row in rows])


def names(rows):
    return ", ".join(f"`{row['job']}`" for row in rows)


def summary(rows):
    """What a reader wants to know first."""
    inexact = [row for row in rows if EXACT in row["wrong"]]
    missed = [row for row in rows if COMPRESSED in row["wrong"]]
    right = [row for row in rows if row["compressible"] and not row["indistinct"] and not row["wrong"]]
    indistinct = [row for row in rows if row["indistinct"]]
    untouched = [row for row in rows if not row["compressible"] and not row["wrong"]]
    text = [f"- **{len(right)} rows** have gradients, which are compressed, and all else is exact."]
    if missed:
        text.append(f"- **{len(missed)} rows** have gradients that are not compressed, or not for long: they train as "
                    f"without Cinch, and no faster: {names(missed)}.")
    if indistinct:
        text.append(f"- **{len(indistinct)} rows** have gradients that nothing tells from weights or states, and pass "
                    f"unless a [rule](rules.md) names them: {names(indistinct)}.")
    if inexact:
        text.append(f"- **{len(inexact)} rows** have calls that carry no gradients and are compressed, which is wrong: "
                    f"set `CINCH_MODE=off` for programs like these: {names(inexact)}.")
    text.append(f"- **{len(untouched)} rows** have nothing that ought to be compressed, and it is not.")
    return "\n".join(text)


def known(rows):
    found = [row for row in rows if row["known_failure"]]
    if not found:
        return ""
    lines = [[f"`{row['job']}`", "; ".join(f"{check}: {text}" for check, text in row["wrong"].items()),
              row["known_failure"]] for row in found]
    return "## What is wrong\n\n" + "\n".join(
        ["| job | wrong today | right |", "| --- | --- | --- |", *("| " + " | ".join(line) + " |" for line in lines)])


def told_apart_by_nothing(rows):
    lines = [f"- `{row['job']}`: {row['indistinct']}" for row in rows if row["indistinct"]]
    return "\n".join(["## Why some gradients pass\n", *lines]) if lines else ""


def told_apart_late(rows):
    lines = [f"- `{row['job']}`, from step {row['from_step']}: {row['late']}" for row in rows if row["late"]]
    return "\n".join(["## Why some gradients pass at first\n", *lines]) if lines else ""


def not_compared(rows):
    reasons = {}
    for row in rows:
        if row["gloo"] not in ("equal", "different", "not run"):
            reasons.setdefault(row["gloo"], []).append(row)
    return "## Why some jobs are not compared with CPU tensors\n\n" + "\n".join(
        f"- {reason}: {names(found)}." for reason, found in sorted(reasons.items()))


def page(content, path):
    rows = content["rows"]
    text = [HEAD.format(summary=summary(rows), n_jobs=content["summary"]["jobs"], torch=content["torch"],
                        commit=content["commit"], command=content["command"], path=path, example=rows[0]["job"])]
    for family, title in FAMILIES.items():
        if found := [row for row in rows if row["family"] == family]:
            text.append(f"## {title}\n\n{rows_table(found)}")
    return "\n\n".join(part for part in [*text, known(rows), told_apart_by_nothing(rows), told_apart_late(rows),
                               not_compared(rows)] if part) + "\n"


def newest():
    return max(glob.glob(os.path.join(HERE, "results", "frameworks", "*.json")))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--results", metavar="FILE")
    parser.add_argument("--page", default=os.path.join(ROOT, "docs", "frameworks.md"))
    options = parser.parse_args()
    path = options.results or newest()
    with open(path, encoding="utf-8") as file:
        text = page(json.load(file), os.path.relpath(path, ROOT))
    if options.check:
        different = differences(options.page, text)
        print(different, end="")
        return 1 if different else 0
    with open(options.page, "w", encoding="utf-8") as file:
        file.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
