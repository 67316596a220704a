"""The driver leaves nothing behind: processes and namespaces go on success, on failure, and when it
is killed."""

import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "bench"))

from lab import network  # noqa: E402
from lab.job import Job, JobFailed  # noqa: E402

DEADLINE = 60


def wait_until(condition):
    """Fails the test by an exception where the condition does not come true in time."""
    deadline = time.monotonic() + DEADLINE
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("what was waited for did not happen")
        time.sleep(0.02)


def is_gone(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


class JobTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def job(self, *scripts):
        commands = [
            ["sh", "-c", f"echo $$ > {self.folder}/pid{rank}; {script}"]
            for rank, script in enumerate(scripts)
        ]
        return Job(self.folder, commands, [dict(os.environ)] * len(scripts))

    def pid(self, rank):
        path = f"{self.folder}/pid{rank}"
        wait_until(lambda: os.path.exists(path) and os.path.getsize(path) > 0)
        with open(path) as file:
            return int(file.read())

    def test_waits_for_all(self):
        with self.job("true", "echo spoken") as job:
            job.wait(lambda: None, DEADLINE)
            with open(job.output_path(1)) as file:
                self.assertEqual(file.read(), "spoken\n")

    def test_a_failing_rank_ends_the_others_and_is_quoted(self):
        with self.assertRaises(JobFailed) as failure, self.job(
            "exec sleep 1000", "echo the reason; exit 3"
        ) as job:
            other = self.pid(0)
            job.wait(lambda: None, DEADLINE)
        self.assertIn("rank 1 ended with status 3", str(failure.exception))
        self.assertIn("the reason", str(failure.exception))
        self.assertTrue(is_gone(other))

    def test_a_job_that_takes_too_long_fails(self):
        with self.assertRaisesRegex(JobFailed, "rank 0 did not end within 0 s"), self.job(
            "exec sleep 1000"
        ) as job:
            job.wait(lambda: None, 0.3)

    def test_what_an_ended_rank_has_started_ends_too(self):
        started = "sleep 1000 & echo $! > $0.new; mv $0.new $0"
        for ending in ("true", "exit 3", "kill -9 $$"):
            with self.subTest(ending=ending):
                path = f"{self.folder}/started"
                script = f"sh -c '{started}' {path}; {ending}"
                try:
                    with self.job(script) as job:
                        job.wait(lambda: None, DEADLINE)
                except JobFailed as failure:
                    self.assertRegex(str(failure), "rank 0 ended with status (3|-9)$")
                with open(path) as file:
                    started_pid = int(file.read())
                wait_until(lambda: is_gone(started_pid))

    def test_an_interrupt_leaves_no_process(self):
        def interrupt():
            raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt), self.job(
            "sleep 1000 & wait", "exec sleep 1000"
        ) as job:
            pids = [self.pid(0), self.pid(1)]
            job.wait(interrupt, DEADLINE)
        self.assertTrue(all(map(is_gone, pids)))

    def test_a_killed_driver_takes_its_ranks_along(self):
        driver = subprocess.Popen([sys.executable, "-B", __file__, "--hold", self.folder])
        rank = self.pid(0)
        driver.kill()
        driver.wait()
        wait_until(lambda: is_gone(rank))


def namespaces():
    names = subprocess.run(
        ["ip", "netns", "list"], capture_output=True, text=True
    ).stdout.splitlines()
    return {name.split()[0] for name in names if name.startswith("cinchq-")}


def have_namespaces():
    return isinstance(network.open_network(1, "1gbit", 1e9), network.SlowLinks)


class NetworkTest(unittest.TestCase):
    def setUp(self):
        if not have_namespaces():
            self.skipTest("network namespaces are not allowed here")
        self.before = namespaces()

    def made(self):
        return namespaces() - self.before

    def test_hosts_reach_each_other_and_vanish(self):
        with network.open_network(3, "1gbit", 1e9) as hosts:
            self.assertEqual(len(self.made()), 4)
            talk = [
                sys.executable,
                "-c",
                "import socket, sys\n"
                "serving = sys.argv[1] == 'serve'\n"
                "server = socket.create_server(('10.77.0.3', 0)) if serving else None\n"
                "if server:\n"
                "  print(server.getsockname()[1], flush=True)\n"
                "  print(server.accept()[0].recv(100).decode())\n"
                "else:\n"
                "  socket.create_connection(('10.77.0.3', int(sys.argv[2])), 30).sendall(b'hello')",
            ]
            server = subprocess.Popen(
                hosts.command(2, talk + ["serve"]), stdout=subprocess.PIPE, text=True
            )
            port = server.stdout.readline().strip()
            subprocess.run(hosts.command(0, talk + ["call", port]), check=True, timeout=DEADLINE)
            self.assertEqual(server.communicate(timeout=DEADLINE)[0], "hello\n")
        self.assertEqual(self.made(), set())

    def test_links_have_the_rate_in_both_directions(self):
        with network.open_network(2, "250mbit", 250e6) as hosts:
            own = subprocess.run(
                hosts.command(0, ["tc", "qdisc", "show", "dev", "eth0"]),
                capture_output=True,
                text=True,
            )
            bridge = subprocess.run(
                [
                    "ip",
                    "netns",
                    "exec",
                    f"cinchq-{os.getpid()}-bridge",
                    "tc",
                    "qdisc",
                    "show",
                    "dev",
                    "port0",
                ],
                capture_output=True,
                text=True,
            )
        for shown in (own.stdout, bridge.stdout):
            self.assertRegex(shown, r"tbf .*rate 250Mbit burst 64Kb lat 100(\.0)?ms")

    def test_a_failure_inside_leaves_nothing(self):
        with self.assertRaises(ZeroDivisionError), network.open_network(2, "1gbit", 1e9):
            self.assertEqual(len(self.made()), 3)
            raise ZeroDivisionError
        self.assertEqual(self.made(), set())

    def test_leftovers_of_dead_drivers_go_and_those_of_living_ones_stay(self):
        ended = subprocess.Popen(["true"])
        ended.wait()
        dead, living = f"cinchq-{ended.pid}-0", f"cinchq-{os.getpid()}-7"
        for name in (dead, living):
            subprocess.run(["ip", "netns", "add", name], check=True)
        self.addCleanup(subprocess.run, ["ip", "netns", "del", living])
        network.remove_leftovers()
        self.assertEqual(self.made(), {living})


def hold(folder):
    """A driver that only waits."""
    with Job(
        folder, [["sh", "-c", f"echo $$ > {folder}/pid0; exec sleep 1000"]], [dict(os.environ)]
    ):
        signal.pause()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--hold"]:
        hold(sys.argv[2])
    unittest.main(verbosity=2)
