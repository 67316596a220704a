"""What the control channel costs a program, in small numbers; `bench/report control` has the large ones.

Arguments: PROGRAM PRELOAD ALLOCATIONS (the library of allocations.cc).
"""

import io
import sys
import unittest

import cost

PROGRAMS = None


class Cost(unittest.TestCase):
    def test_a_process_has_one_connection_whatever_the_communicators(self):
        self.assertLessEqual(cost.descriptors(PROGRAMS, communicators=6, ranks=4), 12)

    def test_strangers_take_no_descriptors_of_the_program(self):
        failed, delay_ms = cost.flood(PROGRAMS, strangers=1500, limit=1100)
        self.assertEqual(failed, 0)
        self.assertLess(delay_ms, 5000)

    def test_a_step_costs_no_system_call_and_no_allocation(self):
        """But for what another thread is to do after an examined call, now and then."""
        steps = 40
        found = cost.steady_state(PROGRAMS, steps)
        self.assertLess(found["syscalls"] or 0, steps, found["calls"])
        self.assertLess(found["allocations"], steps)


class Trace(unittest.TestCase):
    def test_a_system_call_is_whose_code_makes_it(self):
        trace = io.StringIO("".join((
            "futex(0x1, FUTEX_WAKE, 1) = 0\n", " > /lib/libc.so.6(pthread_mutex_unlock+0x1) [0x1]\n",
            " > /x/libcinch.so(cinch::Some::thing(int)+0x1f) [0x2]\n", " > /x/program(main+0x1) [0x3]\n",
            "futex(0x1, FUTEX_WAKE, 1) = 0\n", " > /x/libcudart.so.13(enqueue+0x1) [0x1]\n",
            " > /x/libcinch.so(ncclAllReduce+0x1f) [0x2]\n",
            "close(3) = 0\n", " > /x/libcinch.so(cinch::Socket::~Socket()+0x1f) [0x2]\n",
            " > /x/libcinch.so(ncclCommDestroy+0x1f) [0x2]\n")))
        self.assertEqual(cost.system_calls(trace, "libcinch.so", cost.AT_THE_END),
                         {"futex in cinch::Some::thing(int)": 1})


if __name__ == "__main__":
    ALLOCATIONS = sys.argv.pop()
    PRELOAD = sys.argv.pop()
    PROGRAM = sys.argv.pop()
    PROGRAMS = cost.Programs(PROGRAM, PRELOAD, ALLOCATIONS)
    unittest.main(verbosity=2)
