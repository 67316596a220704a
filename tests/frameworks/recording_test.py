"""recording.py on logs and marks that are written here."""
import os
import pathlib
import sys
import tempfile
import unittest

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__))]

import recording  # noqa: E402
import trace_format  # noqa: E402


class Job:
    """Writes what a job would leave, a millisecond from call to call."""

    def __init__(self, ranks=2):
        self.now, self.calls, self.marks, self.step, self.ranks = 5_000_000.0, [], [], 0, ranks

    def mark(self, phase):
        self.now += 1000
        self.marks.append({"t": int(self.now * 1000), "step": self.step, "phase": phase})

    def next_step(self):
        self.step += 1
        self.mark("other")

    def call(self, kind="AllReduce", count=5000, comm=1, **facts):
        self.now += 1000
        op = "Sum" if kind in ("AllReduce", "ReduceScatter") else "None"
        self.calls.append({"call": len(self.calls) + 1, "time": self.now, "comm": comm, "rank": 0,
                           "ranks": self.ranks, "kind": kind, "op": op, "type": "fp32", "count": count,
                           "root": -1, "send": 4096, "recv": 4096, "stream": 0, "group": 0, "captured": False,
                           "thread": "main", "outcome": "warmup", "result": 0, **facts})

    def backward(self, *counts, comm=1):
        self.mark("gradients")
        for count in counts:
            self.call(count=count, comm=comm, thread="pt_autograd_0")
        self.mark("other")

    def trace(self, truth=None):
        return recording.to_trace("job", "none", "none", self.calls, self.marks, truth)

    def truths(self, truth=None):
        return [row[-1] for step in self.trace(truth).steps for row in step]


class Truth(unittest.TestCase):
    def test_the_nth_of_equal_reductions_is_the_same_in_each_pass(self):
        job = Job()
        for _ in range(3):
            job.backward(7, 5, 5)
            job.next_step()
        self.assertEqual(job.truths(), ["g0", "g1", "g2"] * 3)

    def test_other_sizes_are_another_layout(self):
        job = Job()
        job.backward(17)
        for _ in range(2):
            job.backward(5, 12)
        job.backward(12, 5)
        job.backward(17)
        self.assertEqual(job.truths(), ["g0", "g1", "g2", "g1", "g2", "g3", "g4", "g0"])

    def test_each_communicator_has_a_layout_of_its_own(self):
        job = Job()
        for counts in ((5, 6), (5, 6, 7)):
            job.mark("gradients")
            for count in counts:
                job.call(count=count, comm=1)
                job.call(count=9, comm=2) if count == 5 else None
            job.mark("other")
        first, second = job.truths()[:3], job.truths()[3:]
        self.assertEqual(second[1], first[1])
        self.assertFalse({first[0], first[2]} & set(second))

    def test_buckets_that_ddp_fills_anew_are_other_ones(self):
        job = Job()
        for _ in range(2):  # the same model is wrapped twice
            job.call("Broadcast", 1, type="int64", output=[2])
            job.call("Broadcast", 4, type="int64", output=[3, 4, 4, 1])
            job.backward(12)
            job.call("Broadcast", 3, type="int32", output=[1, 0, 1])
            job.call("Broadcast", 1, type="int32", output=[2])
            job.backward(12)
            job.call("Broadcast", 2, type="int64", output=[7, 7])  # counters of batches
            job.backward(12)
        self.assertEqual([truth for truth in job.truths() if truth != "m"], ["g0", "g1", "g1"] * 2)

    def test_a_phase_within_a_pass_does_not_end_it(self):
        job = Job()
        for _ in range(2):
            job.mark("gradients")
            job.call(count=5)
            job.mark("activations")
            job.call(count=77)
            job.mark("gradients")
            job.call(count=5)
            job.mark("other")
        self.assertEqual(job.truths(), ["g0", "a", "g1"] * 2)

    def test_what_is_no_sum_of_floats_is_no_gradient(self):
        job = Job()
        job.mark("gradients")
        job.call("AllGather")
        job.call("Broadcast", type="int32")
        job.call(type="int64")
        job.call(op="Other")
        job.call("ReduceScatter", type="bf16")
        self.assertEqual(job.truths(), ["w", "m", "m", "m", "g0"])

    def test_other_phases(self):
        job = Job()
        for phase in ("weights", "activations", "metrics", "other"):
            job.mark(phase)
            job.call()
            job.call("Broadcast")
            job.call("Broadcast", type="int64")
        self.assertEqual(job.truths(), ["w", "w", "m", "a", "a", "m", "m", "m", "m", "m", "w", "m"])

    def test_the_job_knows_better(self):
        job = Job()
        job.backward(5, 129)
        self.assertEqual(job.truths(lambda call, phase: "activations" if call["count"] == 129 else None),
                         ["g0", "a"])


class Rows(unittest.TestCase):
    def test_steps_threads_and_communicators(self):
        job = Job()
        job.call("Broadcast", comm=3, send=0, recv=77)
        job.backward(5, comm=1)
        job.next_step()
        job.next_step()
        job.call("AlltoAll", comm=3, thread="")
        trace = job.trace()
        self.assertEqual(trace.steps, [[(0, "Broadcast", "None", "fp32", 5000, 0, "main", "w"),
                                        (1, "AllReduce", "Sum", "fp32", 5, 1, "autograd", "g0")], [],
                                       [(0, "AllToAll", "None", "fp32", 5000, 1, "unknown", "m")]])
        self.assertEqual(trace.header["ranks"], "2 2")

    def test_what_failed_and_what_is_no_collective_is_left_out(self):
        job = Job()
        job.call(result=5)
        job.call(captured=True)
        job.call("Send")
        self.assertEqual(job.truths(), [])

    def test_a_trace_can_be_written_and_read(self):
        job = Job()
        for step in range(20):
            job.backward(5000, 6000)
            job.calls[-1].update(input=[0.5, None], output=[1.0, 2.0])
            job.next_step()
        with tempfile.TemporaryDirectory() as folder:
            job.trace().write(pathlib.Path(folder), 10000)
            _, rows = trace_format.read(pathlib.Path(folder, "job.csv"))
            values = trace_format.read_values(pathlib.Path(folder, "job.values"))
        self.assertEqual(len(rows), 40)
        self.assertEqual([*values], [*range(1, 40, 2)])
        self.assertEqual(values[1][1], [1, 2])
        self.assertEqual(values[1][0][0], 0.5)

    def test_bfloat_rounds_to_nearest(self):
        for value, digits in ((1.0, "3f80"), (-2.0, "c000"), (1.00390625, "3f80"), (1.01171875, "3f82"),
                              (1.0078126, "3f81"), (0.0, "0000"), (None, "7fc0")):
            self.assertEqual(recording.bfloat(value), digits, value)


class Files(unittest.TestCase):
    def test_rank_0_is_that_of_the_largest_communicator(self):
        self.assertTrue(recording.is_rank_0([{"ranks": 2, "rank": 1}, {"ranks": 4, "rank": 0}]))
        self.assertFalse(recording.is_rank_0([{"ranks": 2, "rank": 0}, {"ranks": 4, "rank": 1}]))
        self.assertFalse(recording.is_rank_0([]))

    def test_the_messages_of_ddp(self):
        job = Job()
        self.assertIsNone(recording.ddp_messages(job.calls, "none"))
        for kind, numbers in (("AllGather", [2, 2]), ("Broadcast", [2])):
            job = Job()
            job.call(kind, 1, type="int64", output=numbers)
            job.call("Broadcast", 4, type="int64", output=[3, 4, 4, 1, 5, 1])
            job.backward(17)
            job.call("Broadcast", 3, type="int32", output=[1, 0, 2])
            job.call("Broadcast", 2, type="int32", output=[1, 1])
            job.backward(5, 12)
            job.backward(5, 12)
            self.assertEqual(recording.ddp_messages(job.calls, "none"),
                             {"origin": "none", "nParameters": 2, "sizesAndStrides": [3, 4, 4, 1, 5, 1],
                              "bucketOrder": [1, 0, 2], "bucketSizes": [1, 1], "allReduceCounts": [5, 12]})


if __name__ == "__main__":
    unittest.main()
