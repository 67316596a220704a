"""What the machine has: GPU, tools, a private MPS daemon."""

import ctypes
import importlib.util
import os
import shutil
import subprocess
import tempfile

CUDA_BIN = "/usr/local/cuda/bin"


class Gpu:
    """The first GPU, as the driver describes it."""

    def __init__(self, name, capability, driver):
        self.name = name
        self.capability = capability  # 10 * major + minor
        self.driver = driver          # CUDA version that the driver supports, as "13.0"

    def slug(self):
        return "-".join("".join(c if c.isalnum() else " " for c in self.name.lower()).split())


def find_gpu():
    """The GPU, or a reason why there is none."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None, "no NVIDIA driver (libcuda.so.1)"
    count, version, device = ctypes.c_int(0), ctypes.c_int(0), ctypes.c_int(0)
    if cuda.cuInit(0) != 0 or cuda.cuDeviceGetCount(ctypes.byref(count)) != 0 or count.value == 0:
        return None, "the driver finds no GPU"
    name, major, minor = ctypes.create_string_buffer(256), ctypes.c_int(0), ctypes.c_int(0)
    cuda.cuDriverGetVersion(ctypes.byref(version))
    cuda.cuDeviceGet(ctypes.byref(device), 0)
    cuda.cuDeviceGetName(name, len(name), device)
    cuda.cuDeviceGetAttribute(ctypes.byref(major), 75, device)  # compute capability, major and minor
    cuda.cuDeviceGetAttribute(ctypes.byref(minor), 76, device)
    driver = f"{version.value // 1000}.{version.value % 1000 // 10}"
    return Gpu(name.value.decode(), 10 * major.value + minor.value, driver), None


def find_tool(name):
    """Path of a program of the CUDA toolkit, or None."""
    homes = [os.environ.get(variable) for variable in ("CUDA_HOME", "CUDA_PATH")]
    folders = [os.path.join(home, "bin") for home in homes if home]
    return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), *folders, CUDA_BIN]))


def nccl_home():
    """Where a Python package carries NCCL with its header, for CMake; None leaves it to the system."""
    if "NCCL_HOME" in os.environ:
        return os.environ["NCCL_HOME"]
    try:
        spec = importlib.util.find_spec("nvidia.nccl")
    except ModuleNotFoundError:
        return None
    return next(iter(spec.submodule_search_locations), None) if spec else None


def nccl_flags():
    """How `cinch bench` and `cinch tune` are told of that NCCL; nothing leaves it to the loader."""
    home = nccl_home()
    library = os.path.join(home, "lib", "libnccl.so.2") if home else ""
    return ["--nccl", library] if os.path.exists(library) else []


class Mps:
    """A Multi-Process Service of our own, so that ranks on one GPU run at the same time, unless the environment
    names one. `environment` is empty, and `reason` says why, where it cannot be started."""

    def __init__(self):
        self.environment = {}
        self.reason = None
        self._folder = None

    def __enter__(self):
        if "CUDA_MPS_PIPE_DIRECTORY" in os.environ:
            return self
        control = shutil.which("nvidia-cuda-mps-control")
        if not control:
            self.reason = "no nvidia-cuda-mps-control"
            return self
        self._folder = tempfile.TemporaryDirectory(prefix="cinch-mps-")
        folders = {"CUDA_MPS_PIPE_DIRECTORY": os.path.join(self._folder.name, "pipe"),
                   "CUDA_MPS_LOG_DIRECTORY": os.path.join(self._folder.name, "log")}
        for folder in folders.values():
            os.mkdir(folder)
        started = subprocess.run([control, "-d"], env=dict(os.environ, **folders), capture_output=True,
                                 text=True, check=False, timeout=30)
        if started.returncode == 0:
            self.environment = folders
        else:
            self.reason = (started.stderr or started.stdout).strip() or "nvidia-cuda-mps-control failed"
        return self

    def __exit__(self, *_):
        if self.environment:
            subprocess.run(["nvidia-cuda-mps-control"], input="quit\n", text=True, check=False, timeout=30,
                           env=dict(os.environ, **self.environment), capture_output=True)
        if self._folder:
            self._folder.cleanup()
