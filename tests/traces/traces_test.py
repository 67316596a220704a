"""The traces are well formed and make sense."""

import collections
import json
import math
import pathlib
import tempfile
import unittest

import trace_format

FOLDER = pathlib.Path(__file__).parent
# What cannot run without a GPU, and is written down from the sources of its framework.
FROM_SOURCE = {"horovod", "jax_scan"}


def committed():
    return {path.stem: path for path in sorted(FOLDER.glob("*.csv"))}


class FoldingTest(unittest.TestCase):
    def test_reads_what_was_written(self):
        trace = trace_format.Trace("folded", "none", "none", (2,))
        expected = []
        for step in trace.train(200):
            for call in range(step % 3 if step < 60 else 1 + step // 7 % 2):
                trace.call("Broadcast", "None", "fp32", 10 + call, call, "w")
                expected.append([step, "0", "Broadcast", "None", "fp32", str(10 + call), str(call),
                                 "unknown", "w"])
        with tempfile.TemporaryDirectory() as folder:
            trace.write(pathlib.Path(folder))
            header, rows = trace_format.read(pathlib.Path(folder, "folded.csv"))
        self.assertEqual(rows, expected)
        self.assertLess(trace.text().count("\n"), len(rows))
        self.assertEqual(header, {"framework": "none", "origin": "none", "ranks": "2"})


class ValuesTest(unittest.TestCase):
    def test_reads_what_was_written(self):
        trace = trace_format.Trace("sampled", "none", "none", (2,))
        for _ in trace.train(10):
            trace.call("AllReduce", "Sum", "fp32", 2000, 0, "m", thread="main")
            trace.call("Broadcast", "None", "fp32", 2000, 0, "w", thread="main")
            trace.sample([], ["3f80", "c000"])
        with tempfile.TemporaryDirectory() as folder:
            trace.write(pathlib.Path(folder), 60)
            path = pathlib.Path(folder, "sampled.values")
            self.assertLessEqual(path.stat().st_size, 60)
            self.assertEqual(trace_format.read_values(path),
                             {row: ([], [1, -2]) for row in (1, 3, 5)})

    def test_files_belong_to_calls(self):
        for path in FOLDER.glob("*.values"):
            self.assertLess(path.stat().st_size, 200_000, path.name)
            _, rows = trace_format.read(path.with_suffix(".csv"))
            for number, (before, after) in trace_format.read_values(path).items():
                self.assertIn(rows[number][4], ("fp32", "fp16", "bf16", "fp64"), path.name)
                self.assertTrue(before or after, path.name)


class TracesTest(unittest.TestCase):
    def for_each(self):
        for name, path in committed().items():
            yield name, path, *trace_format.read(path)

    def test_they_are_recorded(self):
        self.assertGreaterEqual(len(committed()), 20)
        for name, _, header, _ in self.for_each():
            origin = "from source, " if name in FROM_SOURCE else "recorded, torch "
            self.assertTrue(header["origin"].startswith(origin), name)

    def test_rows_are_well_formed(self):
        for name, path, header, rows in self.for_each():
            self.assertLess(path.stat().st_size, 150_000, name)
            ranks = header["ranks"].split()
            for row in rows:
                _, comm, kind, op, type_, count, buffer, thread, truth = row
                self.assertLess(int(comm), len(ranks), row)
                self.assertIn(kind, trace_format.KINDS, row)
                self.assertIn(op, trace_format.OPS, row)
                self.assertIn(type_, trace_format.TYPES, row)
                self.assertEqual(op != "None", kind in ("AllReduce", "ReduceScatter", "Reduce"), row)
                self.assertGreaterEqual(int(count), 0, row)
                self.assertGreaterEqual(int(buffer), 0, row)
                self.assertTrue(thread, row)
                self.assertRegex(truth, "^(g[0-9]+|w|a|m)$", row)

    def test_steps_count_up(self):
        for name, _, _, rows in self.for_each():
            steps = [row[0] for row in rows]
            self.assertEqual(steps, sorted(steps), name)
            self.assertGreaterEqual(steps[0], 0, name)
            self.assertGreaterEqual(steps[-1], 10, name)

    def test_equal_truth_means_equal_calls(self):
        for name, _, _, rows in self.for_each():
            calls = collections.defaultdict(set)
            for _, comm, kind, op, type_, count, _, _, truth in rows:
                if truth.startswith("g"):
                    calls[truth].add((comm, kind, op, type_, count))
            for truth, seen in calls.items():
                self.assertEqual(len(seen), 1, (name, truth))

    def test_a_gradient_is_a_sum_of_floats(self):
        for _, _, _, rows in self.for_each():
            for row in rows:
                if row[-1].startswith("g"):
                    self.assertIn(row[3], ("Sum", "Avg", "PreMulSum"), row)
                    self.assertIn(row[4], ("fp32", "fp16", "bf16"), row)


class MessagesTest(unittest.TestCase):
    def test_recorded_messages_agree_with_themselves(self):
        paths = sorted(FOLDER.glob("ddp_messages/recorded_*.json"))
        self.assertTrue(paths)
        for path in paths:
            with self.subTest(path.name):
                self.check(json.loads(path.read_text()))

    def check(self, facts):
        shapes, order = facts["shapes"], facts["bucketOrder"]
        self.assertEqual(len(shapes), facts["nParameters"])
        self.assertEqual(len(facts["sizesAndStrides"]), 2 * sum(map(len, shapes)))
        self.assertEqual(sorted(order[:-1]), list(range(len(shapes))))
        self.assertEqual(order[-1], len(facts["bucketSizes"]))
        counts, start = [], 0
        for size in facts["bucketSizes"]:
            counts.append(sum(math.prod(shapes[i]) for i in order[start:start + size]))
            start += size
        self.assertEqual(counts, facts["allReduceCounts"])


if __name__ == "__main__":
    unittest.main()
