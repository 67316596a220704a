"""What is known of the CUDA kernels without a GPU, found out now: races and missing barriers in the model of a GPU, faults
planted for the gates of compiled code, the hang that loading kernels late would be, what the compiler made of what a
default runs, the size of the library for all architectures, the plan for a GPU that is lent; and which checks have passed
on one with these sources. Half an hour on two cores."""

import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.append(os.path.join(ROOT, "tests", "compile"))

import cubin  # noqa: E402 (found by the line above)

BUILD = os.path.join(ROOT, "build")
# Figures, and the kernels that they are of.
KERNELS = {"h3_ef_fp32": "encode_fp32_h3_ef", "h3_ef_int8": "encode_fp32_h3_ef8", "q4_bf16": "encode_bf16_q4"}
MOST_INSTRUCTIONS = {"h3_ef_fp32": 70, "h3_ef_int8": 110, "q4_bf16": 17}
MOST_MIB = 20
GATE_FAULTS = {"contraction": "test_contraction_is_seen", "instructions": "test_more_instructions_are_seen_wherever_they_are"}
LAZY_CASE = "test_communicator_sum_beside_a_receive"

PREPARE = """
. tools/setup.sh
set_up_tests
cmake --preset release -DCINCH_CUDA=auto -DCINCH_CUDA_OPTIMISE=ON
cmake --build --preset release --target cuda_agents_races_test cuda_cta_test surface_rank cinch cinch_codec_host cinch_codec_cuda
"""


def run(*command):
    """(exit status, output), which goes on to standard error."""
    print("==", *command, file=sys.stderr, flush=True)
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                          check=False)
    sys.stderr.write(done.stdout)
    return done.returncode, done.stdout


def python(script, *arguments):
    return run(sys.executable, "-B", os.path.join(ROOT, script), *arguments)


def program(name):
    return os.path.join(BUILD, "tests", name)


def races():
    """That were reported; None where the program did not get that far."""
    status, output = run(program("cuda_agents_races_test"))
    n = output.count("WARNING: ThreadSanitizer")
    return n if status == 0 or n else None


def mutants():
    status, output = python("tests/unit/kernels/cuda/barriers_test.py", program("cuda_agents_races_test"))
    counted = re.search(r"^(\d+) of (\d+) found$", output, re.M)
    return (status == 0, f"{counted[1]}/{counted[2]}") if counted else (False, None)


def gate_faults():
    _, output = python("tests/compile/gates_test.py", "nvcc", ROOT)
    found = sum(re.search(rf"^{test} .*ok$", output, re.M) is not None for test in GATE_FAULTS.values())
    return f"{found}/{len(GATE_FAULTS)}"


def lazy_loading():
    preload = os.path.join(BUILD, "lib", "libcinch.so")
    status, output = python("tests/multiproc/surface/surface_test.py", "-k", LAZY_CASE, program("surface_rank"), preload)
    return "pass" if status == 0 and "Ran 1 test" in output else "fail"


def instructions():
    status, output = python("tests/compile/compile_gates.py", "--root", ROOT, "--archs", "90", "--json")
    lines = [line for line in output.splitlines() if line.startswith("{")]
    counts = json.loads(lines[-1])["instr_per_elem"] if lines else {}
    return status == 0, {name: counts.get(kernel) for name, kernel in KERNELS.items()}


def ctas_beyond_residency():
    """Grids that are larger than what runs at once, of all that its test draws; None where it fails otherwise."""
    status, output = run(program("cuda_cta_test"))
    failed = re.search(r"(\d+) FAILED TEST", output)
    return 0 if status == 0 else int(failed[1]) if failed else None


def library_mib():
    """(with its cubins unpacked, which is what has a limit; the file)"""
    with open(os.path.join(BUILD, "lib", "libcinch-codec-cuda.so"), "rb") as file:
        library = file.read()
    return round(cubin.unpacked_bytes(library) / (1 << 20), 1), round(len(library) / (1 << 20), 1)


def gpu_plan():
    _, output = python("tests/gpu/check", "--batch", "1", "--batch", "2", "--plan")
    return [int(seconds) for seconds in re.findall(r"^batch \d: (\d+) of", output, re.M)]


def seen_on_gpu():
    """{GPU: names of the items that have passed there with these sources}."""
    status, output = python("tests/gpu/check", "--seen")
    return json.loads(output.splitlines()[-1]) if status == 0 else None


def holds(figures):
    counts = figures["instr_per_value"]
    return (figures["races"] == 0 and figures["gate_faults_found"] == f"{len(GATE_FAULTS)}/{len(GATE_FAULTS)}"
            and figures["lazy_loading"] == "pass" and figures["ctas_beyond_residency"] == 0
            and figures["library_mib"] <= MOST_MIB
            and all(counts[name] is not None and counts[name] <= most for name, most in MOST_INSTRUCTIONS.items()))


def measure():
    subprocess.run(["bash", "-euo", "pipefail", "-c", PREPARE], cwd=ROOT, check=True, stdout=sys.stderr)
    all_found, found = mutants()
    gates_hold, counts = instructions()
    unpacked_mib, file_mib = library_mib()
    figures = {"races": races(), "mutants": found, "gate_faults_found": gate_faults(), "lazy_loading": lazy_loading(),
               "instr_per_value": counts, "ctas_beyond_residency": ctas_beyond_residency(), "library_mib": unpacked_mib,
               "library_file_mib": file_mib, "check_plan_s": gpu_plan(), "seen_on_gpu": seen_on_gpu()}
    return figures, all_found and gates_hold and holds(figures)
