"""What counts as right and wrong (judge.py, truth.py), on runs that are made up. Needs no PyTorch."""
import unittest

import judge
import truth
from known_failures import EXACT, Known


def call(kind, time, outcome="unplaced", count=1 << 16, **others):
    return {"kind": kind, "time": time, "type": "fp32", "count": count, "ranks": 2, "outcome": outcome, **others}


def marks(*phases):
    """One after another, from 1 us on, each of a step of its own."""
    return [{"t": 1000 * (i + 1), "step": i, "phase": phase} for i, phase in enumerate(phases)]


def carried(**shares):
    whole = {}
    for what, (compressed, passed) in shares.items():
        lines = [(what, 0, 100, "compressed")] * compressed + [(what, 0, 100, "unplaced")] * passed
        whole |= truth.shares(lines)
    gradients = {what: share for what, share in whole.items() if what == "gradients"}
    return {"all": whole, "end": gradients, "known": gradients, "from_step": 3 if gradients else None}


def run(loss=1.0, found=None, parameters=("a", "a"), **facts):
    ranks = [{"loss": loss, "losses": [2 * loss, loss], "intact": True, "parameters": each, "carried": found} for each in parameters]
    return {"family": "ddp", "replicated": True, "compressible": True, "indistinct": "", "late": "",
            "errors": [], "ranks": ranks} | facts


COMPRESSED = carried(gradients=(96, 4), weights=(0, 5))
PASSED = carried(gradients=(0, 100))


class Truth(unittest.TestCase):
    def test_the_phase_is_that_of_the_latest_mark(self):
        calls = [call("AllReduce", 0.5), call("AllReduce", 1.5), call("AllReduce", 2.5)]
        found = [(phase, step) for _, step, phase in truth.with_phases(calls, marks("gradients", "weights"))]
        self.assertEqual(found, [("other", 0), ("gradients", 0), ("weights", 1)])

    def test_only_sums_are_gradients(self):
        kinds = ("AllReduce", "ReduceScatter", "AllGather", "Broadcast")
        found = [truth.carried(call(kind, 0), "gradients") for kind in kinds]
        self.assertEqual(found, ["gradients", "gradients", "weights", "other"])

    def test_small_calls_integers_and_single_ranks_do_not_count(self):
        calls = [call("AllReduce", 1), call("AllReduce", 1, count=100), call("AllReduce", 1, ranks=1),
                 call("AllReduce", 1, type="int64")]
        self.assertEqual(len(truth.classified(calls, marks("gradients"))), 1)

    def test_the_end_is_the_last_third_of_the_steps_with_gradients(self):
        lines = [("gradients", step, 1, "x") for step in range(9)] + [("weights", step, 1, "x") for step in range(30)]
        steps = {step for what, step, *_ in truth.in_the_end(lines) if what == "gradients"}
        self.assertEqual(steps, {6, 7, 8})


    def test_a_step_is_compressed_where_almost_all_of_its_bytes_are(self):
        def step(number, *outcomes):
            return [("gradients", number, 100, outcome) for outcome in outcomes] + [("weights", number, 900, "x")]

        self.assertEqual(truth.first_whole_step(step(3, "x")), None)
        lines = step(3, "x", "x") + step(5, "compressed", "x") + step(6, "compressed") + step(9, "x")
        self.assertEqual(truth.first_whole_step(lines), 3)
        self.assertEqual(truth.first_whole_step(step(0, *["compressed"] * 19, "x")), 1)

    def test_gradients_are_to_be_known_by_a_step_of_their_own(self):
        lines = [("gradients", 2 * step, 1, "x") for step in range(20)]
        self.assertEqual(len(truth.when_known(lines)), 9)
        self.assertEqual(truth.when_known(lines[:11]), [])


class Judge(unittest.TestCase):
    def judged(self, known=None, name="a_job", **runs):
        judge.KNOWN_FAILURES.pop(name, None)
        if known:
            judge.KNOWN_FAILURES[name] = known
        return judge.judge(name, runs)

    def test_a_job_that_is_right(self):
        row = self.judged(plain=run(), cinch=run(1.01, COMPRESSED), gloo=run())
        self.assertEqual((row.unexpected, row.gloo, row.compressed), ([], "equal", 0.96))

    def test_what_may_be_wrong(self):
        differs = {"replicated": False, "parameters": ("a", "b")}
        inexact = carried(gradients=(96, 4), weights=(1, 4))
        for check, runs in {
            "plain ends": {"plain": run(errors=["died"])},
            "plain is the same on all ranks": {"plain": run(parameters=("a", "b"))},
            "plain equals gloo": {"plain": run(), "gloo": run(**differs)},
            "Cinch ends": {"plain": run(), "cinch": run(errors=["died"])},
            "gradients are compressed": {"plain": run(), "cinch": run(1, PASSED)},
            "what is no gradient stays exact": {"plain": run(), "cinch": run(1, inexact)},
            "the loss is plain's": {"plain": run(), "cinch": run(1.2, COMPRESSED)},
        }.items():
            with self.subTest(check):
                row = self.judged(**runs)
                self.assertEqual([*row.wrong], [check])
                self.assertEqual(len(row.unexpected), 1)

    def test_what_need_not_be_compressed(self):
        row = self.judged(plain=run(), cinch=run(1, PASSED, compressible=False))
        self.assertEqual(row.unexpected, [])

    def test_gradients_that_cannot_be_told_apart_may_pass(self):
        row = self.judged(plain=run(indistinct="as weights"), cinch=run(1, PASSED, indistinct="as weights"))
        self.assertEqual((row.wrong, row.indistinct), ({}, "as weights"))

    def test_what_is_compressed_too_late_or_not_throughout(self):
        def judged(name="a_job", late="", **changes):
            return self.judged(name=name, plain=run(late=late), cinch=run(1, COMPRESSED | changes, late=late))

        nine_tenths = carried(gradients=(90, 10))["known"]
        self.assertEqual(judged(from_step=12).unexpected, [])
        self.assertIn("from step 13 on", judged(from_step=13).wrong[judge.COMPRESSED])
        self.assertIn("90% after step 12", judged(known=nine_tenths).wrong[judge.COMPRESSED])
        self.assertEqual(judged("with_evaluation", known=nine_tenths).unexpected, [])
        self.assertEqual(judged(from_step=30, known=nine_tenths, late="it is noise at first").unexpected, [])
        self.assertEqual(judged(from_step=None, known={}).unexpected, [], "too few steps to tell")

    def test_a_known_failure(self):
        known = Known((judge.COMPRESSED,), "it is right", outcome="unplaced")
        self.assertEqual(self.judged(known, plain=run(), cinch=run(1, PASSED)).unexpected, [])
        turned = self.judged(known, plain=run(), cinch=run(1, COMPRESSED))
        self.assertIn("take it off the list", turned.unexpected[0])
        other = self.judged(Known((judge.COMPRESSED,), "", "ambiguous"), plain=run(), cinch=run(1, PASSED))
        self.assertIn("as unplaced, not as ambiguous", other.unexpected[0])
        inexact = carried(weights=(5, 5))
        may = self.judged(Known((EXACT,), "", may=(judge.LOSS,)), plain=run(),
                          cinch=run(9, inexact, compressible=False))
        self.assertEqual(may.unexpected, [])


if __name__ == "__main__":
    unittest.main()
