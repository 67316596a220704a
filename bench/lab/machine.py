"""What the figures were taken on."""

import contextlib
import os
import platform
import resource
import subprocess
import time

# What others may take of the cores for times to be judged. A desktop's background stays below, one
# process that computes on up to 20 cores does not.
QUIET_SHARE = 0.05
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


class OtherLoad:
    """What others take of the cores that we may use, from now on. Only time in user mode counts:
    the kernel's work for our own links runs in nobody's name."""

    def __init__(self):
        self._cores = os.sched_getaffinity(0)
        self._started = time.monotonic()
        self._others = self._others_seconds()

    def share(self):
        """Of these cores. To be called when our own processes have ended: only then does their
        time count as ours."""
        capacity = len(self._cores) * (time.monotonic() - self._started)
        return max(0.0, (self._others_seconds() - self._others) / capacity)

    def _others_seconds(self):
        with open("/proc/stat") as file:
            everything = user_ticks(file, self._cores) / os.sysconf("SC_CLK_TCK")
        who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        return everything - sum(resource.getrusage(each).ru_utime for each in who)


class Busy(Exception):
    """A verdict on times that was not made, as others took too much of the cores."""


@contextlib.contextmanager
def judged_when_quiet(load):
    """For assertions on times alone, which on a busy machine say nothing: one that fails while others took more
    than QUIET_SHARE since the OtherLoad `load` began raises Busy instead."""
    try:
        yield
    except AssertionError as failure:
        share = load.share()
        if share <= QUIET_SHARE:
            raise
        raise Busy(f"the machine was busy, others took {share:.0%} of its cores: {failure}") from failure


def user_ticks(stat, cores):
    """Of all processes on these cores, from the lines of /proc/stat; what a hypervisor gave to
    others is included."""
    names = {f"cpu{core}" for core in cores}
    ticks = 0
    for name, *times in map(str.split, stat):
        if name in names:
            user, nice, _, _, _, _, _, steal = map(int, times[:8])
            ticks += user + nice + steal
    return ticks
