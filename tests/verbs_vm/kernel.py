#!/usr/bin/env python3
"""Debian's kernel and the modules that Soft-RoCE needs, for the guest. Fetched with apt and unpacked,
not installed: an installed kernel would become what this machine boots.

kernel.py [FOLDER]      fetches into FOLDER, by default build/verbs_vm/kernel, what is not there yet
"""

import lzma
import os
import platform
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "support"))

import debian  # noqa: E402

FOLDER = os.path.join(ROOT, "build", "verbs_vm", "kernel")

# In the order in which they are loaded, each after what it depends on. rdma_rxe asks for "crc32" by
# name when a device is made, so that one is nobody's dependency.
WANTED = ["crc32_generic", "ib_uverbs", "rdma_rxe", "veth", "sch_netem"]


class NoKernel(Exception):
    """Why there is none."""


def is_fetched(folder=FOLDER):
    return os.path.exists(os.path.join(folder, "modules", "order"))


def package_name():
    """The package that the newest kernel of this release is in."""
    if platform.machine() != "x86_64":
        raise NoKernel("the guest is an x86-64 machine with this machine's libraries")
    shown = subprocess.run(["apt-cache", "depends", "--important", "linux-image-amd64"],
                           capture_output=True, text=True, check=False)
    found = re.search(r"Depends: (linux-image-\S+)", shown.stdout)
    if not found:
        raise NoKernel("apt knows no linux-image-amd64")
    return found[1]


def module_files(folder):
    """Of every module its file, by the name that the kernel has for it."""
    files = {}
    for parent, _, names in os.walk(os.path.join(folder, "lib", "modules")):
        for name in names:
            stem, dot, ending = name.partition(".ko")
            if dot and ending in ("", ".xz"):
                files[stem.replace("-", "_")] = os.path.join(parent, name)
    return files


def read_module(path):
    with (lzma.open if path.endswith(".xz") else open)(path, "rb") as file:
        return file.read()


def in_order(files, wanted):
    """Pairs of name and content: every module that is wanted after those that it depends on. What
    has no file is built in."""
    done = {}

    def add(name):
        if name in done or name not in files:
            return
        content = read_module(files[name])
        found = re.search(rb"\0depends=([^\0]*)\0", content)
        for needed in (found[1].decode() if found else "").split(","):
            add(needed.replace("-", "_"))
        done[name] = content

    for name in wanted:
        add(name)
    return list(done.items())


def decompressed(image):
    """The kernel inside the file that boots, which QEMU starts as well: to decompress it in the guest
    takes 4 s. The file itself where it is compressed otherwise than by xz."""
    start = image.find(b"\xfd7zXZ\0")
    try:
        inside = lzma.LZMADecompressor().decompress(image[start:]) if start > 0 else b""
    except lzma.LZMAError:
        inside = b""
    return inside if inside.startswith(b"\x7fELF") else image


def keep(unpacked, folder):
    """Of the package what the guest needs. The list of modules comes last, as the sign of success."""
    modules = in_order(module_files(unpacked), WANTED)
    if "rdma_rxe" not in dict(modules):
        raise NoKernel("the kernel has no rdma_rxe")
    os.makedirs(os.path.join(folder, "modules"), exist_ok=True)
    boot = os.path.join(unpacked, "boot")
    image = next(name for name in sorted(os.listdir(boot)) if name.startswith("vmlinuz-"))
    with open(os.path.join(boot, image), "rb") as packed:
        with open(os.path.join(folder, "linux"), "wb") as file:
            file.write(decompressed(packed.read()))
    for name, content in modules:
        with open(os.path.join(folder, "modules", name + ".ko"), "wb") as file:
            file.write(content)
    with open(os.path.join(folder, "modules", "order"), "w", encoding="utf-8") as file:
        file.writelines(name + "\n" for name, _ in modules)


def fetch(folder=FOLDER):
    os.makedirs(folder, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as unpacked:
        debian.unpack(package_name(), unpacked)
        keep(unpacked, folder)


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else FOLDER
    if is_fetched(folder):
        return 0
    try:
        fetch(folder)
    except (NoKernel, debian.NoPackage, OSError, subprocess.CalledProcessError) as problem:
        print(f"kernel.py: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
