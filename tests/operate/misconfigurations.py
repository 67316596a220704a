"""Misconfigurations, planted one at a time, that `cinch doctor` has to name: shared by doctor_test.py
and `bench/report operate`."""

import contextlib
import json
import os
import resource
import shutil
import stat
import subprocess
import tempfile
from dataclasses import dataclass, field
from typing import Callable, Dict, List, Optional

import job

DEADLINE = 120

OWN_NCCL = """
const char text[] = "NCCL version 2.28.9+cuda13.0";
static int ncclAllReduce(void) { return text[0] == 'x'; }
int main(void) { return ncclAllReduce(); }
"""
NOTHING = "int main(void) { return 0; }\n"


@dataclass
class Place:
    """What a row may change: an environment, a command, and how `cinch` is started."""

    build: str
    folder: str
    environment: Dict[str, str]
    command: List[str] = field(default_factory=list)
    cinch: str = ""
    start: List[str] = field(default_factory=list)  # what comes before `cinch`
    descriptors: Optional[int] = None

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text, mode=0o644):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(self.path(name), mode)
        return self.path(name)

    def compile(self, source, *options):
        path = self.write("program.c", source)
        subprocess.run(["cc", "-O0", *options, "-o", self.path("program"), path], check=True)
        self.command = [self.path("program")]


@dataclass(frozen=True)
class Row:
    """What is wrong, and what doctor has to say of it."""

    title: str
    plant: Callable[[Place], None]
    check: str
    verdict: str
    fix: str  # a word of it


def setting(**variables):
    return lambda place: place.environment.update(variables)


def few_descriptors(place):
    place.descriptors = 64


def open_key(place):
    place.environment.update(CINCH_NET_KEY_FILE=place.write("key", "k" * 32, 0o644), NCCL_NET_PLUGIN="cinch")


def missing_key(place):
    place.environment.update(CINCH_NET_KEY_FILE=place.path("no-key"), NCCL_NET_PLUGIN="cinch")


def bad_rules(place):
    rules = place.write("rules.csv", "operation,min_bytes,action\nAllReduce,many,q4\n")
    place.environment.update(CINCH_RULES=rules)


def bad_tuner_rules(place):
    rules = place.write("tuner.csv", "allreduce,0,64K,tree,ll,-1,-1,-1\nallreduce,0,64K,tree,ll256,-1,-1,-1\n")
    place.environment.update(CINCH_TUNER_RULES=rules)


def bad_plan(place):
    place.environment.update(CINCH_PLAN="replay:" + place.write("plan", "no plan\n"))


def no_folder(place):
    place.environment.update(CINCH_STATS=place.path("no/folder/report"))


def cache_in_file(place):
    place.environment.update(CINCH_CACHE_DIR=place.write("file", "") + "/cache")


def prefix_without(name, broken=None):
    """A copy of what is installed, without a library, or with one that is none."""
    def plant(place):
        for folder in ("bin", "lib"):
            os.mkdir(place.path(folder))
        place.cinch = shutil.copy(os.path.join(place.build, "bin", "cinch"), place.path("bin"))
        for file in os.listdir(os.path.join(place.build, "lib")):
            path = os.path.join(place.build, "lib", file)
            if file != name and os.path.isfile(path):
                os.symlink(path, os.path.join(place.path("lib"), file))
        if broken is not None:
            place.write(os.path.join("lib", name), broken)
    return plant


def static_program(place):
    place.compile(NOTHING, "-static")


def own_nccl(place):
    place.compile(OWN_NCCL)


def setuid_program(place):
    place.compile(NOTHING)
    os.chmod(place.command[0], 0o755 | stat.S_ISUID)


def missing_command(place):
    place.command = [place.path("no-such-program")]


def not_executable(place):
    place.command = [place.write("script", "#!/bin/sh\n")]


def lost_interpreter(place):
    place.command = [place.write("script", "#!/no/such/interpreter\n", 0o755)]


# Only root can make a machine look as if it had another driver, and only for one process.
MOUNT = ["unshare", "--mount", "sh", "-ec",
         'mount -t tmpfs none /proc/driver; mkdir /proc/driver/nvidia; echo "$0" >/proc/driver/nvidia/version; "$@"']


def old_driver(place):
    place.start = [*MOUNT, "NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.82.01  Wed Oct 27 21:21:55 UTC 2021"]


def can_plant_driver(build):
    """Of a codec for GPUs alone it can be said which driver it needs."""
    has_codec = os.path.exists(os.path.join(build, "lib", "libcinch-codec-cuda.so"))
    return has_codec and subprocess.run([*MOUNT, "", "true"], check=False, capture_output=True).returncode == 0


def other_interposer(place):
    """Something else in front of NCCL, which does nothing."""
    source = place.write("other.c", "int ncclAllReduce(void) { return 0; }\n")
    library = place.path("other.so")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    place.environment.update(LD_PRELOAD=library)


DRIVER = Row("a driver that is too old", old_driver, "driver", "fail", "update the driver to")
ROWS = [
    Row("few descriptors", few_descriptors, "descriptors", "fail", "ulimit -n"),
    Row("a name that is no setting", setting(CINCH_CODEK="q4"), "settings", "fail", "correct"),
    Row("a value that is refused", setting(CINCH_CHUNKS="many"), "settings", "fail", "unset"),
    Row("a key that others can read", open_key, "key", "fail", "chmod"),
    Row("a key that is not there", missing_key, "key", "fail", "chmod"),
    Row("rules that are none", bad_rules, "rules", "fail", "docs/rules.md"),
    Row("rules for the tuner that are none", bad_tuner_rules, "tuner-rules", "fail", "docs/tuner.md"),
    Row("a plan that is none", bad_plan, "plan", "fail", "record"),
    Row("reports to a missing folder", no_folder, "folders", "fail", "make the folder"),
    Row("a cache below a file", cache_in_file, "folders", "fail", "folder"),
    Row("an interface that is not there", setting(NCCL_SOCKET_IFNAME="=no-such0"), "interfaces", "fail",
        "set it to one of"),
    Row("verbs without a device", setting(CINCH_NET="verbs", NCCL_NET_PLUGIN="cinch"),
        "conflicts", "fail", "port"),
    Row("verbs that are forbidden", setting(CINCH_NET="verbs", NCCL_NET_PLUGIN="cinch", NCCL_IB_DISABLE="1"),
        "conflicts", "fail", "unset"),
    Row("net settings with another plugin", setting(CINCH_NET_FLOWS="2", NCCL_NET_PLUGIN="other"),
        "conflicts", "fail", "NCCL_NET_PLUGIN=cinch"),
    Row("net settings without a plugin", setting(CINCH_NET_FLOWS="2"), "conflicts", "warn", "--net"),
    Row("a network that leaves the plugin out", setting(NCCL_NET="Socket", NCCL_NET_PLUGIN="cinch"),
        "conflicts", "fail", "NCCL_NET"),
    Row("a codec, and Cinch off", setting(CINCH_MODE="off", CINCH_CODEC="q4"), "conflicts", "warn",
        "CINCH_MODE"),
    Row("an algorithm without AllGather", setting(NCCL_ALGO="Tree"), "conflicts", "warn", "ring"),
    Row("another interposer", other_interposer, "conflicts", "warn", "LD_PRELOAD"),
    Row("a plugin that is not there", setting(NCCL_TUNER_PLUGIN="no-such"), "plugins", "fail", "correct"),
    Row("Cinch's plugin out of reach", setting(NCCL_NET_PLUGIN="cinch"), "plugins", "fail",
        "LD_LIBRARY_PATH"),
    Row("no preload library", prefix_without("libcinch.so"), "libraries", "fail", "reinstall"),
    Row("no codec", prefix_without("libcinch-codec-host.so"), "libraries", "warn", "reinstall"),
    Row("a codec that is damaged", prefix_without("libcinch-codec-host.so", "no library"), "libraries", "fail",
        "one release"),
    Row("a static program", static_program, "program", "fail", "dynamically"),
    Row("a program with its own NCCL", own_nccl, "program", "fail", "libnccl.so.2"),
    Row("a setuid program", setuid_program, "program", "fail", "ug-s"),
    Row("a command that is not there", missing_command, "program", "fail", "PATH"),
    Row("a file that is not executable", not_executable, "program", "fail", "command"),
    Row("a script without its interpreter", lost_interpreter, "program", "fail", "command"),
]


def rows(build):
    """Those that can be planted here: a build without nvcc lacks a codec as it is."""
    has_codecs = os.path.exists(os.path.join(build, "lib", "libcinch-codec-cuda.so"))
    return [row for row in ROWS if has_codecs or row.title != "no codec"] + [DRIVER] * can_plant_driver(build)


def limit_descriptors(place):
    if place.descriptors is None:
        return None
    return lambda: resource.setrlimit(
        resource.RLIMIT_NOFILE, (place.descriptors, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


@contextlib.contextmanager
def planted(build, row):
    """A place of its own, in which nothing is wrong but what the row says."""
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(job.FOREIGN) and name not in ("LD_PRELOAD", "LD_LIBRARY_PATH")}
    with tempfile.TemporaryDirectory() as folder:
        place = Place(build, folder, kept, cinch=os.path.join(build, "bin", "cinch"))
        if row is not None:
            row.plant(place)
        yield place


def doctor(place, *options):
    """`cinch doctor` there: its exit status, stdout and stderr."""
    # Only this process is to be started with what is planted in LD_PRELOAD.
    return subprocess.run(
        [*place.start, place.cinch, "doctor", *options, "--", *place.command], env=place.environment,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=DEADLINE,
        preexec_fn=limit_descriptors(place))


def says(row, check, verdict, fix):
    return (check, verdict) == (row.check, row.verdict) and row.fix in fix


def named_in_text(row, text):
    """One line with verdict, check and fix."""
    lines = [line.split(None, 2) for line in text.splitlines()]
    return any(len(words) == 3 and ". Fix: " in words[2]
               and says(row, words[1], words[0], words[2].split(". Fix: ", 1)[1]) for words in lines)


def faults(build, row):
    """Why doctor does not name what the row plants; empty: it does, as text and as JSON, and its exit
    status is right."""
    with planted(build, row) as place:
        text, as_json = doctor(place), doctor(place, "--json")
    try:
        report = json.loads(as_json.stdout)
    except ValueError as error:
        return f"--json: {error}: {as_json.stdout}{as_json.stderr}"
    failed = int(any(check["verdict"] == "fail" for check in report["checks"]))
    if (text.returncode, as_json.returncode) != (failed, failed):
        return f"exit status {text.returncode} and {as_json.returncode}, {failed} was expected"
    if not named_in_text(row, text.stdout):
        return f"not in the text: {text.stdout}{text.stderr}"
    if not any(says(row, check["name"], check["verdict"], check["fix"]) for check in report["checks"]):
        return f"not in the JSON: {as_json.stdout}"
    return ""
