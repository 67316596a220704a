"""What the comparison of calls concludes, on logs whose meaning is known. No GPU, no framework."""

import json
import os
import tempfile
import unittest

import calls_items
from check_support import Failure


def line(**changes):
    call = {"comm": 1, "kind": "AllReduce", "op": "Sum", "type": "fp32", "count": 1000, "root": -1, "rank": 0,
            "ranks": 2, "captured": False, "thread": "pt_autograd_0", "send": 4096, "time": 17.5}
    return json.dumps(call | changes) + "\n"


class Compare(unittest.TestCase):
    def compare(self, gpu, emulator):
        return calls_items.compare("job", calls_items.by_communicator(gpu), calls_items.by_communicator(emulator))

    def test_addresses_and_times_may_differ(self):
        self.assertEqual(self.compare([line(), line(count=2)], [line(send=1, time=3), line(count=2)]), 2)

    def test_communicators_may_interleave_otherwise(self):
        self.assertEqual(self.compare([line(), line(comm=2)], [line(comm=2), line()]), 2)

    def test_each_field_counts(self):
        for change in ({"kind": "Reduce"}, {"op": "Avg"}, {"type": "bf16"}, {"count": 1001}, {"root": 0}, {"ranks": 3},
                       {"captured": True}, {"thread": "main"}):
            with self.assertRaisesRegex(Failure, "communicator 1, call 2"):
                self.compare([line(), line()], [line(), line(**change)])

    def test_a_call_more_on_either_side(self):
        for gpu, emulator in (([line()] * 2, [line()]), ([line()], [line()] * 2), ([line()], [line(), line(comm=2)])):
            with self.assertRaisesRegex(Failure, "no call"):
                self.compare(gpu, emulator)

    def test_order_counts(self):
        with self.assertRaises(Failure):
            self.compare([line(count=1), line(count=2)], [line(count=2), line(count=1)])


class Jobs(unittest.TestCase):
    def write(self, folder, ranks):
        for job in calls_items.JOBS:
            os.makedirs(os.path.join(folder, job))
            for rank in ranks:
                with open(os.path.join(folder, job, f"{rank + 40}.calls.jsonl"), "w", encoding="utf-8") as file:
                    file.write(line(rank=rank) + line(rank=rank, count=7) + line()[:30])

    def test_all_jobs_and_ranks_are_compared(self):
        with tempfile.TemporaryDirectory() as gpu, tempfile.TemporaryDirectory() as emulator:
            self.write(gpu, (0, 1))
            self.write(emulator, (0, 1))
            self.assertEqual(calls_items.compare_jobs(gpu, emulator), dict.fromkeys(calls_items.JOBS, 4))

    def test_a_missing_log_is_a_failure(self):
        with tempfile.TemporaryDirectory() as gpu, tempfile.TemporaryDirectory() as emulator:
            with self.assertRaisesRegex(Failure, "call logs of ranks"):
                calls_items.compare_jobs(gpu, emulator)
            self.write(gpu, (0, 1))
            self.write(emulator, (0,))
            with self.assertRaisesRegex(Failure, r"\[0, 1\] on the GPU and \[0\]"):
                calls_items.compare_jobs(gpu, emulator)


if __name__ == "__main__":
    unittest.main()
