#!/usr/bin/env python3
"""Makes a wheel of what a build folder installs: make_wheel.py BUILD OUTPUT. Prints its path.

A wheel is a zip with three files about itself, which the standard library writes as well as any
build system. Its platform tag is what the binaries prove: the newest glibc that one of them needs.
"""

import base64
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
# train_lm is left out: it needs OpenBLAS.
COMPONENTS = ("libraries", "tools")
LEFT_OUT = re.compile(r"/(cmake|pkgconfig)/|^share/")
# The oldest glibc that manylinux tags know of in this form.
OLDEST_GLIBC = (2, 17)
# What every manylinux platform has; all else would have to come along.
SYSTEM_LIBRARIES = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1",
                    "ld-linux-x86-64.so.2"}
# Of a time that zip can tell, so that the same build makes the same wheel.
STAMP = (1980, 1, 1, 0, 0, 0)


def readelf(*arguments):
    return subprocess.run(["readelf", "-W", *arguments], check=True, capture_output=True,
                          text=True).stdout


def cache_value(build, name):
    with open(os.path.join(build, "CMakeCache.txt"), encoding="utf-8") as file:
        return re.search(rf"^{name}:\w+=(.*)$", file.read(), re.M).group(1)


def installed(build, folder):
    """Installs into `folder`; {path in the package: file}"""
    for component in COMPONENTS:
        subprocess.run(["cmake", "--install", build, "--prefix", folder, "--strip", "--component",
                        component], check=True, stdout=subprocess.DEVNULL)
    found = {}
    for parent, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)
            relative = os.path.relpath(path, folder)
            if not LEFT_OUT.search(relative):
                found[relative] = path
    return found


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def oldest_glibc(binaries):
    """The oldest glibc with every symbol version that the binaries need."""
    needed = {OLDEST_GLIBC}
    for path in binaries:
        for major, minor in re.findall(r"\bGLIBC_(\d+)\.(\d+)", readelf("--version-info", path)):
            needed.add((int(major), int(minor)))
    return max(needed)


def missing_libraries(binaries):
    """What the binaries need that neither the platform nor the wheel has."""
    own = {os.path.basename(path) for path in binaries}
    needed = set()
    for path in binaries:
        needed |= set(re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("--dynamic", path)))
    return sorted(needed - own - SYSTEM_LIBRARIES)


def distribution_name(build, files):
    """With the CUDA major of its codec in it, as usual of packages with CUDA in them."""
    if not any(name.endswith("libcinch-codec-cuda.so") for name in files):
        return "cinch"
    nvcc = cache_value(build, "CINCH_NVCC")
    version = subprocess.run([nvcc, "--version"], check=True, capture_output=True, text=True).stdout
    return "cinch_cu" + re.search(r"release (\d+)", version).group(1)


def about(name, version, tag):
    """{path in the wheel: text} of what a wheel says of itself, all but the record."""
    with open(os.path.join(ROOT, "LICENSE"), encoding="utf-8") as file:
        licence = file.read()
    return {
        "METADATA": f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {version}\n"
                    "Summary: Compresses the collectives of unmodified NCCL programs\n"
                    "License: Apache-2.0\nRequires-Python: >=3.8\n",
        "WHEEL": "Wheel-Version: 1.0\nGenerator: cinch\nRoot-Is-Purelib: false\n"
                 f"Tag: py3-none-{tag}\n",
        "entry_points.txt": "[console_scripts]\ncinch = cinch:main\n",
        "LICENSE": licence,
    }


class Wheel:
    def __init__(self, path):
        self._archive = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)
        self._record = []

    def add(self, name, data, mode=0o644):
        self._write(name, data, mode)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self._record.append(f"{name},sha256={digest},{len(data)}")

    def close(self, record):
        self._write(record, "\n".join([*self._record, f"{record},,", ""]).encode(), 0o644)
        self._archive.close()

    def _write(self, name, data, mode):
        entry = zipfile.ZipInfo(name, STAMP)
        entry.external_attr = (0o100000 | mode) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        self._archive.writestr(entry, data)


def content(path):
    with open(path, "rb") as file:
        return file.read()


def package_sources():
    folder = os.path.join(HERE, "cinch")
    return {f"cinch/{name}": os.path.join(folder, name) for name in sorted(os.listdir(folder))
            if name.endswith(".py")}


def write_wheel(path, name, version, tag, files):
    wheel = Wheel(path)
    for target, source in package_sources().items():
        wheel.add(target, content(source))
    for target, source in sorted(files.items()):
        wheel.add(f"cinch/{target}", content(source), 0o755 if is_elf(source) else 0o644)
    information = f"{name}-{version}.dist-info"
    for target, text in about(name, version, tag).items():
        wheel.add(f"{information}/{target}", text.encode())
    wheel.close(f"{information}/RECORD")


def make_wheel(build, output):
    with tempfile.TemporaryDirectory() as folder:
        files = installed(build, folder)
        binaries = [path for path in files.values() if is_elf(path)]
        if missing := missing_libraries(binaries):
            sys.exit(f"make_wheel: no manylinux platform has {', '.join(missing)}")
        major, minor = oldest_glibc(binaries)
        tag = f"manylinux_{major}_{minor}_{os.uname().machine}"
        name = distribution_name(build, files)
        version = cache_value(build, "CMAKE_PROJECT_VERSION")
        os.makedirs(output, exist_ok=True)
        path = os.path.join(output, f"{name}-{version}-py3-none-{tag}.whl")
        write_wheel(path, name, version, tag, files)
    return path


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    print(make_wheel(*sys.argv[1:]))
