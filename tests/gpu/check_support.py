"""What the checks that need an NVIDIA GPU are made of: outcomes, where things are, running programs."""

import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile

import running

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import ranks as rank_processes  # noqa: E402

RANKS = 2
PATIENCE = 5  # seconds, with a program that was asked to end
MISSING = 77  # exit status of a program that says what it lacks


class Outcome:
    def __init__(self, state, note="", figures=None):
        self.state = state  # pass, fail, skip
        self.note = note
        self.figures = figures or {}


class Skip(Exception):
    pass


class Failure(Exception):
    pass


class Context:
    """Where things are, and what has been built."""

    def __init__(self, root, build, gpu, mps, cmake_arguments, rounds=sys.maxsize):
        self.root = root
        self.build = build
        self.gpu = gpu
        self.mps = mps
        self.cmake_arguments = cmake_arguments
        self.rounds = rounds  # at most, of what is measured in rounds
        self.not_built = {}  # target: why

    def program(self, target, folder="bin"):
        if target in self.not_built:
            raise Skip(f"{target} was not built: {self.not_built[target]}")
        return os.path.join(self.build, folder, target)

    def preload(self, **settings):
        """The environment that puts Cinch under a program."""
        return {"LD_PRELOAD": self.library("cinch", "libcinch.so"), "CINCH_STRICT": "1", **settings}

    def library(self, target, name):
        if target in self.not_built:
            raise Skip(f"{name} was not built: {self.not_built[target]}")
        return os.path.join(self.build, "lib", name)


def run(command, timeout, **environment):
    """Runs a command to its end, or for so long as the item has time; returns its exit status and output, which goes to
    the item's log as it comes. One that does not end is asked to, with all that it has started, and then killed."""
    seconds = running.current().left(timeout + PATIENCE) - PATIENCE
    with running.current().log_file(command[0]) as log:
        with subprocess.Popen(command, env=dict(os.environ, **environment), stdin=subprocess.DEVNULL, stdout=log,
                              stderr=subprocess.STDOUT, start_new_session=True) as process:
            running.begin_group(process)
            try:
                process.wait(max(1, seconds))
                running.end_group(process)
            except subprocess.TimeoutExpired:
                running.end_group(process, ask=True)
                try:
                    process.wait(PATIENCE)
                except subprocess.TimeoutExpired:
                    pass
                running.end_group(process)
                process.wait()
                log.seek(0)
                last = tail(log.read(), 2)
                raise Failure(f"{os.path.basename(command[0])} did not end within {seconds:.0f} s"
                              f"{': ' if last else ''}{last}") from None
        log.seek(0)
        return process.returncode, log.read()


def run_ranks(command, ranks, env=None, rank_env=None, rank_args=None, deadline=60):
    """That of tests/support, for so long as the item has time; the ranks' output goes to its logs as it comes, and what
    they have started ends with them."""
    own, started = running.current(), []

    def begin(process):
        running.begin_group(process)
        started.append(process)

    try:
        return rank_processes.run_ranks(command, ranks, env, rank_env, rank_args, own.left(deadline),
                                        lambda rank: own.log_file(f"rank-{rank}"), begin)
    finally:
        for process in started:
            running.end_group(process)


def at_once(function, arguments):
    """The function of each of the arguments, side by side."""
    arguments = list(arguments)
    with concurrent.futures.ThreadPoolExecutor(len(arguments)) as pool:
        return list(pool.map(running.in_this_item(function), arguments))


def tail(output, lines=6):
    return " | ".join(output.strip().splitlines()[-lines:])


def read_result(rank, outcome, path):
    """The JSON file that a rank wrote, if it ended well."""
    if outcome.status == MISSING:
        raise Skip(tail(outcome.output, 1))
    if outcome.status != 0:
        how = "hung" if outcome.status is None else f"ended with {outcome.status}"
        raise Failure(f"rank {rank} {how}: {tail(outcome.output)}")
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def run_and_listen(context, command, environment, timeout=90, rank_env=None, ranks=RANKS):
    """Runs the ranks, each a host of its own to NCCL; returns, by rank, the JSON file that it wrote, and its
    output."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, f"{rank}.json") for rank in range(ranks)]
        outcomes = run_ranks(command, ranks, env={**context.mps.environment, **environment}, rank_env=rank_env,
                             rank_args={rank: ["--out", path] for rank, path in enumerate(paths)},
                             deadline=timeout)
        return [(read_result(rank, outcome, path), outcome.output)
                for rank, (outcome, path) in enumerate(zip(outcomes, paths))]


def run_on_one_gpu(context, command, environment, timeout=90, rank_env=None):
    """The JSON files alone."""
    return [result for result, _ in run_and_listen(context, command, environment, timeout, rank_env)]
