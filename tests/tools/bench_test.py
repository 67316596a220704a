"""`cinch bench` as a user runs it: real processes on the emulator, small ranges, plain and under Cinch.

Arguments: CINCH PRELOAD SCHEMA.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
from ranks import mpirun  # noqa: E402

try:
    import jsonschema
except ImportError:
    jsonschema = None

CINCH = PRELOAD = SCHEMA = None
DEADLINE = 240
LAUNCHER_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "LD_PRELOAD", "NCCL_HOSTID")


def environment(**values):
    kept = {name: value for name, value in os.environ.items()
            if name not in LAUNCHER_VARIABLES and not name.startswith(("OMPI_", "PMIX_", "CINCH_"))}
    return dict(kept, NCCL_SOCKET_IFNAME="lo", **values)


def run(command, env):
    return subprocess.run([str(word) for word in command], env=env, stdin=subprocess.DEVNULL, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=DEADLINE)


class Bench(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def bench(self, *words, start=(), cinch=False, **variables):
        """Runs it and returns the rows of the table, as lists of words, and the JSON."""
        report = f"{self.folder}/out.json"
        if cinch:
            variables = {"CINCH_CODEC": "q4", "CINCH_STATS": f"{self.folder}/stats", **variables}
            variables["LD_PRELOAD"] = PRELOAD
        done = run([*start, CINCH, "bench", *words, "--emulator", "-T", 120, "-J", report],
                   environment(TMPDIR=self.folder, **variables))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        with open(report, encoding="utf-8") as file:
            results = json.load(file)
        self.check_json(results)
        self.check_table(done.stdout, results)
        return [line.split() for line in done.stdout.splitlines() if not line.startswith("#")], results

    def check_json(self, results):
        self.assertEqual(results["out_of_bounds"], 0)
        if jsonschema is not None:
            with open(SCHEMA, encoding="utf-8") as file:
                jsonschema.validate(results, json.load(file))

    def check_table(self, text, results):
        self.assertIn("# Out of bounds values : 0 OK", text)
        self.assertIn("# Avg bus bandwidth    : ", text)
        rows = [line.split() for line in text.splitlines() if not line.startswith("#")]
        self.assertEqual([int(row[0]) for row in rows], [row["size"] for row in results["results"]])

    def paths(self, results):
        return {row["size"]: {row[phase]["path"] for phase in ("out_of_place", "in_place")}
                for row in results["results"]}

    def test_plain(self):
        rows, results = self.bench("all_reduce", "--ranks", 2, "-b", 8, "-e", "32K", "-f", 16, "-n", 2)
        self.assertEqual([int(row[0]) for row in rows], [8, 128, 2048, 32768])
        self.assertEqual({row[-1] for row in rows}, {"plain"})
        self.assertEqual(results["ranks"], 2)
        self.assertFalse(results["cinch"]["preloaded"])
        self.assertEqual({row["in_place"]["nmse"] for row in results["results"]}, {0})

    def test_all_types_and_operations(self):
        rows, _ = self.bench("all_reduce", "--ranks", 3, "-b", "4K", "-e", "4K", "-n", 1, "-w", 1, "-d", "all",
                             "-o", "all")
        self.assertEqual(len(rows), 50)

    def test_plain_shards(self):
        for collective in ("reduce_scatter", "all_gather"):
            rows, _ = self.bench(collective, "--ranks", 4, "-b", 8, "-e", "64K", "-f", 8, "-n", 2, "-u", 1)
            self.assertEqual(rows[0][0], "0")  # too few for a shard of 16 bytes

    def test_graph(self):
        self.bench("all_reduce", "--ranks", 2, "-b", "4K", "-e", "8K", "-f", 2, "-n", 3, "-G", 2)

    def test_compressed(self):
        for collective in ("all_reduce", "reduce_scatter", "all_gather"):
            _, results = self.bench(collective, "--ranks", 4, "--hosts", 4, "-b", "16K", "-e", "256K", "-f", 4,
                                    "-n", 2, "-c", 2, cinch=True, CINCH_ALLGATHER="y")
            self.assertTrue(results["cinch"]["preloaded"])
            paths = self.paths(results)
            self.assertEqual(paths.pop(16384), {"passed"}, collective)
            self.assertEqual(set().union(*paths.values()), {"compressed"}, collective)
            last = results["results"][-1]["out_of_place"]
            self.assertGreater(last["ratio"], 2)
            self.assertGreater(last["nmse"], 0)
            self.assertLess(last["nmse"], last["nmse_bound"])

    def test_one_host_passes(self):
        _, results = self.bench("all_reduce", "--ranks", 2, "-b", "128K", "-e", "128K", "-n", 2, cinch=True)
        self.assertEqual(self.paths(results), {131072: {"passed"}})
        self.assertEqual(results["results"][0]["in_place"]["reason"], "same_host")

    def test_switched_off(self):
        _, results = self.bench("all_reduce", "--ranks", 2, "--hosts", 2, "-b", "128K", "-e", "128K", "-n", 2,
                                cinch=True, CINCH_MODE="off")
        self.assertTrue(results["cinch"]["preloaded"])
        self.assertEqual(self.paths(results), {131072: {"plain"}})
        self.assertEqual(results["results"][0]["in_place"]["nmse"], 0)

    def test_nothing_is_left(self):
        """Cinch and its plugin report to files of the bench's own."""
        plugin = os.path.join(os.path.dirname(PRELOAD.split(":")[-1]), "libnccl-net-cinch.so")
        if not os.path.exists(plugin):
            self.skipTest("the net plugin is not built")
        self.bench("all_reduce", "--ranks", 2, "--hosts", 2, "-b", "64K", "-e", "64K", "-n", 2, cinch=True,
                   CINCH_STATS="", NCCL_NET_PLUGIN=plugin)
        self.assertEqual(os.listdir(self.folder), ["out.json"])

    def test_torchrun_environment(self):
        """Two processes that nothing but the environment ties together."""
        job = {"WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}
        command = [CINCH, "bench", "all_reduce", "-b", "1K", "-e", "1K", "-n", "2", "--emulator", "-T", "120"]
        processes = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                      env=environment(TMPDIR=self.folder, RANK=str(rank), LOCAL_RANK=str(rank), **job))
                     for rank in range(2)]
        outputs = []
        for process in processes:
            try:
                outputs.append(process.communicate(timeout=DEADLINE)[0])
            finally:
                process.kill()
        self.assertEqual([process.returncode for process in processes], [0, 0], outputs)
        self.assertIn("# Out of bounds values : 0 OK", outputs[0])
        self.assertEqual(outputs[1], "")
        self.assertEqual(os.listdir(self.folder), [])

    def test_values_that_have_grown_in_place_do_not_count(self):
        # A dozen calls: what feedback keeps of the last is not yet out of proportion to the first.
        rows, results = self.bench("all_reduce", "--ranks", 2, "--hosts", 2, "-b", "128K", "-e", "128K", "-w", 6,
                                   "-n", 5, "-d", "bfloat16", cinch=True)
        self.assertEqual(len(rows), 1)
        self.assertEqual(results["results"][0]["in_place"]["path"], "compressed")

    @unittest.skipUnless(shutil.which("mpirun"), "Open MPI is not installed")
    def test_mpirun(self):
        _, results = self.bench("all_reduce", "-b", "1K", "-e", "1K", "-n", 2, start=mpirun(4))
        self.assertEqual(results["ranks"], 4)
        self.assertEqual(len({device["pid"] for device in results["devices"]}), 4)

    @unittest.skipUnless(shutil.which("gnuplot"), "gnuplot is not installed")
    def test_plot(self):
        plot = f"{self.folder}/plot.svg"
        self.bench("all_reduce", "--ranks", 2, "-b", 8, "-e", "4K", "-f", 8, "-n", 1, "--plot", plot, "--link", 10)
        with open(plot, encoding="utf-8") as file:
            self.assertIn("<svg", file.read())

    def test_errors_name_the_cause(self):
        cases = {("all_reduce", "-b", "8X"): "minbytes", ("all_reduce", "-d", "fp32"): "-d fp32 is no type",
                 ("all_reduce", "--hosts", "3", "--ranks", "2"): "--hosts 3, but there are 2 ranks",
                 ("bcast",): "bcast"}
        for words, part in cases.items():
            done = run([CINCH, "bench", *words], environment())
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(part, done.stderr)
        done = run([CINCH, "bench", "all_reduce", "--ranks", 1, "--nccl", "/nowhere/libnccl.so.2"], environment())
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot load NCCL: /nowhere/libnccl.so.2", done.stderr)


if __name__ == "__main__":
    SCHEMA = sys.argv.pop()
    PRELOAD = sys.argv.pop()
    CINCH = sys.argv.pop()
    unittest.main(verbosity=2)
