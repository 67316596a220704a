"""Settings that only a running job can find wrong, and the line of its log that says so: shared by
job_mistakes_test.py and `bench/report operate`."""

import os
import re
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from ranks import run_ranks  # noqa: E402

# Beside the timeout of the transport, after which it takes a peer for lost.
DEADLINE = 90
# Below a file no folder can be.
NOWHERE = "/dev/null/none"


class Mistake:
    """A job of two ranks with `settings`, those of rank 1 in `other`; files of FOLDER by name in
    `files`, as (content, mode). One of its ranks says `cause` and, in the same line, `remedy`.
    `goes_on`: all the same it ends well, with sums that are right. `start`: what starts a rank."""

    def __init__(self, name, settings, cause, remedy, other=None, files=None, goes_on=True, arguments=(), start=()):
        self.name = name
        self.settings = settings
        self.other = other or {}
        self.files = files or {}
        self.cause, self.remedy = cause, remedy
        self.goes_on = goes_on
        self.arguments = arguments
        self.start = start


NET = {"NCCL_NET_PLUGIN": "{build}/lib/libnccl-net-cinch.so"}
MISTAKES = [
    Mistake("codec that does not exist", {"CINCH_CODEC": "q17"},
            "CINCH_CODEC=q17 is not valid", r"\(auto\|q2\|.*using the default"),
    Mistake("name with a slip", {"CINCH_CODECS": "q4"}, "CINCH_CODECS is not a parameter", "did you mean CINCH_CODEC"),
    Mistake("ranks with other settings", {},
            "rank 1 on host .* has other settings", "CINCH_CODEC=q8 there, q4 on rank 0",
            other={"CINCH_CODEC": "q8"}),
    Mistake("other settings, and CINCH_STRICT", {"CINCH_STRICT": "y"}, "CINCH_STRICT: .*rank 1 .* has other settings",
            "CINCH_CODEC=q8 there", other={"CINCH_CODEC": "q8"}, goes_on=False),
    Mistake("rank without the library", {},
            r"rank 1 \(on host .*\) runs without Cinch", "preload libcinch.so there too",
            other={"LD_PRELOAD": None}),
    Mistake("rules that cannot be read", {"CINCH_RULES": "{folder}/rules.csv"},
            "rules.csv: line 1: 'codec' should be a column",
            "action, operation, dtype", files={"rules.csv": ("codec,min_bytes\nq4,1M\n", 0o644)}),
    Mistake("rules that are not there", {"CINCH_RULES": "{folder}/rules.csv"},
            "CINCH_RULES=.*rules.csv: there is no such file",
            "nothing is compressed"),
    Mistake("ranks with other rules", {"CINCH_RULES": "q8 dtype=fp32"}, "rank 1 on host .* has other settings",
            "CINCH_RULES-hash=", other={"CINCH_RULES": "q4 dtype=fp32"}),
    Mistake("missing codec", {"LD_PRELOAD": "{folder}/libcinch.so"}, "cannot load the codec library",
            "installed beside libcinch.so"),
    Mistake("NCCL that is not there", {"CINCH_NCCL_LIB": NOWHERE},
            "CINCH_NCCL_LIB=.* cannot be used", "looking elsewhere"),
    Mistake("folder of reports that is not there", {"CINCH_STATS": NOWHERE}, "cannot create .*none.txt",
            "CINCH_STATS says where the report goes"),
    Mistake("folder of metrics that is not there", {"CINCH_METRICS": NOWHERE}, "cannot create .*none.prom",
            "CINCH_METRICS says where the metrics go"),
    Mistake("layers that cannot be read", {"CINCH_LAYERS": "{folder}/layers"},
            "layers: line 1: 'xx' should be elements",
            "a whole number", files={"layers": ("0,xx\n", 0o644)}),
    Mistake("plan without a word", {"CINCH_PLAN": "{folder}/plan"},
            "CINCH_PLAN=.*/plan", "should be record:FILE or replay:FILE"),
    Mistake("plan of something else", {"CINCH_PLAN": "replay:{folder}/plan"}, "plan: line 1 is not", "cinch-plan 2",
            files={"plan": ("hello\n", 0o644)}),
    # Of 250 MB for each buffer there is room for the program's two, and for NCCL, but not for a third one.
    Mistake("no free memory", {"MALLOC_ARENA_MAX": "1"}, "passes from here on: .*cannot allocate .* of device memory",
            "leave more of it free", arguments=("--count", "64000000", "--calls", "5"),
            start=("prlimit", f"--as={1250 << 20}")),
    Mistake("no memory for residuals", {"CINCH_ERROR_FEEDBACK": "1", "CINCH_RESIDUAL_MEMORY": "1M"},
            "no room within CINCH_RESIDUAL_MEMORY", "raise it, or use CINCH_RESIDUAL=int8",
            arguments=("--count", "4000000")),
    Mistake("folder of residuals that cannot be", {"CINCH_ERROR_FEEDBACK": "1", "CINCH_RESIDUAL_DIR": NOWHERE},
            "residuals not saved to /dev/null/none", "cannot create|Not a directory", arguments=("--destroy", "1")),
    Mistake("key that is too short", {**NET, "CINCH_NET_KEY_FILE": "{folder}/key"}, "a key has at least 16 bytes",
            "openssl rand", files={"key": ("abc", 0o600)}),
    Mistake("key that others can read", {**NET, "CINCH_NET_KEY_FILE": "{folder}/key"},
            "others than its owner, .* have access",
            "chmod 600", files={"key": ("k" * 32, 0o644)}),
    Mistake("ranks with other keys", {**NET, "CINCH_NET_KEY_FILE": "{folder}/key"}, "its key differs",
            "CINCH_NET_KEY_FILE must hold the same bytes on all ranks", other={"CINCH_NET_KEY_FILE": "{folder}/other"},
            files={"key": ("k" * 32, 0o600), "other": ("o" * 32, 0o600)}, goes_on=False),
    Mistake("channel's key that is too short", {"CINCH_KEY_FILE": "{folder}/key"}, "a key has at least 16 bytes",
            "openssl rand", files={"key": ("abc", 0o600)}),
    Mistake("ranks with other keys of the channel", {"CINCH_KEY_FILE": "{folder}/key"}, "its key differs from this process's",
            "CINCH_KEY_FILE must hold the same bytes on all ranks", other={"CINCH_KEY_FILE": "{folder}/other"},
            files={"key": ("k" * 32, 0o600), "other": ("o" * 32, 0o600)}),
    Mistake("rank without the channel's key", {"CINCH_KEY_FILE": "{folder}/key"},
            "the process that serves has a key and the other one has none", "set CINCH_KEY_FILE on all ranks or on none",
            other={"CINCH_KEY_FILE": None}, files={"key": ("k" * 32, 0o600)}),
    Mistake("channel's key on one rank only", {}, "this process has a key and the other one has none",
            "set CINCH_KEY_FILE on all ranks or on none", other={"CINCH_KEY_FILE": "{folder}/key"},
            files={"key": ("k" * 32, 0o600)}),
    Mistake("verbs without a device", {**NET, "CINCH_NET": "verbs"},
            "CINCH_NET=verbs: no InfiniBand or RoCE port is active",
            "NCCL_IB_HCA"),
]


def place(mistake, build, folder):
    """Puts the files into the folder; the settings of all ranks and of rank 1, for this build."""
    for name, (content, mode) in mistake.files.items():
        with open(f"{folder}/{name}", "w", encoding="utf-8") as file:
            file.write(content)
        os.chmod(f"{folder}/{name}", mode)
    preload = f"{build}/lib/libcinch.so"
    # Alone, without the codec.
    shutil.copy(preload, folder)
    usual = {"LD_PRELOAD": preload, "CINCH_SLOTS": "signature", "CINCH_WHEN": "always", "CINCH_CODEC": "q4",
             "NCCL_DEBUG": "WARN"}

    def filled(settings):
        return {name: value and value.format(build=build, folder=folder) for name, value in settings.items()}

    return filled({**usual, **mistake.settings}), filled(mistake.other)


def run(mistake, build):
    """What is wrong with how the job tells of its mistake; empty: it is named, with what to do."""
    build = os.path.abspath(build)
    with tempfile.TemporaryDirectory() as folder:
        settings, other = place(mistake, build, folder)
        program = [*mistake.start, f"{build}/tests/interpose_rank", "--count", "100000", "--calls", "6"]
        outcomes = run_ranks([*program, *mistake.arguments], 2, settings, {1: other}, deadline=DEADLINE)
    return fault(mistake, outcomes)


def fault(mistake, outcomes):
    output = "\n".join(outcome.output for outcome in outcomes)
    statuses = [outcome.status for outcome in outcomes]
    if None in statuses:
        return f"it hangs:\n{output}"
    if (statuses == [0, 0]) != mistake.goes_on:
        return f"ranks ended with {statuses}:\n{output}"
    lines = [line for line in output.split("\n") if re.search(mistake.cause, line)]
    if not lines:
        return f"no line has /{mistake.cause}/:\n{output}"
    return "" if any(re.search(mistake.remedy, line) for line in lines) else f"without /{mistake.remedy}/: {lines[0]}"
