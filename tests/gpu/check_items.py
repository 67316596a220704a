"""The build, and the checks of a small NCCL program and of a training job in C++: each a function from a Context
to an Outcome."""

import glob
import json
import os
import re
import shutil
import tempfile

import gpu_machine
from check_support import RANKS, Failure, Outcome, Skip, run, run_on_one_gpu, run_ranks, tail

# Normalised squared error of a two-rank sum of near-Gaussian data: what two quantisations leave, from a
# third to three times it. Below the lower bound nothing was compressed.
NMSE_LIMITS = {"q8": (1e-5, 1.5e-4), "q4": (3e-3, 4e-2), "h4": (3e-3, 4e-2)}
# An exact sum, rounded once to the type.
EXACT_LIMITS = {"fp32": 1e-13, "fp16": 1e-6, "bf16": 1e-4}
LOSS_TOLERANCE = 0.05  # of train_lm under Cinch, relative


# --- build ------------------------------------------------------------------------------------------------

TARGETS = ("cinch", "cinch_tool", "cinch_codec_cuda", "nccl_net_cinch", "nccl_tuner_cinch", "codec_gpu_test", "codec_gpu_bench",
           "two_ranks", "net_ranks", "surface_rank", "train_lm_gpu", "cinch_codec_host", "cinch_emulator_cudart", "cinch_emulator_driver",
           "cinch_emulator_nccl", "cinch_emulator_nvml")


def configure(context, nvcc):
    """Configures the build; where that fails, once more without the tests, which need GoogleTest."""
    nccl = gpu_machine.nccl_home()
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    command = ["cmake", "-S", context.root, "-B", context.build, *generator, "-DCMAKE_BUILD_TYPE=Release",
               "-DCINCH_CUDA=on", f"-DCINCH_NVCC={nvcc}",
               f"-DCINCH_CUDA_ARCHITECTURES={context.gpu.capability}-real", *context.cmake_arguments]
    environment = {"NCCL_HOME": nccl} if nccl else {}
    status, output = run([*command, "-DCINCH_TESTS=ON"], 120, **environment)
    if status == 0:
        return ""
    reason = " ".join(re.findall(r"CMake Error.*?\n((?:  .*\n|\n)+)", output)[:1]).split("Add the install")[0]
    if run([*command, "-DCINCH_TESTS=OFF"], 120, **environment)[0] == 0:
        return "; without the tests: " + " ".join(reason.split())
    context.not_built = dict.fromkeys(TARGETS, "cmake failed")
    raise Failure(f"cmake: {tail(output)}")


def build_target(context, target):
    status, output = run(["cmake", "--build", context.build, "--parallel", str(os.cpu_count()), "--target",
                          target], 300)
    if status == 0:
        return
    if not re.search(r"unknown target|No rule to make target", output):
        context.not_built[target] = "it does not compile"
        raise Failure(f"{target}: {tail(output)}")
    context.not_built[target] = "what it needs is missing here"


def build(context):
    nvcc = gpu_machine.find_tool("nvcc")
    if not nvcc or not shutil.which("cmake"):
        context.not_built = dict.fromkeys(TARGETS, "no nvcc or no cmake")
        raise Skip("no nvcc (CUDA_HOME) or no cmake")
    context.not_built = dict.fromkeys(TARGETS, "an earlier target failed")
    note = configure(context, nvcc)
    for target in TARGETS:
        del context.not_built[target]
        build_target(context, target)
    missing = ", ".join(context.not_built)
    return Outcome("pass", f"for sm_{context.gpu.capability}{note}" + (f"; without {missing}" if missing else ""))


# --- several ranks on one GPU -----------------------------------------------------------------------------

def two_ranks(context, environment):
    """Buckets by name, of rank 0; all ranks must hold the same bits."""
    results = run_on_one_gpu(context, [context.program("two_ranks")], environment)
    for result in results:
        differing = [name for name, bucket in result["buckets"].items() if not bucket["identical"]]
        if differing:
            raise Failure(f"ranks differ in {', '.join(differing)}")
    return results[0]["buckets"]


def time_slicing(context):
    return f"; without MPS ({context.mps.reason}): ranks take turns" if context.mps.reason else ""


def two_ranks_plain(context):
    buckets = two_ranks(context, {})
    for name, bucket in buckets.items():
        if not bucket["nmse"] <= EXACT_LIMITS[name.split("_")[0]]:
            raise Failure(f"plain NCCL: error {bucket['nmse']} in {name}")
    return Outcome("pass", f"{len(buckets)} buckets{time_slicing(context)}", buckets)


def two_ranks_off(context):
    plain, off = two_ranks(context, {}), two_ranks(context, context.preload(CINCH_MODE="off"))
    differing = [name for name in plain if plain[name]["hash"] != off[name]["hash"]]
    if differing:
        raise Failure(f"CINCH_MODE=off changes {', '.join(differing)}")
    return Outcome("pass", f"{len(plain)} buckets with the same bits as without Cinch")


def two_ranks_compressed(codec):
    def item(context):
        # The program repeats single calls, which are no steps of a job.
        buckets = two_ranks(context, context.preload(CINCH_CODEC=codec, CINCH_SLOTS="signature"))
        low, high = NMSE_LIMITS[codec]
        for name, bucket in buckets.items():
            passes = name.endswith("_small")
            if passes and not bucket["nmse"] <= EXACT_LIMITS["fp32"]:
                raise Failure(f"{name} should have passed, error {bucket['nmse']}")
            if not passes and not low <= bucket["nmse"] <= high:
                raise Failure(f"error {bucket['nmse']} in {name}, expected {low} to {high}")
        worst = max(bucket["nmse"] for bucket in buckets.values())
        return Outcome("pass", f"NMSE at most {worst:.2e}, ranks bit-identical{time_slicing(context)}", buckets)
    return item


# --- training ---------------------------------------------------------------------------------------------

def write_text(context, folder):
    """Something to learn from, on any machine: Cinch's own pages."""
    path = os.path.join(folder, "text")
    with open(path, "wb") as text:
        for page in sorted(glob.glob(os.path.join(context.root, "docs", "**", "*.md"), recursive=True)):
            with open(page, "rb") as file:
                text.write(file.read())
    return path


def train_lm(context, environment):
    """The final record of rank 0; all ranks must end with the same parameters."""
    program = context.program("train_lm_gpu")
    with tempfile.TemporaryDirectory() as folder:
        text = write_text(context, folder)
        logs = [os.path.join(folder, f"{rank}.log") for rank in range(RANKS)]
        outcomes = run_ranks([program, "--steps", "30", "--seed", "1", "--text", text], RANKS,
                             env={**context.mps.environment, **environment},
                             rank_args={rank: ["--log", log] for rank, log in enumerate(logs)}, deadline=100)
        for rank, outcome in enumerate(outcomes):
            if outcome.status != 0:
                raise Failure(f"rank {rank}: {tail(outcome.output)}")
        finals = []
        for log in logs:
            with open(log, encoding="utf-8") as file:
                finals.append(json.loads(file.read().splitlines()[-1]))
    if len({final["hash"] for final in finals}) != 1:
        raise Failure("the ranks' parameters differ")
    return finals[0]


def training(context):
    plain = train_lm(context, {})
    compressed = {"q4": train_lm(context, context.preload(CINCH_CODEC="q4")),
                  "auto": train_lm(context, context.preload())}
    figures = {"first": plain["held_out_first"], "plain": plain["held_out"]}
    for name, final in compressed.items():
        figures[name] = final["held_out"]
        if final["hash"] == plain["hash"]:
            raise Failure(f"{name} gave the same parameters as plain NCCL: nothing was compressed")
        if not abs(final["held_out"] - plain["held_out"]) <= LOSS_TOLERANCE * plain["held_out"]:
            raise Failure(f"{name}: held-out loss {final['held_out']} against {plain['held_out']}")
    return Outcome("pass", "held-out loss {first:.3f} -> plain {plain:.4f}, q4 {q4:.4f}, nothing set {auto:.4f}"
                   .format(**figures), figures)


BUILD_ITEMS = (("build", build),)
ITEMS = (
    ("2 ranks, plain NCCL", two_ranks_plain),
    ("2 ranks, CINCH_MODE=off", two_ranks_off),
    ("2 ranks, q8", two_ranks_compressed("q8")),
    ("2 ranks, q4", two_ranks_compressed("q4")),
    ("2 ranks, h4", two_ranks_compressed("h4")),
    ("train_lm, plain, q4 and nothing set", training),
)
