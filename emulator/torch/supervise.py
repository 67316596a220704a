"""Runs a job so that nothing of it remains, however it ends: by itself, by a signal, or with its starter killed.

There are two processes. The first waits, and passes signals on. The second, the keeper, does the job. Both
adopt what their descendants leave behind (PR_SET_CHILD_SUBREAPER), so each can find and end all of it, and
each outlives the other for long enough to do so: the keeper gets SIGTERM if the first is killed, and the
first ends the descendants of a keeper that is.
"""
import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

# Once a host has failed, the others get this long to fail with a message of their own: their ranks notice
# that connections are closed.
GRACE_SECONDS = 4.0

# From SIGTERM to SIGKILL. PyTorch's torchrun gives its ranks less (launch.py says so to it).
STOP_SECONDS = 6.0

POLL_SECONDS = 0.1


class Interrupted(BaseException):
    """A signal asks for the end of the job, or of what is made for it."""

    def __init__(self, number):
        super().__init__(signal.Signals(number).name)
        self.status = 128 + number


def supervised(job, clean_up):
    """The status of job(), which runs in the keeper. clean_up() is called in both processes at their end."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    first = os.getpid()
    # Nothing is missed between the fork and the handlers.
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    sys.stdout.flush()
    sys.stderr.flush()
    keeper = os.fork()
    if keeper == 0:
        os._exit(_keep(job, clean_up, first))

    def pass_on(number, _frame):
        with contextlib.suppress(ProcessLookupError):
            os.kill(keeper, number)

    for number in SIGNALS:
        signal.signal(number, pass_on)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    try:
        status = os.waitstatus_to_exitcode(os.waitpid(keeper, 0)[1])
    finally:
        end_descendants()
        clean_up()
    return 128 - status if status < 0 else status


@contextlib.contextmanager
def interruptible():
    """Whatever the block has started is ended with it if a signal ends it, which raises Interrupted."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    before = {number: signal.signal(number, _interrupt) for number in SIGNALS}
    try:
        yield
    except Interrupted:
        end_descendants()
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _keep(job, clean_up, first):
    """What the keeper does; returns its exit status."""
    # Of a session of its own: a terminal's Ctrl-C reaches the first process, which passes it on, once.
    os.setsid()
    end_with_parent(signal.SIGTERM)
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    for number in SIGNALS:
        signal.signal(number, _interrupt)
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        if os.getppid() != first:  # it was killed before this process asked to be told
            return 1
        return job()
    except Interrupted as interrupted:
        print(f"== {interrupted}: the job is ended", file=sys.stderr)
        return interrupted.status
    except Exception as error:
        print(f"error: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    finally:
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        end_descendants()
        clean_up()
        # With the first process gone, so may be whoever read the output.
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()


def end_with_parent(number=signal.SIGKILL):
    """For a new process: it gets this signal when its parent ends. To be given to subprocess as preexec_fn."""
    _prctl(PR_SET_PDEATHSIG, number)


def _interrupt(number, _frame):
    for later in SIGNALS:
        signal.signal(later, signal.SIG_IGN)
    raise Interrupted(number)


_LIBC = ctypes.CDLL(None, use_errno=True)


def _prctl(option, value):
    if _LIBC.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def run_hosts(commands, environments):
    """Runs a command for each host, and returns 0 once all have ended well, else the first bad status."""
    hosts = []
    try:
        for command, environment in zip(commands, environments):
            # Not their session: a signal for the job is sent to each once, by this process.
            hosts.append(subprocess.Popen(command, env=environment, start_new_session=True,
                                          preexec_fn=lambda: end_with_parent(signal.SIGTERM)))
        return _wait(hosts)
    finally:
        _stop(hosts)


def _wait(hosts):
    failed, deadline = None, None
    while True:
        states = [host.poll() for host in hosts]
        if failed is None:
            failed = next((number for number, state in enumerate(states) if state), None)
            if failed is not None:
                deadline = time.monotonic() + GRACE_SECONDS
        ended = all(state is not None for state in states)
        if ended or (deadline is not None and time.monotonic() > deadline):
            break
        time.sleep(POLL_SECONDS)
    if failed is None:
        return 0
    status = hosts[failed].returncode
    if len(hosts) > 1:
        ending = "" if ended else "; the other hosts are ended"
        print(f"== host {failed} ended with status {status}{ending}", file=sys.stderr)
    return 128 - status if status < 0 else status


def _stop(hosts):
    running = [host for host in hosts if host.poll() is None]
    for host in running:
        host.terminate()
    deadline = time.monotonic() + STOP_SECONDS
    for host in running:
        with contextlib.suppress(subprocess.TimeoutExpired):
            host.wait(max(0.0, deadline - time.monotonic()))
    end_descendants()


def end_descendants():
    """Kills all processes below this one, and those that they leave behind in the meantime."""
    deadline = time.monotonic() + STOP_SECONDS
    while (found := descendants(os.getpid())) and time.monotonic() < deadline:
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        _reap()
        time.sleep(0.01)


def _reap():
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def descendants(root):
    """The processes that have `root` as a parent, its parent's parent and so on."""
    children = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            # A process may end while it is looked at.
            with contextlib.suppress(OSError, IndexError):
                with open(f"/proc/{name}/stat") as file:
                    parent = int(file.read().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(name))
    found, front = [], [root]
    while front:
        front = [child for parent in front for child in children.get(parent, [])]
        found += front
    return found
