"""The page of results: only what files hold is on it, and the same files make the same bytes."""

import contextlib
import io
import json
import os
import re
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.abspath(__file__)).split(os.sep + "tests" + os.sep)[0]
sys.path.insert(0, os.path.join(ROOT, "bench"))

import results_page  # noqa: E402
from page import markdown, sections  # noqa: E402

RESULTS = os.path.join(ROOT, "bench", "results")


def row(values, time, ratio=1.0, nmse=0.0):
    return {"values": values, "time_us": time, "ratio": ratio, "nmse": nmse, "wrong": 0}


def collectives(q4_times):
    """One link: plain NCCL takes 100 us and 1000 us."""
    return {
        "date": "2026-01-01",
        "commit": "abc",
        "machine": {"cpu": "a CPU", "cores": 2, "gpus": []},
        "command": "measure",
        "ranks": 2,
        "links": [
            {
                "link": "1gbit",
                "variants": {
                    "fp32": [row(1 << 10, 100.0), row(1 << 20, 1000.0)],
                    "fp32 q4": [
                        row(values, time, 7.5, 0.01)
                        for values, time in zip((1 << 10, 1 << 20), q4_times)
                    ],
                },
            }
        ],
    }


class Page(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.results = os.path.join(self.folder, "results")

    def put(self, name, content):
        path = os.path.join(self.results, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(content if isinstance(content, str) else json.dumps(content))

    def run_main(self, *arguments):
        """(exit status, what it printed)"""
        page = os.path.join(self.folder, "page.md")
        output = io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            status = results_page.main(["--results", self.results, "--page", page, *arguments])
        return status, output.getvalue()

    def text(self):
        return results_page.page(self.results)

    def test_no_files_no_figures(self):
        os.mkdir(self.results)
        head, rest = results_page.HEAD, self.text()[len(results_page.HEAD) :]
        self.assertTrue(self.text().startswith(head))
        self.assertNotRegex(re.sub(r"1 %|h3|008\S*", "", rest), r"\d")

    def test_each_figure_stands_with_its_origin(self):
        self.put("collectives/a.json", collectives((200.0, 250.0)))
        text = self.text()
        self.assertIn("`bench/results/collectives/a.json`, a CPU, 2 cores, no GPU, commit abc, `measure`", text)
        self.assertIn("| 1 Ki | 0.1 | 0.2 (0.5x) |", text)
        self.assertIn("| 1 Mi | 1 | 0.25 (4x) |", text)
        self.assertIn("| fp32 q4 | 1 Mi values | 4 | 7.5 | 0.01 |", text)

    def test_what_is_slower_is_said(self):
        self.put("collectives/a.json", collectives((200.0, 250.0)))
        self.assertIn("slower at 1 of 2 sizes, up to 1 Ki values; at worst 0.5x, at 1 Ki", self.text())
        self.put("collectives/a.json", collectives((200.0, 2500.0)))
        self.assertIn("| fp32 q4 | never |", self.text())
        self.put("collectives/a.json", collectives((50.0, 250.0)))
        self.assertNotIn("slower at", self.text())

    def test_training_with_pytorch(self):
        row = {"step_ms": 100.0, "step_ratio": 1.0, "unit": "tokens", "per_second": 5e3}
        row |= {"wire_bytes": 4e8, "cinch_wire_bytes": None, "loss": 3.5, "seconds_to_target": None}
        cinch = row | {"step_ms": 125.0, "step_ratio": 1.25, "cinch_wire_bytes": 5e7}
        data = collectives((1.0, 1.0)) | {"hosts": 2, "network": "a link", "steps": 9}
        data |= {"target_loss": None, "variants": {"plain": row, "cinch-q8": cinch}}
        self.put("train/a.json", data)
        text = self.text()
        self.assertIn("| plain | 100 | 1 | 5000 tokens | 400000000 | - | 3.5000 | - |", text)
        self.assertIn("| cinch-q8, 2 ranks, a link | a step takes 1.25x | `bench/results/train/a.json`", text)

    def test_cells_in_which_the_choice_is_slower_are_said(self):
        def cell(n_bytes, vs_pass):
            seconds = {"pass": 1e-3, "auto": vs_pass * 1e-3}
            variants = {name: {"seconds": value, "passed": 0} for name, value in seconds.items()}
            facts = {"link": "1gbit", "hosts": 2, "ranks_per_host": 1, "type": "fp32", "bytes": n_bytes}
            return facts | {"variants": variants, "vs_pass": vs_pass, "vs_best": vs_pass}

        data = collectives((1.0, 1.0)) | {"cells": [cell(1 << 16, 0.25), cell(1 << 20, 1.0)]}
        self.put("schedule/a.json", data)
        text = self.text()
        self.assertIn("Of 2 cells, 0 took more than 1.05 of plain NCCL's time, at worst 1;", text)
        self.assertIn("| 1gbit | 2x1 fp32 | 64K | 1.00 | 0.25 | compress | 0.25 | 0.25 |", text)
        self.assertIn("| 1gbit | 2x1 fp32 | 🟦 0.25 | ⬜ 1.00 |", text)
        self.assertNotIn("of plain NCCL's time | `", text)
        data["cells"].append(cell(1 << 24, 1.5))
        self.put("schedule/a.json", data)
        self.assertIn("| auto, 2x1 fp32, 16M, 1gbit | takes 1.5x of plain NCCL's time |", self.text())

    def test_no_gpu_is_said_until_there_is_one(self):
        data = collectives((200.0, 250.0))
        self.put("collectives/a.json", data)
        self.assertIn("None of these results was taken on a GPU", self.text())
        data["machine"]["gpus"] = ["NVIDIA H200"]
        self.put("collectives/b.json", data)
        self.assertNotIn("None of these results", self.text())

    def test_what_a_gpu_did(self):
        rows = {str(1 << 16): (0.5, 0.4), str(1 << 26): (1.25, 10.0)}
        rows = {
            size: {"plain_gb_per_s": plain, "cinch_gb_per_s": cinch, "times": plain / cinch, "path": "mixed"}
            for size, (plain, cinch) in rows.items()
        }
        item = {"name": "1gbit, 2 ranks, AllReduce", "state": "pass", "note": "said", "seconds": 1.0}
        item["figures"] = {"network": "two namespaces", "fp32": rows}
        data = {"gpu": "NVIDIA H200", "driver_cuda": "13.0", "commit": "abc", "command": "check", "items": [item]}
        self.put("gpu/a.json", data)
        text = self.text()
        self.assertIn("From `bench/results/gpu/a.json`, NVIDIA H200, driver for CUDA 13.0, commit abc, `check`.", text)
        self.assertIn("| 1gbit, 2 ranks, AllReduce | pass | said |", text)
        self.assertIn("| 1gbit, 2 ranks, AllReduce | fp32 | 64M | 1.25 | 10 | 8 |", text)
        self.assertIn("| auto, fp32, 64K, 1gbit, 2 ranks, AllReduce, NVIDIA H200 | takes 1.25x of", text)
        self.assertNotIn("64M, 1gbit, 2 ranks, AllReduce, NVIDIA", text)
        self.assertNotIn("None of these results", text)

    def test_another_figure_makes_another_page(self):
        self.put("collectives/a.json", collectives((200.0, 250.0)))
        self.assertEqual(self.run_main()[0], 0)
        self.assertEqual(self.run_main("--check"), (0, ""))
        self.put("collectives/a.json", collectives((200.0, 125.0)))
        status, output = self.run_main("--check")
        self.assertEqual(status, 1)
        self.assertIn("+| 1 Mi | 1 | 0.125 (8x) |", output)

    def test_a_page_changed_by_hand_is_found(self):
        self.put("collectives/a.json", collectives((200.0, 250.0)))
        self.run_main()
        with open(os.path.join(self.folder, "page.md"), "a", encoding="utf-8") as file:
            file.write("It is 100 times faster.\n")
        status, output = self.run_main("--check")
        self.assertEqual(status, 1)
        self.assertIn("-It is 100 times faster.", output)

    def test_bad_files_are_named(self):
        for name, content, cause in (
            ("collectives/a.json", "{", "not JSON"),
            ("collectives/a.json", {}, "not what the section collectives reads"),
            ("collectives/a.json", [], "not what the section collectives reads"),
            ("magic/a.json", {}, "has no section magic"),
        ):
            self.put(name, content)
            status, output = self.run_main()
            self.assertEqual(status, 2, content)
            self.assertIn(name, output)
            self.assertIn(cause, output)
            os.remove(os.path.join(self.results, name))

    def test_every_committed_file_is_on_the_page(self):
        text = results_page.page(RESULTS)
        for name, _ in results_page.find(RESULTS, ".json"):
            self.assertIn(f"`{name}`", text)
        self.assertEqual(text, results_page.page(RESULTS))


class Markdown(unittest.TestCase):
    def test_figures_have_three_digits(self):
        shown = [markdown.figure(value) for value in (0.012345, 1234.5, 7.0, None)]
        self.assertEqual(shown, ["0.0123", "1234", "7", "-"])

    def test_counts(self):
        shown = [markdown.count(value) for value in (1023, 1024, 1 << 20, 3 << 19)]
        self.assertEqual(shown, ["1023", "1 Ki", "1 Mi", "1536 Ki"])

    def test_crossover(self):
        self.assertEqual(sections.crossover({1: 0.5, 2: 1.5, 4: 0.9, 8: 2}), 8)
        self.assertEqual(sections.crossover({1: 2, 2: 3}), 1)
        self.assertIsNone(sections.crossover({1: 2, 2: 1}))


if __name__ == "__main__":
    sys.exit(unittest.main())
