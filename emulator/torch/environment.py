"""Makes the Python environment in which PyTorch runs on the emulator, and says how to use it.

    python3 emulator/torch/environment.py            makes it if it is not there; prints its python
    python3 emulator/torch/environment.py --check    status 0 if it is there, 1 if not; makes nothing

It is made from requirements.txt, once, in ~/.cache/cinch (XDG_CACHE_HOME), outside the build folder:
about 6 GB and some minutes.
"""
import argparse
import contextlib
import fcntl
import glob
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass

import names
import supervise
from errors import Unusable

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
REQUIREMENTS = os.path.join(HERE, "requirements.txt")
DEFAULT_BUILD = os.path.join(ROOT, "build")
TARGETS = ("cinch", "cinch_codec_host", "cinch_tool", "cinch_emulator_cudart", "cinch_emulator_driver",
           "cinch_emulator_nccl", "cinch_emulator_nvml")

# What the installation takes at its peak, when the downloaded archives are still there.
DISK_GB = 9

# The last file to be written: an environment without it is half made.
COMPLETE = "complete"


@dataclass(frozen=True)
class Prepared:
    """What it takes to run a program with PyTorch on the emulator."""

    python: str
    build: str
    operators: str

    def variables(self, cinch=False):
        return variables(self.build, self.operators, cinch)


def prepare(python=None, build=None, deadline=None):
    """Everything, made if it is not there. `python` is a user's own, `build` a folder to use as it is."""
    build = os.path.abspath(build) if build else build_libraries()
    python = python or make(deadline)
    torch = torch_folder(python)
    names.require(torch, build, cache_folder())
    return Prepared(python, build, operators(torch))


def variables(build, operators_library, cinch=False, environ=None):
    """The variables that a Python process needs beside those it has."""
    environ = os.environ if environ is None else environ
    emulator = os.path.join(build, "emulator")
    libcinch = os.path.join(build, "lib", "libcinch.so")
    if cinch and not os.path.exists(libcinch):
        raise Unusable(f"{libcinch} is not there: build the target cinch, or leave out --build to have it built")
    # PyTorch's libraries look beside themselves first, but a library that is there already and has the name
    # they look for is taken. Cinch comes first, since its functions stand before NCCL's.
    preloads = [libcinch] if cinch else []
    preloads += [os.path.join(emulator, "libcudart.so.13"), os.path.join(emulator, "libnccl.so.2")]
    given = {
        "LD_PRELOAD": _joined(*preloads, environ.get("LD_PRELOAD")),
        "LD_LIBRARY_PATH": _joined(emulator, environ.get("LD_LIBRARY_PATH")),
        "PYTHONPATH": _joined(os.path.join(HERE, "startup"), environ.get("PYTHONPATH")),
        "CINCH_TORCH_OPERATORS": operators_library,
    }
    defaults = {
        # All ranks share this machine's cores.
        "OMP_NUM_THREADS": "1",
        # Each process would warn of its operators being replaced.
        "TORCH_CPP_LOG_LEVEL": "ERROR",
        # Otherwise every job would leave a folder in /tmp.
        "TORCHINDUCTOR_CACHE_DIR": os.path.join(cache_folder(), "inductor"),
    }
    return given | {name: value for name, value in defaults.items() if name not in environ}


def _joined(*paths):
    return ":".join(path for path in paths if path)


def cache_folder():
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "cinch")


def environment_folder():
    with open(REQUIREMENTS, "rb") as file:
        key = hashlib.sha256(file.read())
    key.update(f"{platform.python_version()} {sys.base_prefix} {platform.machine()}".encode())
    return os.path.join(cache_folder(), f"torch-{key.hexdigest()[:12]}")


def environment_python():
    return os.path.join(environment_folder(), "bin", "python")


def is_made():
    return os.path.exists(os.path.join(environment_folder(), COMPLETE)) and os.access(environment_python(), os.X_OK)


def make(deadline=None):
    """The environment's python, after an installation if there is none. `deadline`: of time.monotonic()."""
    if is_made():
        return environment_python()
    folder = environment_folder()
    with lock(folder):
        if not is_made():  # by another process, in the meantime
            shutil.rmtree(folder, ignore_errors=True)
            check_machine(folder)
            say(f"Installing PyTorch and what its jobs need into {folder}: about 6 GB, some minutes, once")
            started = time.monotonic()
            try:
                install(folder, deadline)
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise
            say(f"Installed in {time.monotonic() - started:.0f} s")
    return environment_python()


def check_machine(folder):
    if sys.version_info < (3, 10):
        raise Unusable(f"this is Python {platform.python_version()}, and PyTorch needs 3.10 or newer: start this "
                       "with a newer one")
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        raise Unusable(f"{sys.executable} cannot make virtual environments: its module ensurepip is missing. "
                       "On Debian and Ubuntu: apt install python3-venv") from None
    free_gb = shutil.disk_usage(os.path.dirname(folder)).free / 1e9
    if free_gb < DISK_GB:
        raise Unusable(f"{os.path.dirname(folder)} has {free_gb:.1f} GB of free disk, and the installation takes "
                       f"{DISK_GB} GB at its peak: free some, or set XDG_CACHE_HOME to a folder elsewhere")


def install(folder, deadline):
    python = os.path.join(folder, "bin", "python")
    _run([sys.executable, "-m", "venv", folder], folder, deadline)
    # Archives are unpacked here: /tmp may be small. And what is compiled for a GPU is not asked for.
    temporary = os.path.join(folder, "tmp")
    os.mkdir(temporary)
    extra = {"TMPDIR": temporary, "DS_BUILD_OPS": "0"}
    pip = [python, "-m", "pip", "install", "--no-cache-dir", "--disable-pip-version-check", "--quiet",
           "--retries", "2"]
    # DeepSpeed comes as sources. Isolated, it would be built by whatever setuptools is the newest.
    _run([*pip, "-c", REQUIREMENTS, "setuptools", "packaging"], folder, deadline, extra)
    _run([*pip, "--no-build-isolation", "-r", REQUIREMENTS], folder, deadline, extra)
    shutil.rmtree(temporary)
    with open(os.path.join(folder, COMPLETE), "w"):
        pass


def _run(command, folder, deadline, extra=None):
    limit = None if deadline is None else max(1.0, deadline - time.monotonic())
    # pip's own variables stay, which name the index; a preloaded library or another module path may not.
    clean = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "PYTHONPATH")}
    try:
        done = subprocess.run(command, env=clean | (extra or {}), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", timeout=limit,
                              preexec_fn=supervise.end_with_parent)
    except subprocess.TimeoutExpired:
        raise Unusable(f"the environment in {folder} was not installed in the time that was given ({limit:.0f} s "
                       "for this step): the package index is slow, or this machine is. Start "
                       "emulator/torch/environment.py without a limit") from None
    if done.returncode != 0:
        raise Unusable(explain_failure(command, done.stdout))


def explain_failure(command, output):
    """What an installer's output means for who wanted the environment."""
    last = "\n".join("  " + line for line in output.strip().splitlines()[-12:])
    if "CERTIFICATE_VERIFY_FAILED" in output:
        meaning = ("the package index's certificate is not trusted, as behind a proxy that signs what passes through "
                   "it: set PIP_CERT to the file with the proxy's certificate")
    elif any(sign in output for sign in ("connection broken", "Connection refused", "Max retries exceeded",
                                       "Temporary failure in name resolution", "ProxyError")):
        meaning = ("the package index cannot be reached, so PyTorch cannot be installed. Check the network, set "
                   "PIP_INDEX_URL to an index that can be reached, or give emulator/torch/run an environment of "
                   "your own with --python")
    elif "No space left on device" in output:
        meaning = "the disk is full: free some, or set XDG_CACHE_HOME to a folder elsewhere"
    elif "No matching distribution" in output:
        meaning = (f"the package index does not have a pinned version for Python {platform.python_version()} on "
                   f"{platform.machine()}: use another Python, or give emulator/torch/run an environment of your "
                   "own with --python")
    else:
        meaning = "the environment could not be installed"
    return f"{meaning}.\n`{' '.join(command)}` ended with:\n{last}"


def torch_folder(python):
    """Of the package that this python would import, which is not imported."""
    found = subprocess.run(
        [python, "-c", "import importlib.util as u; s = u.find_spec('torch'); print(s.origin if s and s.origin else '')"],
        capture_output=True, text=True, cwd="/")
    if found.returncode != 0 or not found.stdout.strip():
        raise Unusable(f"{python} has no PyTorch: {found.stderr.strip() or 'it finds no package torch'}. Install it "
                       "there, or leave out --python for an environment of Cinch's own")
    return os.path.dirname(found.stdout.strip())


def build_libraries():
    """Builds what is needed in build/, and returns that folder."""
    os.makedirs(DEFAULT_BUILD, exist_ok=True)
    with lock(os.path.join(DEFAULT_BUILD, "emulator-torch")):
        if not os.path.exists(os.path.join(DEFAULT_BUILD, "build.ninja")):
            say("Building Cinch into build/")
            _build(["cmake", "--preset", "release"], quiet=True)
        is_new = not os.path.exists(os.path.join(DEFAULT_BUILD, "emulator", "libcuda.so.1"))
        _build(["cmake", "--build", DEFAULT_BUILD, "--target", *TARGETS], quiet=not is_new)
    return DEFAULT_BUILD


def _build(command, quiet):
    """Standard output is for the program alone, so a build's goes where messages go."""
    try:
        done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, text=True, stderr=subprocess.STDOUT,
                              stdout=subprocess.PIPE if quiet else sys.stderr)
    except FileNotFoundError:
        raise Unusable(f"{command[0]} is not there, so Cinch cannot be built: install it") from None
    if done.returncode != 0:
        if quiet:
            sys.stderr.write(done.stdout)
        raise Unusable(f"`{' '.join(command)}` failed; its output is above")


def operators(torch):
    """The library of PyTorch's operators for this PyTorch, built if it is not there."""
    folder = os.path.join(cache_folder(), f"operators-{_operators_key(torch)}")
    library = os.path.join(folder, "libcinch_torch_operators.so")
    if os.path.exists(library):
        return library
    with lock(folder):
        if not os.path.exists(library):
            say("Building PyTorch's operators for the emulator: a minute or two, once for each PyTorch")
            work = os.path.join(folder, "build")
            shutil.rmtree(work, ignore_errors=True)
            _build(["cmake", "-G", "Ninja", "-S", os.path.join(HERE, "operators"), "-B", work, f"-DTORCH={torch}",
                    "-DCMAKE_BUILD_TYPE=Release"], quiet=True)
            _build(["cmake", "--build", work, "--parallel"], quiet=True)
            os.replace(os.path.join(work, os.path.basename(library)), library)
            shutil.rmtree(work)
    return library


def _operators_key(torch):
    key = hashlib.sha256(f"{torch} {names.version(torch)['__version__']}".encode())
    sources = glob.glob(os.path.join(HERE, "operators", "*"))
    for path in sorted(sources + glob.glob(os.path.join(ROOT, "emulator", "include", "*"))):
        with open(path, "rb") as file:
            key.update(os.path.basename(path).encode() + file.read())
    return key.hexdigest()[:12]


@contextlib.contextmanager
def lock(path):
    """Held by one process at a time; the system frees it when its holder ends, however that is."""
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        file = open(f"{path}.lock", "w")
    except OSError as error:
        raise Unusable(f"{os.path.dirname(path)} cannot be written to ({error.strerror}): set XDG_CACHE_HOME to a "
                       "folder that this user may write to") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"Waiting for another process that makes {path}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def say(text):
    print(f"== {text}", file=sys.stderr, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only say whether it is there")
    options = parser.parse_args()
    if options.check:
        state = "is there" if is_made() else "is not there; emulator/torch/environment.py makes it"
        print(f"{environment_folder()} {state}")
        return 0 if is_made() else 1
    try:
        print(make())
    except Unusable as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
