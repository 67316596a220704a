"""How batches are planned and run, with items that need no GPU: what hangs, crashes or fails, and what all printed."""

import contextlib
import importlib.machinery
import importlib.util
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import types
import unittest
from unittest import mock

import batches
import check_support
import running
import surface_items

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "check")


def load_check():
    loader = importlib.machinery.SourceFileLoader("gpu_check", PATH)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_check", loader))
    loader.exec_module(module)
    return module


check = load_check()
HANGS = "import time; print('about to hang', flush=True); time.sleep(600)"
CRASHES = "import os; print('about to crash', flush=True); os.abort()"
FAILS = "print('about to fail'); raise SystemExit(3)"
PASSES = "print('all is well')"


def program(text, timeout=300):
    """An item that runs a program, which has to end with 0."""
    def item(_context):
        status, output = check_support.run([sys.executable, "-c", text], timeout)
        if status != 0:
            raise check_support.Failure(f"ended with {status}: {output}")
        return check_support.Outcome("pass", output.strip())
    return item


class PlanTest(unittest.TestCase):
    ALL = {item.name for item in check.ITEMS}

    def test_batches_fit_into_their_times(self):
        for number, limit in batches.LIMITS.items():
            self.assertLessEqual(sum(stage.seconds for stage in batches.BATCHES[number]), limit)

    def test_all_that_is_planned_exists_and_only_the_smoke_is_planned_twice(self):
        names = [name for stages in batches.BATCHES.values() for stage in stages for name in stage.names]
        self.assertLessEqual(set(names), self.ALL)
        self.assertEqual({name for name in names if names.count(name) > 1}, {batches.SMOKE})
        diagnoses = {name for stage in batches.DIAGNOSIS for name in stage.names}
        self.assertLessEqual(diagnoses, self.ALL | {item.name for item in check.DIAGNOSES})

    def test_the_smoke_comes_first(self):
        for number in batches.BATCHES:
            self.assertEqual(batches.plan(number, self.ALL)[0].names, (batches.SMOKE,))

    def test_what_was_seen_is_left_out_and_named(self):
        stages = batches.plan(1, self.ALL, {"codec bandwidth", "2 ranks, q4", batches.SMOKE})
        names = [name for stage in stages for name in stage.names]
        self.assertNotIn("codec bandwidth", names)
        self.assertNotIn("2 ranks, q4", names)
        self.assertEqual(names[0], batches.SMOKE, "which is of the machine")
        self.assertIn("seen with these sources: 2 ranks, q4", "\n".join(batches.text_of(1, stages)))

    def test_nothing_is_left_where_all_was_seen(self):
        self.assertEqual(batches.plan(2, self.ALL, self.ALL), [])

    def test_seen_is_what_passed_on_such_a_gpu_with_the_same_sources(self):
        def run(capability, **row):
            row = {"name": "a", "state": "pass", "sources": "1", **row}
            return json.dumps({"capability": capability, "items": [row]})
        self.assertEqual(batches.seen([run(90)], 90, {"a": "1"}), {"a"})
        for other in (run(80), run(90, state="fail"), run(90, sources="2"), run(90, sources=None), run(90, name="b")):
            self.assertEqual(batches.seen([other], 90, {"a": "1"}), set(), other)

    def test_what_failed_later_was_not_seen(self):
        def run(date, state):
            return json.dumps({"capability": 90, "date": date, "items": [{"name": "a", "state": state, "sources": "1"}]})
        runs = [run("2026-02", "fail"), run("2026-01", "pass")]
        self.assertEqual(batches.seen(runs, 90, {"a": "1"}), set())
        self.assertEqual(batches.seen(runs + [run("2026-03", "pass")], 90, {"a": "1"}), {"a"})
        self.assertEqual(batches.seen(runs + [run("2026-03", "skip")], 90, {"a": "1"}), set())

    def test_a_changed_file_is_another_hash(self):
        with tempfile.TemporaryDirectory() as root:
            os.makedirs(os.path.join(root, "kernels", "cuda"))
            path = os.path.join(root, "kernels", "cuda", "a.cu")
            hashes = set()
            for text in ("one", "two", "one"):
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
                hashes.add(batches.hash_of(root, ("kernels",)))
            os.rename(path, path + "h")
            self.assertEqual(len(hashes | {batches.hash_of(root, ("kernels",))}), 3)

    def test_the_plan_needs_no_gpu(self):
        with mock.patch.object(sys, "argv", ["check", "--batch", "1", "--batch", "2", "--plan"]), \
             contextlib.redirect_stdout(io.StringIO()) as output:
            self.assertEqual(check.main(), 0)
        for number, limit in batches.LIMITS.items():
            planned = re.search(rf"batch {number}: (\d+) of at most {limit} s", output.getvalue())
            self.assertLessEqual(int(planned[1]), limit)


class StagesTest(unittest.TestCase):
    """Short stages in place of the batches'."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        gpu = types.SimpleNamespace(name="No GPU", capability=90, driver="13.0", slug=lambda: "no-gpu")
        self.results = check.Results(gpu, folder.name, {"built_from": "abc"})
        self.addCleanup(self.results.logs.cleanup)
        self.folder = folder.name
        self.run_ = check.Run(context=None, keep=self.results.write, logs=self.results.logs.name,
                              hash_of=lambda folders: "a hash")

    def assert_nobody_hangs(self):
        """Who was killed may take a moment to be gone."""
        for _ in range(50):
            listing = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
            if "about to hang', flush" not in listing:
                return
            time.sleep(0.1)
        self.fail("a process that hangs is still there")

    def stages(self, *stages):
        return [types.SimpleNamespace(seconds=seconds, names=names) for seconds, names in stages]

    def run_stages(self, stages, **programs):
        items = {name: batches.Item(name, item, ()) for name, item in programs.items()}
        begin = time.monotonic()
        with contextlib.redirect_stdout(io.StringIO()), mock.patch.object(check_support, "PATIENCE", 0.5):
            check.run_stages(self.run_, stages, items, begin)
        return time.monotonic() - begin

    def states(self):
        return {row["name"]: row["state"] for row in self.run_.rows}

    def kept(self):
        """The results' file, and the archive's contents in one."""
        names = sorted(os.listdir(self.folder))
        with open(os.path.join(self.folder, names[0]), encoding="utf-8") as file:
            rows = json.load(file)
        with tarfile.open(os.path.join(self.folder, names[1])) as archive:
            logs = {os.path.basename(each.name): archive.extractfile(each).read().decode()
                    for each in archive if each.isfile()}
        return rows, logs

    def test_who_hangs_crashes_or_fails_holds_up_nobody_and_all_output_is_kept(self):
        took = self.run_stages(self.stages((3, ("hangs", "crashes", "fails", "passes")), (5, ("later",))),
                               hangs=program(HANGS), crashes=program(CRASHES), fails=program(FAILS),
                               passes=program(PASSES), later=program(PASSES))
        self.assertEqual(self.states(), {"hangs": "fail", "crashes": "fail", "fails": "fail", "passes": "pass",
                                         "later": "pass"})
        self.assertLess(took, 8)
        rows, logs = self.kept()
        self.assertEqual(rows["built_from"], "abc")
        notes = {row["name"]: row["note"] for row in rows["items"]}
        self.assertIn("did not end within", notes["hangs"])
        self.assertIn("about to hang", notes["hangs"])
        self.assertIn("-6", notes["crashes"])
        for name, text in (("hangs", "about to hang"), ("crashes", "about to crash"), ("fails", "about to fail"),
                           ("passes", "all is well"), ("later", "all is well")):
            self.assertIn(text, next(log for file, log in logs.items() if file.startswith(name + ".")), name)

    def test_time_that_is_left_is_the_next_stages(self):
        self.run_stages(self.stages((4, ("quick",)), (2, ("slow",))), quick=program(PASSES),
                        slow=program("import time; time.sleep(3)"))
        self.assertEqual(self.states(), {"quick": "pass", "slow": "pass"})

    def test_what_has_no_time_left_does_not_begin(self):
        self.run_stages(self.stages((2, ("hangs",)), (0, ("late",))), hangs=program(HANGS), late=program(PASSES))
        self.assertEqual(self.states(), {"hangs": "fail", "late": "skip"})

    def test_what_a_program_has_started_ends_with_it(self):
        starts = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {HANGS!r}]); time.sleep(600)"
        self.run_stages(self.stages((3, ("starts",))), starts=program(starts))
        self.assert_nobody_hangs()

    def test_each_batch_has_a_smoke_of_its_own(self):
        self.run_stages(self.stages((5, (batches.SMOKE,)), (5, ("one",))),
                        **{batches.SMOKE: program(PASSES), "one": program(PASSES)})
        self.run_stages(self.stages((5, (batches.SMOKE,)), (5, ("two",))),
                        **{batches.SMOKE: program(FAILS), "two": program(PASSES)})
        self.assertEqual(self.states()["two"], "skip")
        _, logs = self.kept()
        texts = [log for name, log in logs.items() if name.startswith("codec-smoke.")]
        self.assertEqual(sorted("all is well" in text for text in texts), [False, True], "both are kept")

    def test_what_ranks_have_started_ends_with_them(self):
        starts = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {HANGS!r}]); print('done')"

        def ranks(_context):
            check_support.run_ranks([sys.executable, "-c", starts], 2, deadline=20)
            return check_support.Outcome("pass")
        self.run_stages(self.stages((20, ("ranks",))), ranks=ranks)
        self.assert_nobody_hangs()

    def test_the_smokes_failure_turns_the_batch_to_diagnosis(self):
        ran = {name: program(PASSES) for stage in batches.DIAGNOSIS for name in stage.names}
        self.run_stages(self.stages((5, (batches.SMOKE,)), (5, ("speed",)), (5, ("codec equals the scalar core",))),
                        **{batches.SMOKE: program(FAILS), "speed": program(PASSES), **ran})
        states = self.states()
        self.assertEqual(states[batches.SMOKE], "fail")
        self.assertEqual(states["speed"], "skip")
        self.assertEqual({states[name] for name in ran}, {"pass"})
        self.assertEqual(len(self.run_.rows), len(states), "each once")


class SurfaceTest(unittest.TestCase):
    """What the cases of the calling surface amount to."""

    def test_a_case_that_fails_fails_all(self):
        with self.assertRaisesRegex(check_support.Failure, "1 of 3: b: rank 0 hung"):
            surface_items.judge({"a": ("pass", ""), "b": ("fail", "rank 0 hung"), "c": ("late", "")})

    def test_what_had_no_time_is_no_pass(self):
        with self.assertRaisesRegex(check_support.Skip, "1 of 2 cases passed, 1 had no time left"):
            surface_items.judge({"a": ("pass", ""), "b": ("late", "its time was over")})

    def test_what_fails_without_cinch_too_says_nothing(self):
        self.assertEqual(surface_items.judge({"a": ("pass", ""), "b": ("skip", "too old")}).state, "pass")
        with self.assertRaises(check_support.Skip):
            surface_items.judge({"b": ("skip", "too old")})

    def test_a_hang_is_a_failure_where_there_was_no_time_to_look_without_cinch(self):
        cases = surface_items.Cases.__new__(surface_items.Cases)
        cases.preload, launched = "libcinch.so", []

        def launch(_case, _ranks, preload):
            launched.append(preload)
            return "rank 0 hung"
        cases.launch = launch
        with running.item(running.Running("surface", time.monotonic() + surface_items.CASE_SECONDS - 1)):
            self.assertEqual(cases.check("a", 2)[0], "fail")
        self.assertEqual(launched, ["libcinch.so"])
        with running.item(running.Running("surface", time.monotonic() + surface_items.CASE_SECONDS + 5)):
            self.assertEqual(cases.check("a", 2)[0], "skip")


class RunningTest(unittest.TestCase):
    def test_helpers_of_an_item_have_its_time_and_its_log(self):
        with tempfile.TemporaryDirectory() as logs:
            with running.item(running.Running("an item", time.monotonic() + 30, logs)):
                check_support.at_once(lambda text: check_support.run([sys.executable, "-c", text], 60), [PASSES, PASSES])
            self.assertEqual(len(os.listdir(logs)), 2)
            self.assertTrue(all(name.startswith("an-item.") for name in os.listdir(logs)))

    def test_outside_of_items_there_is_no_limit(self):
        self.assertEqual(running.current().left(1000), 1000)


if __name__ == "__main__":
    unittest.main(verbosity=2)
