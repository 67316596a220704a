"""What the page of results says of each sort of result file: a function for each folder of
bench/results. They take the files in the order of their names, as (path, content), and return text.
"""

import itertools
import statistics

from feedback import summary
from page.markdown import chart, count, figure, table, yes
from schedule import heat

# Training that is further behind than this is behind: percent of the loss.
_BEHIND = 1.0
# Calls that take longer than this beside plain NCCL's are slower: the rest is noise.
_SLOWER = 1.05


def origin(path, data):
    """Where figures come from."""
    command = data.get("command") or "; ".join(
        run["command"] for run in data.get("runs", []) if "command" in run
    )
    parts = [f"`{path}`", machine_text(data.get("machine", "machine not recorded"))]
    parts.append(f"commit {data.get('commit', 'not recorded')}")
    parts.append(f"`{command}`" if command else "command not recorded")
    return "From " + ", ".join(parts) + "."


def machine_text(machine):
    if isinstance(machine, str):
        return machine
    gpus = ", ".join(machine["gpus"]) or "no GPU"
    nccl = f", {machine['nccl']}" if "nccl" in machine else ""
    return f"{machine['cpu']}, {machine['cores']} cores, {gpus}{nccl}"


# Collectives.


def plain_of(variant):
    """The plain variant that a user of it comes from."""
    return variant.split()[0]


def by_values(rows):
    return {row["values"]: row for row in rows}


def gains(link, variant):
    """{values: time of plain NCCL over that of a variant}"""
    plain = by_values(link["variants"][plain_of(variant)])
    return {
        row["values"]: plain[row["values"]]["time_us"] / row["time_us"]
        for row in link["variants"][variant]
    }


def crossover(gain):
    """The number of values from which on a variant is faster than plain NCCL; None: never."""
    last_slower = max((n for n, ratio in gain.items() if ratio <= 1), default=0)
    return min((n for n in gain if n > last_slower), default=None)


def compressed_variants(link):
    return [name for name in link["variants"] if " " in name]


def times_table(link):
    names = list(link["variants"])
    rows = []
    for values in by_values(link["variants"][names[0]]):
        cells = []
        for name in names:
            time = by_values(link["variants"][name])[values]["time_us"] / 1000
            gain = "" if name == plain_of(name) else f" ({figure(gains(link, name)[values])}x)"
            cells.append(f"{figure(time)}{gain}")
        rows.append([count(values), *cells])
    return table(["values", *names], rows)


def crossover_table(link):
    rows = []
    for name in compressed_variants(link):
        last = link["variants"][name][-1]
        start = crossover(gains(link, name))
        where = "never" if start is None else f"{count(start)} values"
        rows.append(
            [name, where, figure(gains(link, name)[last["values"]]), figure(last["ratio"])]
            + [figure(last["nmse"])]
        )
    head = ["variant", "faster from", "gain at the largest", "ratio of bytes", "NMSE"]
    return table(head, rows)


def speed_chart(link):
    names = [name for name in ("fp32", "bf16", "fp32 q4", "bf16 q4") if name in link["variants"]]
    curves = {
        name: [row["values"] / row["time_us"] for row in link["variants"][name]] for name in names
    }
    labels = [f'"{count(row["values"])}"' for row in link["variants"][names[0]]]
    title = f"AllReduce over {link['link']}"
    return chart(title, "values", labels, "million values per second", curves)


def collectives(files):
    text = [
        "## AllReduce over slow links",
        "The same number of values, added up in fp32 and in bf16 by plain NCCL and by Cinch. Times are "
        "milliseconds out of place, medians of rounds in turns; in brackets how much faster than plain "
        "NCCL in the same type.",
    ]
    for path, data in files:
        text.append(origin(path, data))
        for link in data["links"]:
            text += [f"### {data['ranks']} ranks, {link['link']}", times_table(link)]
            text += [crossover_table(link), speed_chart(link)]
    return text


# What Cinch chooses by itself.


def schedule(files):
    text = [
        "## Never slower: what Cinch chooses, beside plain NCCL and fixed codecs",
        "AllReduce over and over, by plain NCCL (`pass`), by Cinch's own choice (`auto`) and by fixed "
        "codecs, in turns; milliseconds, medians of rounds. `auto / best` is beside the fastest of all "
        "others, which is not always what has the error of `auto`. A job is hosts x ranks. Cells where "
        "`auto` looked slower than 1.05 of `pass`, or 1.1 of the best, got up to three more rounds. "
        "All rounds count, but a ratio near a limit had more chances to come out below it.",
    ]
    for path, data in files:
        cells = data["cells"]
        slower = sum(cell["vs_pass"] > _SLOWER for cell in cells)
        text += [
            origin(path, data),
            f"Of {len(cells)} cells, {slower} took more than {figure(_SLOWER)} of plain NCCL's time, at "
            f"worst {figure(max(cell['vs_pass'] for cell in cells))}; of the fastest's, at worst "
            f"{figure(max(cell['vs_best'] for cell in cells))}.",
            heat.maps(cells).strip(),
            heat.table(cells).strip(),
        ]
    return text


# Training.


def training_rows(runs):
    for run in runs:
        for task, losses in run.get("tasks", {}).items():
            codec = next(name[:-5] for name in losses if name.endswith("_bits"))
            percent = 100 * (losses[codec] / losses["fp32"] - 1)
            yield [task, codec, losses["fp32"], losses[codec], f"{percent:+.2f} %"] + [
                figure(losses[f"{codec}_bits"]),
                f"{100 * losses[f'{codec}_share']:.0f} %",
            ]


def training(files):
    text = [
        "## Loss of small training jobs",
        "Held-out loss at the end, means over seeds, of jobs that reduce in fp32 with plain NCCL and the "
        "same jobs under Cinch. Bits are those of a value on the wire, metadata included; the share is "
        "that of the gradients' bytes that were compressed.",
    ]
    for path, data in files:
        head = ["task", "codec", "fp32", "compressed", "difference", "bits", "share"]
        rows = list(training_rows(data["runs"]))
        text += [origin(path, data), *([table(head, rows)] if rows else [])]
        text += [loss_table(run) for run in data["runs"] if "losses" in run]
    return text


def loss_table(run):
    plain = statistics.fmean(run["losses"]["fp32"])
    rows = []
    for name, seeds in run["losses"].items():
        mean = statistics.fmean(seeds)
        rows.append([f"`{name}`", f"{mean:.4f}", f"{100 * (mean / plain - 1):+.2f} %"])
    words = run["setting"][0].upper() + run["setting"][1:]
    return f"{words}:\n\n" + table(["setting", "loss", "difference"], rows)


def adaptive(files):
    text = ["## Adaptive precision (`CINCH_CODEC=auto`)"]
    for path, data in files:
        figures = data["figures"]
        runs = [{"tasks": figures["training"]}]
        share = figures["bytes_vs_q4_at_equal_error"]
        text += [
            origin(path, data),
            f"Calls that were taken for those of another buffer: {figures['wrong_slots']}. Bytes beside q4 "
            f"at equal error: {figure(share)}. Precision of 500 layers is solved in "
            f"{figure(figures['solve_ms_500'])} ms.",
            table(
                ["task", "codec", "fp32", "compressed", "difference", "bits", "share"],
                list(training_rows(runs)),
            ),
            table(
                ["recorded job", "period known from step", "calls with a slot"],
                [
                    [name, figure(trace["locked_step"]), f"{100 * trace['right']:.1f} %"]
                    for name, trace in figures["traces"].items()
                ],
            ),
        ]
    return text


def train(files):
    text = [
        "## Training with PyTorch",
        "The same job with and without Cinch, and with PyTorch's own hooks, in turns on the same links "
        "([how](training-benches.md)). Bytes are those of a step.",
    ]
    head = ["variant", "step, ms", "of the first's", "per second", "bytes on the link"]
    head += ["Cinch's part", "loss", "seconds to the target"]
    for path, data in files:
        rows = [
            [name, figure(row["step_ms"]), figure(row["step_ratio"])]
            + [f"{figure(row['per_second'])} {row['unit']}", figure(row["wire_bytes"])]
            + [figure(row["cinch_wire_bytes"]), f"{row['loss']:.4f}"]
            + [figure(row["seconds_to_target"])]
            for name, row in data["variants"].items()
        ]
        setting = f"{data['ranks']} ranks, {data['hosts']} hosts, {data['network']}; "
        setting += f"{data['steps']} steps; target loss {figure(data['target_loss'])}."
        text += [origin(path, data), setting, table(head, rows)]
    return text


# On a GPU.


def allreduces(data):
    """(check, type, bytes, figures) of each size over each link."""
    for item in data["items"]:
        if not item["name"].endswith("AllReduce"):
            continue
        for kind, rows in item["figures"].items():
            if kind != "network":
                yield from ((item["name"], kind, int(size), row) for size, row in rows.items())


def gpu(files):
    text = [
        "## On a GPU",
        "What `tests/gpu/check` saw of real NCCL, PyTorch and JAX, all ranks on one GPU, each a host of its "
        "own to NCCL. Effective bandwidth is GB/s in place; what Cinch does is its own choice.",
    ]
    for path, data in files:
        checks = [[item["name"], item["state"], item["note"]] for item in data["items"]]
        rows = [
            [name, kind, heat.size_text(size)]
            + [figure(row["plain_gb_per_s"]), figure(row["cinch_gb_per_s"]), figure(1 / row["times"])]
            for name, kind, size, row in allreduces(data)
        ]
        head = ["link", "type", "bytes", "plain NCCL", "Cinch", "gain"]
        text += [
            f"From `{path}`, {data['gpu']}, driver for CUDA {data['driver_cuda']}, commit {data['commit']}, "
            f"`{data['command']}`.",
            table(["check", "outcome", "what it says"], checks),
            *([table(head, rows)] if rows else []),
        ]
    return text


# Transports, codecs, fuzzing.


def socket(files):
    names = {
        "equal": "four equal links",
        "unequal": "400/400/400/100 Mbit/s",
        "mixed": "500/400/300/200 Mbit/s",
        "sick": "400/400/400/5 Mbit/s",
        "cut": "one of four links cut: the three that are left",
        "static_unequal": "static division, 400/400/400/100",
        "static_sick": "static division, 400/400/400/5",
        "vs_iperf3": "of iperf3, links as fast as the machine",
        "vs_iperf3_1m": "of iperf3 with blocks of 1 MiB",
        "latency_ratio": "latency of 8 bytes, of built-in sockets' (less is better)",
    }
    text = ["## The net plugin over sockets", "Goodput as a part of the links' rates, and ratios."]
    for path, data in files:
        figures = data["figures"]
        passed = sum(result == "pass" for result in figures["conformance"].values())
        text += [
            origin(path, data),
            table(["", "part"], [[text, figure(figures[key])] for key, text in names.items()]),
            f"Seeds of chaos: {figures['chaos_runs']}, of which failed: {figures['chaos_failures']}. Table "
            f"versions that pass conformance: {passed} of {len(figures['conformance'])}.",
        ]
    return text


def verbs(files):
    text = [
        "## The net plugin over verbs",
        "On Soft-RoCE of Debian's kernel, in an emulated machine of two processors: no figure of a card. "
        "Goodput is a part of ib_write_bw's with as many queue pairs, in the same boot; as polling "
        "without a pause, where both sides take the processors that the kernel moves the bytes with.",
    ]
    for path, data in files:
        figures = data["figures"]
        rows = [
            [pairs, figure(figures["goodput"][pairs]), figure(figures["goodput_polling"][pairs])]
            for pairs in figures["goodput"]
        ]
        passed = sum(result == "pass" for result in figures["conformance"].values())
        text += [
            origin(path, data),
            table(["queue pairs", "part of ib_write_bw", "polling"], rows),
            f"Failures in the middle of traffic: {figures['fault_runs']}, of them "
            f"{figures['fault_runs_in_guest']} in the machine; wrong, hanging or not finished: "
            f"{figures['fault_failures']}. Table versions that pass conformance: {passed} of "
            f"{len(figures['conformance'])}. Training ends alike over verbs and sockets: "
            f"{yes(figures['train_ranks_identical'])}.",
        ]
    return text


def codec(files):
    text = ["## Codecs on one core of the host"]
    for path, data in files:
        figures = data["figures"]
        speeds = [[name, figure(value)] for name, value in figures["host_gbps"].items()]
        errors = [
            [name, *(figure(errors[key]) for key in ("gauss", "laplace", "t3"))]
            for name, errors in figures["nmse"].items()
        ]
        text += [
            origin(path, data),
            table(["GB/s of fp32", "speed"], speeds),
            table(["squared error over squared signal, the worst of five scales", "Gauss", "Laplace", "t(3)"], errors),
        ]
    return text


def fuzz(files):
    rows = []
    for path, data in files:
        inputs = data.get("inputs") or data.get("programs")
        inputs = inputs or sum(target["inputs"] for target in data["targets"].values())
        failures = data.get("failures", 0) + sum(
            target["failures"] for target in data.get("targets", {}).values()
        )
        words = [f"`{path}`", data["date"], f"{inputs:,}", failures, machine_text(data["machine"])]
        rows.append([*words, f"commit {data['commit']}", f"`{data['command'].replace('|', '/')}`"])
    head = ["file", "date", "inputs", "failures", "machine", "commit", "command"]
    return ["## Fuzzing", table(head, rows)]


# What runs with what.


def bindings(files):
    text = ["## Programs that reach Cinch", "What the loader binds, without a GPU."]
    for path, data in files:
        frameworks = [name for name in ("torch", "jax") if name in data]
        rows = [
            [f"{name} {data[name][name]}", data[name]["nccl"], len(data[name]["to_cinch"])]
            + [len(data[name]["to_nccl"]), len(data[name]["problems"])]
            for name in frameworks
        ]
        versions = [entry["version"] for entry in data["nccl"]]
        problems = sum(len(entry["problems"]) for entry in data["nccl"])
        head = ["framework", "NCCL", "functions bound to Cinch", "to NCCL", "problems"]
        text += [
            origin(path, data),
            table(head, rows),
            f"NCCL's own packages: {', '.join(versions)}; problems: {problems}.",
        ]
    return text


def frameworks(files):
    rows = []
    for path, data in files:
        summary = data["summary"]
        words = [f"`{path}`", data["date"], data["torch"], summary["jobs"], summary["gloo_equal"]]
        rows.append([*words, summary["known_failures"], f"commit {data['commit']}", f"`{data['command']}`"])
    head = ["file", "date", "PyTorch", "jobs", "equal to gloo", "known failures", "commit", "command"]
    return ["## Frameworks", "What Cinch does with each framework's calls: [frameworks](frameworks.md).", table(head, rows)]


def race(files):
    text = [
        "## Training with PyTorch over slow links",
        "A language model of 3 million parameters on real text, two hosts, fp32. Held out: the loss after as many steps "
        "for all. Cinch has nothing set, but where all-gathers are named: CINCH_ALLGATHER=y sends weights at 8 bits.",
    ]
    for path, data in files:
        text.append(origin(path, data))
        for link, entries in data["links"].items():
            rows = [
                [RACERS[name], f"{found['step_ms']:.0f} ms", f"{found['heldout']:.4f}"]
                + [f"{entries[raced_with(name)]['step_ms'] / found['step_ms']:.2f}x" if raced_with(name) in entries else "-"]
                for name, found in entries.items()
            ]
            text += [f"**{link}**", table(["entry", "time of a step", "held-out loss", "speed"], rows)]
    return text


RACERS = {
    "plain": "DDP, plain",
    "bf16": "DDP, bf16 hook",
    "powersgd1": "DDP, PowerSGD of rank 1",
    "powersgd4": "DDP, PowerSGD of rank 4",
    "cinch": "DDP, Cinch",
    "fsdp2": "FSDP2, plain",
    "fsdp2_cinch": "FSDP2, Cinch",
    "fsdp2_cinch_allgather": "FSDP2, Cinch, all-gathers too",
    "zero2": "DeepSpeed ZeRO-2, plain",
    "zero2_cinch": "DeepSpeed ZeRO-2, Cinch",
}


def raced_with(name):
    """What an entry's speed is a multiple of: the same wrapper without Cinch."""
    wrapper = name.split("_")[0]
    return wrapper if wrapper in ("fsdp2", "zero2") else "plain"


def losses(files):
    text = ["## Losses of the frameworks' jobs"]
    for path, data in files:
        rows = [
            [result["job"] + (f", weights gathered {result['setting']}" if result["setting"] else "")]
            + [f"{statistics.fmean(result[name]):.4f}" if None not in result[name] else "-" for name in ("plain", "cinch")]
            + [f"{100 * result[name]:+.2f} %" if result[name] is not None else "-" for name in ("above", "above_in_all")]
            for result in data["results"]
        ]
        steps = f"After {data['steps']} steps, means of {data['seeds']} seeds."
        text += [origin(path, data), steps, table(["job", "plain", "Cinch", "difference", "over all steps"], rows)]
    return text


def nccl_tests(files):
    text = ["## The patches for nccl-tests"]
    for path, data in files:
        rows = [
            [release["release"], f"`{release['commit'][:12]}`"]
            + [yes(release[key]) for key in ("applied", "compiled", "ran_on_gpu")]
            for release in data["releases"]
        ]
        head = ["release", "commit", "applied", "compiled", "ran on a GPU"]
        versions = f"NCCL {data['nccl']}, CUDA {data['cuda']}."
        text += [origin(path, data), versions, table(head, rows)]
    return text


# Where Cinch does not help.


def slower_jobs(results):
    """Cinch's variants of a training job whose step took longer than that of the first variant."""
    for path, data in results.get("train", []):
        for name, row in data["variants"].items():
            if name.startswith("cinch") and row["step_ratio"] > 1:
                steps = f"{data['ranks']} ranks, {data['network']}"
                yield [f"{name}, {steps}", f"a step takes {figure(row['step_ratio'])}x", f"`{path}`"]


def slower_calls(results):
    """Sizes at which a compressed AllReduce took longer than the plain one."""
    for path, data in results.get("collectives", []):
        for link, variant in itertools.chain.from_iterable(
            [(link, name) for name in compressed_variants(link)] for link in data["links"]
        ):
            slow = {n: ratio for n, ratio in gains(link, variant).items() if ratio <= 1}
            if slow:
                worst = min(slow, key=slow.get)
                yield [
                    f"{variant}, {data['ranks']} ranks, {link['link']}",
                    f"slower at {len(slow)} of {len(link['variants'][variant])} sizes, up to "
                    f"{count(max(slow))} values; at worst {figure(slow[worst])}x, at {count(worst)}",
                    f"`{path}`",
                ]


def slower_choices(results):
    """Calls for which Cinch's own choice took longer than plain NCCL."""
    for path, data in results.get("schedule", []):
        for cell in data["cells"]:
            if cell["vs_pass"] > _SLOWER:
                yield [
                    f"auto, {heat.job_text(cell)}, {heat.size_text(cell['bytes'])}, {cell['link']}",
                    f"takes {figure(cell['vs_pass'])}x of plain NCCL's time",
                    f"`{path}`",
                ]


def slower_on_gpu(results):
    """Sizes at which an AllReduce on a GPU took longer than plain NCCL's."""
    for path, data in results.get("gpu", []):
        for name, kind, size, row in allreduces(data):
            if row["times"] > _SLOWER:
                where = f"auto, {kind}, {heat.size_text(size)}, {name}, {data['gpu']}"
                yield [where, f"takes {figure(row['times'])}x of plain NCCL's time", f"`{path}`"]


def losing_jobs(studies):
    """Jobs whose loss is behind that of plain NCCL with the feedback that Cinch chooses itself."""
    for path, rows in studies:
        study = summary.Study(rows)
        for (setting, coding), cell in study.cells.items():
            percents = list(cell.get(summary.automatic(coding[0]), {}).values())
            if percents and statistics.fmean(percents) > _BEHIND:
                yield [
                    f"{summary.describe_coding(coding)}: {summary.describe(setting)}",
                    f"loss {statistics.fmean(percents):+.2f} % ({len(percents)} seeds)",
                    f"`{path}`",
                ]


def no_help(results, studies):
    rows = [*slower_calls(results), *slower_choices(results), *slower_jobs(results)]
    rows += [*slower_on_gpu(results), *losing_jobs(studies)]
    text = [
        "## Where Cinch does not help",
        "Settings of the files above in which it was slower than plain NCCL, and of the study of error "
        f"feedback ([decision 008](decisions/008-error-feedback.md)) in which the loss was more than "
        f"{figure(_BEHIND)} % behind. Codecs that are named there are those that a user has to ask for; "
        "`auto` gives each layer its own precision, with no more error in all than h3.",
        table(["setting, or codec: task and steps", "what happens", "file"], rows),
    ]
    if not any(has_gpu(data) for files in results.values() for _, data in files):
        text.append("**None of these results was taken on a GPU.**")
    return text


def has_gpu(data):
    machine = data.get("machine")
    return "gpu" in data or isinstance(machine, dict) and bool(machine.get("gpus"))


SECTIONS = {
    "collectives": collectives,
    "schedule": schedule,
    "train": train,
    "training": training,
    "adaptive": adaptive,
    "gpu": gpu,
    "codec": codec,
    "socket": socket,
    "verbs": verbs,
    "nccl_tests": nccl_tests,
    "frameworks": frameworks,
    "race": race,
    "losses": losses,
    "bindings": bindings,
    "fuzz": fuzz,
}
