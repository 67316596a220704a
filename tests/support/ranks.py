"""Runs the ranks of a NCCL program as processes, with deadlines, for the multi-process tests."""

import os
import shlex
import subprocess
import tempfile
import time


class Outcome:
    """How one rank ended: exit status (negative: a signal; None: it hung and was killed), output."""

    def __init__(self, status, output):
        self.status = status
        self.output = output

    def lines(self, prefix):
        """The words of every output line that starts with `prefix`, without it."""
        return [line.split()[1:] for line in self.output.splitlines() if line.startswith(prefix + " ")]


def run_ranks(command, ranks, env=None, rank_env=None, rank_args=None, deadline=60, open_log=None,
              on_start=None):
    """Starts `command --rank R --ranks N --id-file F` for every rank and waits for all of them.

    `env` is set for all, `rank_env[rank]` for one; each rank is its own host (NCCL_HOSTID). Ranks
    that have not ended at the deadline (seconds) are killed and reported with status None.
    `open_log(rank)` gives the file that a rank's output goes to, if it is to be kept. Where `on_start(process)`
    is given, each rank leads a process group of its own.
    """
    with tempfile.TemporaryDirectory() as folder:
        open_log = open_log or (lambda rank: open(os.path.join(folder, f"rank-{rank}.log"), "w+", encoding="utf-8"))
        processes = []
        for rank in range(ranks):
            values = dict(os.environ, NCCL_HOSTID=f"test-host-{rank}", NCCL_SOCKET_IFNAME="lo")
            values.update(env or {})
            values.update((rank_env or {}).get(rank, {}))
            values = {name: value for name, value in values.items() if value is not None}
            log = open_log(rank)
            arguments = ["--rank", str(rank), "--ranks", str(ranks), "--id-file", f"{folder}/id"]
            process = subprocess.Popen(
                command + arguments + [str(a) for a in (rank_args or {}).get(rank, [])],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=values,
                start_new_session=on_start is not None)
            if on_start:
                on_start(process)
            processes.append((process, log))
        return wait_all(processes, time.monotonic() + deadline)


def mpirun(ranks):
    """How Open MPI starts so many ranks on this host, however few cores it has."""
    command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-np", str(ranks)]
    return command[:1] + ["--allow-run-as-root"] * (os.getuid() == 0) + command[1:]


def run_under_mpirun(command, ranks, folder, env_of_rank, deadline=60):
    """`command --rank R --ranks N`, where Open MPI says what R and N are; its output in
    FOLDER/rank-R.log. Where one rank fails, Open MPI ends the others."""
    for rank in range(ranks):
        with open(f"{folder}/rank-{rank}.sh", "w", encoding="utf-8") as script:
            for name, value in env_of_rank(rank).items():
                script.write(f"export {name}={shlex.quote(value)}\n")
            script.write(f'exec {shlex.join(command)} --rank "$OMPI_COMM_WORLD_RANK"'
                         ' --ranks "$OMPI_COMM_WORLD_SIZE"\n')
    start = (f"cd {shlex.quote(folder)}; name=rank-$OMPI_COMM_WORLD_RANK; "
             "sh $name.sh >$name.log 2>&1; status=$?; echo $status >$name.status; exit $status")
    # Its own files have long names, for a socket.
    with tempfile.TemporaryDirectory(prefix="mpi") as own:
        process = subprocess.Popen([*mpirun(ranks), "sh", "-c", start], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   env=dict(os.environ, TMPDIR=own))
        try:
            output, _ = process.communicate(timeout=deadline)
        except subprocess.TimeoutExpired:
            process.terminate()  # and with it all ranks
            output, _ = process.communicate()
    return [outcome_of(f"{folder}/rank-{rank}", output) for rank in range(ranks)]


def outcome_of(path, launcher_output):
    """Of a rank that Open MPI has started; what it says itself stands for one that it has not."""
    def read(suffix):
        if not os.path.exists(path + suffix):
            return None
        with open(path + suffix, encoding="utf-8") as file:
            return file.read()

    status, log = read(".status"), read(".log")
    return Outcome(None if status is None else int(status), launcher_output if log is None else log)


def wait_all(processes, until):
    outcomes = []
    for process, log in processes:
        try:
            status = process.wait(max(0.1, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            status = None
        log.seek(0)
        outcomes.append(Outcome(status, log.read()))
        log.close()
    return outcomes
