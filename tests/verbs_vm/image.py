"""The guest's initramfs: two cpio archives, one after the other, as the kernel takes them. The first
has the system, is kept by content and made anew only when something in it has changed; the second has
what a caller brings. Every file has the path that it has here, so that programs find their libraries.
"""

import glob
import hashlib
import os
import re
import shutil
import stat
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))

# Programs of the guest and the packages that they are in.
PROGRAMS = {
    "busybox": "busybox-static", "dash": "dash", "ip": "iproute2", "tc": "iproute2", "rdma": "iproute2",
    "ibv_devinfo": "ibverbs-utils", "ibv_asyncwatch": "ibverbs-utils", "ib_write_bw": "perftest",
}
# Opened while programs run, so that no program names them.
PROVIDER_PACKAGE = "ibverbs-providers"
OPENED = ["/etc/libibverbs.d/rxe.driver", "/usr/lib/*/libibverbs/librxe-*.so",
          "/lib/*/libgcc_s.so.1"]

FOLDERS = ["dev", "proc", "sys", "tmp", "run", "root", "out", "var", "bin", "sbin"]
TEXTS = {
    "/etc/passwd": "root:x:0:0:root:/root:/bin/sh\n",
    "/etc/group": "root:x:0:\n",
    "/etc/hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "/etc/nsswitch.conf": "hosts: files\n",
}


class Missing(Exception):
    """What the image needs and this machine does not have."""


def find_program(name):
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def missing_packages():
    """Debian packages that the image needs and that are not installed."""
    missing = {package for name, package in PROGRAMS.items() if not find_program(name)}
    if not all(glob.glob(pattern) for pattern in OPENED):
        missing.add(PROVIDER_PACKAGE)
    return sorted(missing)


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def libraries(paths):
    """The shared libraries that programs and libraries need, and theirs, by the names of ldd."""
    elf = [path for path in paths if is_elf(path)]
    if not elf:
        return set()
    # ldd ends with an error where one of several files is linked statically.
    shown = subprocess.run(["ldd", *elf], capture_output=True, text=True, check=False).stdout
    absent = re.findall(r"^\s*(\S+) => not found", shown, re.MULTILINE)
    if absent:
        raise Missing("libraries: " + ", ".join(sorted(set(absent))))
    return set(re.findall(r"^\s+(?:\S+ => )?(/\S+) \(0x", shown, re.MULTILINE))


def under(path):
    """The path, or all files below it where it is a folder."""
    if not os.path.isdir(path):
        return [path]
    return [os.path.join(parent, name) for parent, _, names in os.walk(path) for name in names]


def with_libraries(paths):
    """Guest paths with the files that they have here: what is given, and the libraries of that."""
    files = [os.path.abspath(file) for path in paths for file in under(path)]
    absent = [file for file in files if not os.path.exists(file)]
    if absent:
        raise Missing("files: " + ", ".join(absent))
    return {path: path for path in [*files, *libraries(files)]}


def system_files(kernel):
    """Guest paths of the system with the files that they have here."""
    opened = [found for pattern in OPENED for found in glob.glob(pattern)]
    files = with_libraries([find_program(name) for name in PROGRAMS] + opened)
    # Busybox's own shell would take its ip and tc for those of iproute2.
    files.update({"/bin/busybox": find_program("busybox"), "/bin/sh": find_program("dash")})
    files["/init"] = os.path.join(HERE, "guest", "init")
    for name in os.listdir(os.path.join(kernel, "modules")):
        files["/modules/" + name] = os.path.join(kernel, "modules", name)
    return files


class Archive:
    """A cpio archive in the format that the kernel reads ("newc")."""

    def __init__(self):
        self.parts = []
        self.folders = set()

    def add(self, name, mode, content=b""):
        name = name.lstrip("/")
        fields = (len(self.parts) + 1, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
        head = b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
        self.parts += [head + b"\0" * (-len(head) % 4) + content + b"\0" * (-len(content) % 4)]

    def add_folder(self, path):
        path = path.strip("/")
        if path and path not in self.folders:
            self.add_folder(os.path.dirname(path))
            self.folders.add(path)
            self.add(path, stat.S_IFDIR | 0o755)

    def add_file(self, path, content, mode=0o644):
        self.add_folder(os.path.dirname(path))
        self.add(path, stat.S_IFREG | mode, content)

    def add_files(self, files):
        for path, source in sorted(files.items()):
            with open(source, "rb") as file:
                self.add_file(path, file.read(), stat.S_IMODE(os.stat(source).st_mode))

    def content(self):
        self.add("TRAILER!!!", 0)
        return b"".join(self.parts)


def add_system(archive, files):
    for folder in FOLDERS:
        archive.add_folder(folder)
    for path, text in TEXTS.items():
        archive.add_file(path, text.encode())
    archive.add_files(files)
    return archive


def key_of(files):
    """Changes with the files of the system, and with how they are put together."""
    key = hashlib.sha256()
    with open(__file__, "rb") as file:
        key.update(file.read())
    for path, source in sorted(files.items()):
        status = os.stat(source)
        key.update(f"{path} {source} {status.st_size} {status.st_mtime_ns}\n".encode())
    return key.hexdigest()[:16]


def system_archive(folder, kernel):
    """Path of the first archive, made where the folder has none of the same content."""
    files = system_files(kernel)
    path = os.path.join(folder, f"system-{key_of(files)}.cpio")
    if not os.path.exists(path):
        for old in glob.glob(os.path.join(folder, "system-*.cpio")):
            os.unlink(old)
        content = add_system(Archive(), files).content()
        with open(f"{path}.{os.getpid()}", "wb") as file:
            file.write(content)
        os.rename(file.name, path)
    return path


def own_archive(script, files, environment):
    """The second archive: the caller's script as /guest/run, beside what scripts can include; its
    files; and its environment, which is quoted already."""
    archive = Archive()
    for name in os.listdir(os.path.join(HERE, "guest")):
        if name != "init":
            archive.add_files({"/guest/" + name: os.path.join(HERE, "guest", name)})
    archive.add_files({"/guest/run": script, **with_libraries(files)})
    archive.add_file("/guest/environment", environment.encode())
    return archive.content()


def make(path, folder, kernel, script, files=(), environment=""):
    """Writes the initramfs; the folder keeps the system's part of it."""
    own = own_archive(script, files, environment)
    shutil.copyfile(system_archive(folder, kernel), path)
    with open(path, "ab") as file:
        file.write(own)
