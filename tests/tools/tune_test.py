"""`cinch tune` as a user runs it: a sweep on the emulator, one that is killed, and sweeps of a benchmark made up here,
whose times are known.

Arguments: CINCH.
"""

import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import unittest

CINCH = None
DEADLINE = 240

# Stands where mpirun would, and never starts what it is given. LL has no tree here, LL128 hangs, four channels are
# fastest, and 16 KiB are as NCCL has them whatever is chosen.
LAUNCHER = """#!{python}
import json, sys, time
words = sys.argv[1:]
variables = dict(word.split("=", 1) for word in words[:words.index("bench")] if "=" in word)
assert variables["CINCH_MODE"] == "off" and variables["NCCL_TUNER_PLUGIN"] == "none", words
algorithm, protocol = variables.get("NCCL_ALGO", ""), variables.get("NCCL_PROTO", "")
with open("{log}", "a") as log:
    log.write(f"{{algorithm}} {{protocol}} {{variables.get('NCCL_MAX_NCHANNELS', '')}}\\n")
if algorithm.endswith("tree") and protocol.endswith(":ll"):
    sys.exit("no algorithm for this")
if protocol.endswith(":ll128"):
    print("waiting", flush=True)
    time.sleep(600)
speed = 0.5 if variables.get("NCCL_MAX_NCHANNELS") == "4" else 0.8 if algorithm.endswith("tree") else 1
row = lambda size, us: {{"size": size, "out_of_place": {{"time_us": us}}, "in_place": {{"time_us": us}}}}
results = [row(1024, 100 * speed), row(4096, 200 * speed), row(16384, 300)]
with open(words[words.index("-J") + 1], "w") as report:
    json.dump({{"nccl": {{"version": "2.28.9", "emulator": False}}, "ranks": 16, "arguments": {{"hosts": 0}},
               "devices": [{{"host": "a"}}, {{"host": "b"}}], "results": results}}, report)
"""


class Tune(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.launches = f"{self.folder}/launches"
        self.launcher = f"{self.folder}/launcher"
        with open(self.launcher, "w", encoding="utf-8") as file:
            file.write(LAUNCHER.format(python=sys.executable, log=self.launches))
        os.chmod(self.launcher, stat.S_IRWXU)

    def command(self, *words):
        kept = {name: value for name, value in os.environ.items()
                if name not in ("RANK", "WORLD_SIZE", "LD_PRELOAD") and not name.startswith(("OMPI_", "CINCH_", "NCCL_"))}
        environment = dict(kept, NCCL_SOCKET_IFNAME="lo", CINCH_CACHE_DIR=f"{self.folder}/cache")
        return dict(args=[CINCH, "tune", *map(str, words)], env=environment, stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def tune(self, *words, status=0):
        done = subprocess.run(**self.command(*words), timeout=DEADLINE, check=False)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def tune_made_up(self, *words, **options):
        return self.tune("all_reduce", "--launcher", self.launcher, "--algorithms", "tree,ring", "--protocols",
                         "ll,simple", "--channels", "auto,4", *words, **options)

    def rules(self, name="cache/tuner.csv"):
        with open(f"{self.folder}/{name}", encoding="utf-8") as file:
            return [line.strip() for line in file if not line.startswith("#")]

    def count_launches(self):
        with open(self.launches, encoding="utf-8") as file:
            return len(file.readlines())

    def test_the_emulator(self):
        done = self.tune("--emulator", "--ranks", 2, "-b", "1K", "-e", "4K", "-f", 4, "-n", 2, "-w", 1, "--algorithms",
                         "tree,ring,pat", "--protocols", "simple", "--channels", "auto,2", "--repeats", 2)
        for name in ("allreduce", "reducescatter", "allgather"):
            self.assertIn(name, done.stdout)
        self.assertEqual(done.stderr, "")  # no bar where there is no terminal
        for rule in self.rules("cache/tuner.csv.rehearsal"):
            self.assertEqual(len(rule.split(",")), 10)
        # What jobs read is left alone.
        self.assertEqual(sorted(os.listdir(f"{self.folder}/cache")),
                         ["tuner.csv.rehearsal", "tuner.csv.rehearsal.state"])

    def test_rules_of_what_is_faster(self):
        done = self.tune_made_up()
        self.assertEqual(len(self.rules()), 1, self.rules())
        name, least, most, algorithm, protocol, channels, nodes, ranks, *rest = self.rules()[0].split(",")
        self.assertEqual((name, least, most, channels, nodes, ranks, rest),
                         ("allreduce", "1024", "8192", "4", "2", "16", ["-1", "-1"]))
        self.assertIn((algorithm, protocol), [("tree", "simple"), ("ring", "ll"), ("ring", "simple")])
        self.assertIn("# all_reduce, tree ll: refused (exit status 1: no algorithm for this)", done.stdout)
        with open(self.launches, encoding="utf-8") as file:
            launches = file.read()
        self.assertIn("ring;allreduce:tree simple;allreduce:ll 4\n", launches)
        # Two refused combinations once, six others three times, each beside NCCL's own.
        self.assertEqual(self.count_launches(), 2 * (2 + 6 * 3))

    def test_what_hangs_is_ended(self):
        done = self.tune("all_reduce", "--launcher", self.launcher, "--algorithms", "ring", "--protocols", "ll128,simple",
                         "--channels", "auto", "--repeats", 2, "-b", "1K", "-e", "1K", "-T", 1)
        self.assertIn("# all_reduce, ring ll128: refused (it did not end within 3 s: waiting)", done.stdout)
        self.assertEqual(self.rules(), [])

    def test_rules_of_other_shapes_stay(self):
        os.mkdir(f"{self.folder}/cache")
        with open(f"{self.folder}/cache/tuner.csv", "w", encoding="utf-8") as file:
            file.write("allreduce,0,1,ring,ll,-1,1,8\nallreduce,0,1,ring,ll,-1,2,16\n")
        self.tune_made_up()
        self.assertEqual(len(self.rules()), 2)
        self.assertEqual(self.rules()[0], "allreduce,0,1,ring,ll,-1,1,8,-1,-1")

    def test_other_files_are_not_replaced(self):
        with open(f"{self.folder}/thesis", "w", encoding="utf-8") as file:
            file.write("Chapter 1\n")
        done = self.tune_made_up("--output", f"{self.folder}/thesis", status=2)
        self.assertIn("is no file of rules (line 1, collective_type", done.stderr)
        self.assertFalse(os.path.exists(self.launches))

    def test_other_states_are_not_replaced(self):
        with open(f"{self.folder}/thesis", "w", encoding="utf-8") as file:
            file.write("Chapter 1\n")
        done = self.tune_made_up("--state", f"{self.folder}/thesis", status=2)
        self.assertIn("is no file of what cinch tune has measured", done.stderr)
        with open(f"{self.folder}/thesis", encoding="utf-8") as file:
            self.assertEqual(file.read(), "Chapter 1\n")

    def test_what_was_measured_outlives_a_failure_at_the_end(self):
        words = ("--state", f"{self.folder}/state", "--output", f"{self.folder}/later/tuner.csv")
        done = self.tune_made_up(*words, status=1)
        self.assertIn("later/tuner.csv", done.stderr)
        launches = self.count_launches()
        os.mkdir(f"{self.folder}/later")
        self.tune_made_up(*words)
        self.assertEqual(len(self.rules("later/tuner.csv")), 1)
        self.assertEqual(self.count_launches(), launches)
        self.tune_made_up(*words)
        self.assertEqual(self.count_launches(), 2 * launches)

    def test_one_sweep_is_of_one_job(self):
        words = ("--state", f"{self.folder}/state", "--output", f"{self.folder}/later/tuner.csv")
        self.tune_made_up(*words, status=1)
        with open(f"{self.folder}/state", encoding="utf-8") as file:
            lines = file.readlines()
        with open(f"{self.folder}/state", "w", encoding="utf-8") as file:
            file.writelines(lines[:3])
        with open(self.launcher, encoding="utf-8") as file:
            grown = file.read().replace('"ranks": 16', '"ranks": 32')
        with open(self.launcher, "w", encoding="utf-8") as file:
            file.write(grown)
        done = self.tune_made_up(*words, status=1)
        self.assertIn("holds measurements of 16 ranks on 2 nodes with NCCL 2.28.9, and this is a job of 32 ranks", done.stderr)
        with open(f"{self.folder}/state", encoding="utf-8") as file:
            self.assertEqual(file.readlines(), lines[:3])

    def test_nccls_own_choice_has_to_work(self):
        done = self.tune("all_reduce", "--launcher", "false", status=1)
        self.assertIn("fails with NCCL's own choice: exit status 1", done.stderr)

    def test_wrong_command_lines(self):
        for words, text in ((("--protocols", "ll256"), "ll|ll128|simple"), (("--channels", "0"), "auto, or a number"),
                            (("-b", "0"), "a size above 0"), (("-e", "1"), "not below that of -b"),
                            (("--plot", "a.gif"), ".svg"), (("--algorithms", "pat", "all_reduce"), "no collective")):
            done = self.tune(*words, status=2)
            self.assertIn(text, done.stderr)

    def test_goes_on_after_a_kill(self):
        words = ("all_reduce", "--emulator", "--ranks", 2, "-b", "1K", "-e", "4K", "-n", 2, "-w", 1, "--algorithms",
                 "tree,ring", "--protocols", "ll,simple", "--channels", "auto,1,2", "--repeats", 3)
        state = f"{self.folder}/cache/tuner.csv.rehearsal.state"
        process = subprocess.Popen(**self.command(*words))
        deadline = time.monotonic() + DEADLINE
        while time.monotonic() < deadline and (not os.path.exists(state) or self.lines_of(state) < 4):
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        before = self.lines_of(state) - 1
        self.assertLess(before, 36)
        self.assertFalse(os.path.exists(f"{self.folder}/cache/tuner.csv.rehearsal"))
        with open(state, encoding="utf-8") as file:
            measured = file.readlines()[:before + 1]
        held = subprocess.Popen(["flock", state, "cat"], stdin=subprocess.PIPE)
        self.addCleanup(held.communicate)
        while subprocess.run(["flock", "--nonblock", state, "true"], check=False).returncode == 0:
            time.sleep(0.01)
        self.assertIn("still at work", self.tune(*words, status=1).stderr)
        held.communicate()
        done = self.tune(*words)
        self.assertIn(f"goes on behind {before} of 36 measurements", done.stderr)
        with open(state, encoding="utf-8") as file:
            self.assertEqual(file.readlines()[:before + 1], measured)
        self.assertEqual(self.lines_of(state), 38)
        self.rules("cache/tuner.csv.rehearsal")

    def lines_of(self, path):
        with open(path, encoding="utf-8") as file:
            return file.read().count("\n")

    @unittest.skipUnless(shutil.which("gnuplot"), "gnuplot is not installed")
    def test_plot(self):
        self.tune_made_up("--plot", f"{self.folder}/plot.svg")
        with open(f"{self.folder}/plot.svg", encoding="utf-8") as file:
            self.assertIn("with these rules", file.read())


if __name__ == "__main__":
    CINCH = sys.argv.pop(1)
    unittest.main()
