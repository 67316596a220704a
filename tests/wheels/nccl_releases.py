#!/usr/bin/env python3
"""Checks Cinch against NCCL's releases, as packaged for Python: their headers, their libraries, and
a program linked to each. Prints the facts found as one JSON object in the last line. Fails where
one is not as Cinch takes for granted, and is skipped where none can be had.

nccl_releases.py BUILD_DIR
"""

import json
import os
import re
import subprocess
import sys

import binding
import elf
import package_index
import api_table  # after binding, which knows where

# Every minor release, and within one those that brought functions and the one before.
CUDA12 = (
    "2.18.1 2.19.3 2.20.5 2.21.5 2.22.3 2.23.4 2.24.3 2.25.1 2.26.2 2.27.3 2.28.3 2.28.7 2.28.9 "
    "2.29.2 2.29.7 2.30.3 2.30.4 2.30.7 2.31.2 2.32.3"
).split()
CUDA13 = ("2.28.9", "2.30.7", "2.32.3")
RELEASES = [("nvidia-nccl-cu12", version) for version in CUDA12]
RELEASES += [("nvidia-nccl-cu13", version) for version in CUDA13]

ABI = os.path.join(binding.ROOT, "tests", "abi", "releases")
PROBE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "release_probe.c")
DROP_IN = os.path.join(binding.ROOT, "interpose", "reach", "nccl_names.def")


def version_code(version):
    major, minor, patch = api_table.release_of(version)
    return major * 10000 + minor * 100 + patch


def names_problems(version, header_names, exported, table):
    """Where header, library and table do not name the same functions."""
    release = api_table.release_of(version)
    wanted = {function.name for function in table if function.first_release <= release}
    problems = [f"{name} is not in the table, or later" for name in header_names - wanted]
    problems += [f"{name} is in the table, not in the header" for name in wanted - header_names]
    for name in header_names:
        twins = (exported.get(name), exported.get("p" + name))
        if twins != ("W", "T"):
            problems.append(f"the library has {name} and its twin as {twins}, not weak and strong")
    return sorted(problems)


def drop_in_problems(exported, known):
    """What a library that stands in for libnccl.so.2 would lack: public functions have a twin."""
    public = {name for name in exported if name.startswith("nccl") and "p" + name in exported}
    return [f"the drop-in library lacks {name}" for name in sorted(public - known)]


def drop_in_names():
    with open(DROP_IN, encoding="utf-8") as file:
        names = re.findall(r"^CINCH_NCCL_NAME\((\w+)\)", file.read(), re.M)
    return {"nccl" + name for name in names}


def compile_problems(include, version):
    """What the compiler says of our declarations beside this release's header."""
    command = ["c++", "-std=c++20", "-fsyntax-only", "-Werror"]
    command += [f"-DCINCH_RELEASE={version_code(version)}", "-I", binding.ROOT]
    command += ["-I", os.path.join(ABI, "cuda"), "-I", include]
    done = subprocess.run(
        [*command, os.path.join(ABI, "release_check.cc")], capture_output=True, text=True
    )
    if done.returncode == 0:
        return []
    return re.findall(r"error: (.*)", done.stderr) or [done.stderr.strip()]


def build_probe(folder, include, library):
    program = os.path.join(folder, "probe")
    command = ["cc", "-I", include, "-I", os.path.join(ABI, "cuda"), PROBE, library, "-o", program]
    subprocess.run([*command, "-ldl", f"-Wl,-rpath,{os.path.dirname(library)}"], check=True)
    return program


def run_probe(program, names, **env):
    """(version, result of ncclGetUniqueId, {name: file that it resolves to})"""
    done = subprocess.run(
        [program, *sorted(names)],
        env=dict(os.environ, **env),
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    version, unique_id, *resolved = re.findall(r"^probe: (.*)$", done.stdout, re.M)
    return int(version), int(unique_id), dict(line.split() for line in resolved)


def probe_problems(plain, preloaded, version, exports):
    """What Cinch changes for a program linked to this release, but should not."""
    problems = []
    if preloaded[0] != version_code(version):
        problems.append(f"ncclGetVersion gives {preloaded[0]} under the preload")
    if preloaded[1] != plain[1]:
        problems.append(f"ncclGetUniqueId gives {preloaded[1]}, not {plain[1]}, under the preload")
    return problems + binding.misdirected(preloaded[2], exports)


def check(package, version, cache, preload):
    """(facts, problems) of one release."""
    path = package_index.wheel(cache, package, version)
    keep = re.compile(r"nvidia/nccl/(include/nccl\.h|lib/libnccl\.so\.2)$").match
    with package_index.unpacked(cache, path, keep) as folder:
        include = os.path.join(folder, "nvidia", "nccl", "include")
        library = os.path.join(folder, "nvidia", "nccl", "lib", "libnccl.so.2")
        with open(os.path.join(include, "nccl.h"), encoding="utf-8") as file:
            names = api_table.names_in_header(file.read())
        exported = elf.exported(library)
        program = build_probe(folder, include, library)
        plain = run_probe(program, names)
        preloaded = run_probe(program, names, LD_PRELOAD=preload)
        exports = api_table.exported_names()
        problems = names_problems(version, names, exported, api_table.read_table())
        problems += drop_in_problems(exported, drop_in_names())
        problems += compile_problems(include, version)
        problems += probe_problems(plain, preloaded, version, exports)
        facts = {
            "package": package,
            "version": version,
            "functions": len(names),
            "version_code": preloaded[0],
            "unique_id_without_gpu": preloaded[1],
            "functions_to_cinch": len(names & exports),
            "needed": elf.dynamic(library)["needed"],
        }
    return facts, problems


def check_all(build, releases=RELEASES):
    """{"releases": [facts, with the problems of each], "unavailable": {package: reason}}"""
    cache, preload = binding.folders(build)
    found = {"releases": [], "unavailable": {}}
    for package, version in releases:
        name = f"{package} {version}"
        try:
            facts, problems = check(package, version, cache, preload)
        except package_index.Unavailable as reason:
            found["unavailable"][name] = str(reason)
            continue
        print(f"{name}: {len(problems)} problems", *problems, sep="\n  ", flush=True)
        found["releases"].append(facts | {"problems": problems})
    return found


def main(build):
    found = check_all(build)
    print(json.dumps(found))
    if not found["releases"]:
        return binding.SKIPPED
    return 1 if any(facts["problems"] for facts in found["releases"]) else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
