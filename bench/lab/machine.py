"""What the figures were taken on."""

import os
import platform
import subprocess

# The distribution's, for which the set-up installs numpy: the first of the path may be another one.
NUMPY_PYTHON = "/usr/bin/python3"


def _output(*command, cwd=None):
    try:
        return subprocess.run(
            command, capture_output=True, text=True, cwd=cwd, stdin=subprocess.DEVNULL, check=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def processor():
    with open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor()


def gpus():
    """Names of the NVIDIA GPUs that the driver sees."""
    return _output("nvidia-smi", "--query-gpu=name", "--format=csv,noheader").splitlines()


def commit(root):
    """Of the source, with a mark where it has been changed since."""
    return (
        _output(
            "git",
            "-c",
            f"safe.directory={root}",
            "describe",
            "--always",
            "--dirty",
            "--abbrev=12",
            cwd=root,
        )
        or "unknown"
    )


def describe():
    return {
        "cpu": processor(),
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "gpus": gpus(),
    }
