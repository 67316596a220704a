"""What exact_programs.py finds wrong, on runs that are made up. Needs no PyTorch."""
import unittest

import exact_programs
import truth
from judge_test import call, carried, marks

ALONE, BESIDE = exact_programs.ALONE[0], "ema_of_weights"


def rank(losses=(2.0, 1.0), parameters="a", intact=True, found=None):
    return {"losses": [*losses], "loss": losses[-1], "parameters": parameters, "intact": intact, "carried": found}


def run(*ranks, errors=(), **sums):
    found = {"ranks": [*ranks] or [rank(), rank()], "errors": [*errors], "seconds": 1.0}
    return found | ({"beside": {"sums": 3, "compressed": 0, "checked": 3, "inexact": 0, "unpaired": 0} | sums} if sums else {})


class Alone(unittest.TestCase):
    def judged(self, cinch, **others):
        return exact_programs.judged(ALONE, {"plain": run(), "cinch": cinch, **others})

    def logged(self, found=None, **sums):
        nothing = {"all": {}, "end": {}}
        return run(*[rank(found=found or nothing)] * 2, **{"sums": 3} | sums)

    def test_the_same_is_good(self):
        result = self.judged(self.logged())
        self.assertTrue(result.is_good, result.line())

    def test_a_loss_that_is_no_number_equals_itself(self):
        nan = run(*[rank((float("nan"),))] * 2)
        self.assertEqual(exact_programs.difference(nan, nan), "")

    def test_whatever_differs_is_inexact(self):
        for cinch, why in ((run(rank(), rank((2.0, 1.0 + 1e-15))), "rank 1's losses differ from step 1 on"),
                           (run(rank((2.0,)), rank()), "rank 0's losses"),
                           (run(rank(), rank(parameters="b")), "rank 1 ends with other tensors"),
                           (run(rank(intact=False), rank()), "own check"),
                           (run(errors=["Traceback\nsome error"]), "did not end: some error"),
                           (self.logged(compressed=1), "1 were compressed and 0 are wrong"),
                           (self.logged(unpaired=2), "one rank made 2 sums"),
                           (self.logged(inexact=2), "0 were compressed and 2 are wrong"),
                           (self.logged(carried(gradients=(0, 1))), "reduces gradients")):
            result = self.judged(cinch)
            self.assertIn(why, result.inexact.get("cinch", ""))
            self.assertFalse(result.is_good)

    def test_runs_with_nothing_set_count(self):
        result = self.judged(self.logged(), **{"nothing set": run(rank(), rank(parameters="b"))})
        self.assertEqual([*result.inexact], ["nothing set"])

    def test_it_has_to_be_able_to_fail(self):
        self.assertIn("no sums", self.judged(self.logged(sums=0)).proves_nothing)
        self.assertIn("control", self.judged(self.logged(), control=self.logged()).proves_nothing)
        self.assertEqual(self.judged(self.logged(), control=run(rank((0.0,)), rank())).proves_nothing, "")
        self.assertIn("control", self.judged(self.logged(), control=run(errors=["it fell over"])).proves_nothing)


class Beside(unittest.TestCase):
    def judged(self, end, **sums):
        return exact_programs.judged(BESIDE, {"cinch": run(*[rank(found=end)] * 2, **{"sums": 3} | sums)})

    def test_gradients_are_compressed_and_the_rest_is_not(self):
        self.assertTrue(self.judged(carried(gradients=(9, 1))).is_good)
        self.assertFalse(self.judged(carried(gradients=(9, 1)), compressed=1).is_good)
        self.assertFalse(self.judged(carried(gradients=(9, 1)), inexact=1).is_good)

    def test_gradients_that_pass_are_no_error_of_a_sum(self):
        result = self.judged(carried(gradients=(1, 9)))
        self.assertFalse(result.inexact or result.is_good)


class Sums(unittest.TestCase):
    def pair(self, inputs, outputs, **facts):
        facts = {"op": "Sum", **facts}
        return [call("AllReduce", 1, input=[one], output=[two], **facts) for one, two in zip(inputs, outputs)]

    def test_sums_and_averages_of_both_types(self):
        self.assertTrue(truth.is_exact(self.pair((0.1, 0.2), (0.3, 0.3))))
        self.assertFalse(truth.is_exact(self.pair((0.1, 0.2), (0.30001, 0.30001))))
        self.assertFalse(truth.is_exact(self.pair((0.1, 0.2), (0.3, 0.30000001))))
        self.assertFalse(truth.is_exact(self.pair((0.0, 0.0), (1e-9, 1e-9))))
        self.assertTrue(truth.is_exact(self.pair((1.0, 2.0), (1.5, 1.5), op="Avg")))
        # Between 256 and 258 bf16 has nothing.
        self.assertTrue(truth.is_exact(self.pair((256.0, 1.0), (256.0, 256.0), type="bf16")))
        self.assertFalse(truth.is_exact(self.pair((256.0, 1.0), (260.0, 260.0), type="bf16")))

    def test_what_cannot_be_known(self):
        for pair in (self.pair((None, 1.0), (1.0, 1.0)), self.pair((1.0, 1.0), (1.0, 1.0), op="Other"),
                     [call("AllReduce", 1, op="Sum")] * 2, [call("ReduceScatter", 1, op="Sum")] * 2):
            self.assertIsNone(truth.is_exact(pair))

    def test_gradients_and_gathers_are_left_out(self):
        calls = [call("AllReduce", 1.5, op="Sum"), call("AllReduce", 2.5, "compressed", op="Sum"),
                 call("AllGather", 2.6, op="None")]
        ranks = [(calls, marks("gradients", "metrics"))] * 2
        self.assertEqual(truth.sums_beside(ranks),
                         {"sums": 1, "compressed": 1, "checked": 0, "inexact": 0, "unpaired": 0})

    def test_ranks_that_made_different_calls(self):
        found = truth.sums_beside([([call("AllReduce", 1.5, op="Sum")], marks("metrics")), ([], marks("metrics"))])
        self.assertEqual((found["sums"], found["unpaired"]), (0, 1))


if __name__ == "__main__":
    unittest.main()
