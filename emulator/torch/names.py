"""Which names of CUDA and NCCL a PyTorch wants, and whether the emulator's libraries have them.

PyTorch's libraries are loaded with all their names resolved at once, so a single name that the emulator
lacks ends the program in the loader. Who brings a PyTorch that is newer than the emulator is told before.
"""
import glob
import hashlib
import json
import os
import re
import subprocess

from errors import Unusable

# cudaMalloc, cuInit, ncclAllReduce; but not cublasCreate, cudnnCreate or cuFileRead of other libraries.
WANTED = re.compile(r"(?!cuFile)(cuda|cu|nccl)[A-Z]\w*")

# What the emulator stands in for, as PyTorch's libraries name it.
LIBRARIES = ("libcudart.so.13", "libcuda.so.1", "libnccl.so.2")


def require(torch, build, cache):
    """Raises Unusable if the emulator in `build` lacks a name that the package folder `torch` wants."""
    check_version(torch)
    exported = set()
    for library in LIBRARIES:
        exported |= exported_names(os.path.join(build, "emulator", library))
    if missing := sorted(wanted_names(torch, cache) - exported):
        raise Unusable(
            f"the PyTorch in {torch} (version {version(torch)['__version__']}) wants {len(missing)} names "
            f"that the emulator does not have: {', '.join(missing)}. Its libraries would not load. Use the "
            "version that emulator/torch/requirements.txt names, or add the names to emulator/cudart, "
            "emulator/driver or emulator/nccl.")


def version(torch):
    """The variables of torch/version.py, which is read without an import of PyTorch."""
    variables = {}
    with open(os.path.join(torch, "version.py")) as file:
        exec(file.read(), variables)
    return variables


def check_version(torch):
    built_for = version(torch).get("cuda")
    if not built_for:
        raise Unusable(
            f"the PyTorch in {torch} (version {version(torch)['__version__']}) was built without CUDA, so it "
            "makes no NCCL call. Install the build for CUDA 13.")
    if built_for.split(".")[0] != "13":
        raise Unusable(
            f"the PyTorch in {torch} (version {version(torch)['__version__']}) was built for CUDA {built_for}, "
            "and the emulator stands in for CUDA 13. Install the build for CUDA 13.")


def wanted_names(torch, cache):
    """By all of PyTorch's libraries together. The answer is kept in `cache`: reading them takes a second."""
    libraries = sorted(glob.glob(os.path.join(torch, "lib", "*.so*")))
    states = [(path, os.stat(path).st_size, os.stat(path).st_mtime_ns) for path in libraries]
    key = hashlib.sha256(repr((states, WANTED.pattern)).encode()).hexdigest()[:16]
    kept = os.path.join(cache, f"names-{key}.json")
    try:
        with open(kept) as file:
            return set(json.load(file))
    except (OSError, ValueError):
        pass
    names = set()
    for library in libraries:
        names |= {name for name in symbols(library, "--undefined-only") if WANTED.fullmatch(name)}
    os.makedirs(cache, exist_ok=True)
    with open(f"{kept}.{os.getpid()}", "w") as file:
        json.dump(sorted(names), file)
    os.replace(file.name, kept)
    return names


def exported_names(library):
    if not os.path.exists(library):
        raise Unusable(f"{library} is not there: build the emulator (cmake --build), or let "
                       "emulator/torch/run build it by leaving out --build")
    return symbols(library, "--defined-only")


def symbols(library, which):
    """Of a library's dynamic table, without their version; weak undefined ones may stay undefined."""
    try:
        done = subprocess.run(["nm", "-D", "-P", which, library], capture_output=True, text=True)
    except FileNotFoundError:
        raise Unusable("nm, which lists the names of a library, is not there: install binutils") from None
    if done.returncode != 0:
        raise Unusable(f"cannot list the names of {library}: {done.stderr.strip()}")
    fields = [line.split() for line in done.stdout.splitlines() if line]
    return {name.split("@")[0] for name, kind, *_ in fields if kind != "w"}
