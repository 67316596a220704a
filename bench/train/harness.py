"""What the training scripts share: their flags, how ranks meet, how a model is wrapped, the loop,
and the lines that rank 0 prints. A script gives a Task; everything else is PyTorch's own."""

import argparse
import datetime
import gc
import json
import math
import os
import random
import statistics
import sys
import time
from dataclasses import dataclass

try:
    import torch
except ModuleNotFoundError as missing:
    if missing.name != "torch":
        raise
    sys.exit(f"PyTorch is not installed for {sys.executable}: pip install torch")
import torch.distributed as dist

# Steps at the start that are not steady: connections open, memory and algorithms are chosen.
WARMUP_STEPS = 20
LAUNCH_VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


class Task:
    """A model with its data. `unit` is what is counted per second, `units` how many of them a rank
    has in one step, `rate` the learning rate at its highest."""

    unit = ""
    units = 0
    rate = 0.0

    def model(self):
        """With the same values on every rank."""
        raise NotImplementedError

    def blocks(self, model):
        """The parts that FSDP shards on their own."""
        raise NotImplementedError

    def optimiser(self, parameters):
        raise NotImplementedError

    def batch(self, step):
        """(inputs, targets) of this rank."""
        raise NotImplementedError

    def held_out(self):
        """Batches that are never trained on, the same on all ranks."""
        raise NotImplementedError

    def loss(self, outputs, targets):
        raise NotImplementedError


@dataclass(frozen=True)
class Place:
    """Who this process is, and where it computes."""

    rank: int
    ranks: int
    device: torch.device


def make_parser(description, batch):
    """The flags of every script. A script may add its own."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--wrap", choices=("ddp", "fsdp2"), default="ddp")
    add("--hook", choices=("none", "bf16", "powersgd"), default="none",
        help="PyTorch's own compression of gradients; with fsdp2, bf16 is its reduce_dtype")
    add("--powersgd-rank", type=positive, default=4, metavar="N")
    add("--steps", type=positive, default=200)
    add("--batch", type=positive, default=batch, help=f"of each rank (default {batch})")
    add("--seed", type=int, default=1)
    add("--device", choices=("cuda", "cpu"), default="cuda",
        help="cpu: through gloo, to try a script where there is no GPU")
    add("--size", choices=("full", "tiny"), default="full")
    add("--precision", choices=("fp32", "bf16"),
        help="of the matrix products; parameters and gradients are fp32 (default: bf16 on a GPU)")
    add("--every", type=positive, default=10, metavar="N", help="steps from line to line")
    add("--checkpoints", type=positive, default=10, metavar="N",
        help="how often the held-out loss is taken, after the one at the start")
    add("--interface", help="network interface whose sent bytes are counted")
    add("--timeout", type=positive, default=300, metavar="SECONDS",
        help="for the ranks to meet, and for every collective (default 300)")
    return parser


def positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("has to be at least 1")
    return number


def check_options(parser, options):
    if options.wrap == "fsdp2" and options.hook == "powersgd":
        parser.error("--hook powersgd: a hook of DDP, which --wrap fsdp2 does not have")
    if options.interface and sent_bytes(options.interface) is None:
        parser.error(f"--interface: there is no {options.interface}")
    if options.precision is None:
        options.precision = "bf16" if options.device == "cuda" else "fp32"


def join(options):
    """Meets the other ranks, as torchrun's variables say, or ends with an error in time."""
    if missing := [name for name in LAUNCH_VARIABLES if name not in os.environ]:
        sys.exit(
            f"{', '.join(missing)} not set: start this script with torchrun, for instance\n"
            f"  torchrun --nproc-per-node 2 {sys.argv[0]}"
        )
    device = choose_device(options.device)
    dist.init_process_group(
        "nccl" if device.type == "cuda" else "gloo",
        timeout=datetime.timedelta(seconds=options.timeout),
    )
    return Place(dist.get_rank(), dist.get_world_size(), device)


def choose_device(kind):
    if kind == "cpu":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        sys.exit("no GPU that PyTorch can use; --device cpu tries the script without one")
    # Ranks may share a GPU where NCCL takes them for ranks of different hosts.
    local = int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count()
    device = torch.device("cuda", local)
    torch.cuda.set_device(device)
    torch.set_float32_matmul_precision("high")
    return device


def wrap(model, blocks, options, place):
    if options.wrap == "fsdp2":
        return shard(model, blocks, options.hook)
    on_gpu = place.device.type == "cuda"
    model = torch.nn.parallel.DistributedDataParallel(
        model, device_ids=[place.device.index] if on_gpu else None
    )
    add_hook(model, options)
    return model


def shard(model, blocks, hook):
    try:
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    except ImportError:
        sys.exit(f"--wrap fsdp2 needs PyTorch 2.6 or later, this is {torch.__version__}")
    policy = MixedPrecisionPolicy(reduce_dtype=torch.bfloat16 if hook == "bf16" else None)
    for block in [*blocks, model]:
        fully_shard(block, mp_policy=policy)
    return model


def add_hook(model, options):
    if options.hook == "bf16":
        from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

        model.register_comm_hook(None, default_hooks.bf16_compress_hook)
    if options.hook == "powersgd":
        add_powersgd(model, options)


def add_powersgd(model, options):
    try:
        from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
    except ModuleNotFoundError as missing:
        sys.exit(f"--hook powersgd needs {missing.name}: pip install {missing.name}")
    # DDP changes its buckets after the first step, and the hook must not start before that.
    start = min(1000, max(2, options.steps // 10))
    state = powerSGD_hook.PowerSGDState(
        None, matrix_approximation_rank=options.powersgd_rank, start_powerSGD_iter=start
    )
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)


def generator(device, *names):
    """Random numbers that depend on the names alone."""
    # CPU generators take 32 bits of a seed and no more.
    seed = random.Random(" ".join(map(str, names))).getrandbits(31)
    return torch.Generator(device).manual_seed(seed)


def rate_at(step, steps):
    """Share of the highest learning rate: 5 % of the steps up, then half a cosine down."""
    warmup = max(1, steps // 20)
    if step < warmup:
        return (step + 1) / warmup
    return 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup)))


def checkpoint_steps(steps, count):
    """After how many steps the held-out loss is taken: at both ends, and evenly between."""
    return {round(steps * i / count) for i in range(count + 1)}


def steady_from(steps):
    return min(WARMUP_STEPS, steps // 2)


def sent_bytes(interface):
    """What it has sent so far; None where there is none of the name."""
    with open("/proc/self/net/dev") as file:
        for line in file:
            name, _, counters = line.partition(":")
            if name.strip() == interface:
                return int(counters.split()[8])
    return None


class Meter:
    """Times the steps, counts what they sent, and prints on rank 0."""

    def __init__(self, options, place):
        self._options, self._place = options, place
        self._seconds, self._sent, self._checkpoints = [], [], []

    def __enter__(self):
        self._sent_before = self._count()
        self._started = time.perf_counter()
        return self

    def __exit__(self, *_):
        if self._place.device.type == "cuda":
            torch.cuda.synchronize()
        self._seconds.append(time.perf_counter() - self._started)
        self._sent.append(self._count() - self._sent_before)

    def note(self, step, loss):
        if step == 1 or step % self._options.every == 0:
            self._print({"step": step, "loss": loss.item(), "seconds": self._seconds[-1]})

    def checkpoint(self, step, loss):
        seconds = round(sum(self._seconds), 4)
        self._checkpoints.append({"step": step, "loss": loss, "seconds": seconds})

    def finish(self, unit, units, facts):
        first = steady_from(len(self._seconds))
        step_seconds = statistics.median(self._seconds[first:])
        counted = self._options.interface is not None
        self._print(
            {
                "final": True,
                "steps": len(self._seconds),
                "checkpoints": self._checkpoints,
                "step_seconds": step_seconds,
                f"{unit}_per_second": units * self._place.ranks / step_seconds,
                "wire_bytes_per_step": statistics.median(self._sent[first:]) if counted else None,
                "ranks": self._place.ranks,
                "torch": torch.__version__,
            }
            | facts
        )

    def _count(self):
        return sent_bytes(self._options.interface) if self._options.interface else 0

    def _print(self, record):
        if self._place.rank == 0:
            print(json.dumps(record), flush=True)


class Trainer:
    """One rank's training, from the first step to the last."""

    def __init__(self, task, options, place):
        self._task, self._options, self._place = task, options, place
        model = task.model().to(place.device)
        self._parameters = sum(parameter.numel() for parameter in model.parameters())
        self._model = wrap(model, task.blocks(model), options, place)
        self._optimiser = task.optimiser(self._model.parameters())
        self._meter = Meter(options, place)

    def run(self):
        steps = self._options.steps
        checkpoints = checkpoint_steps(steps, self._options.checkpoints)
        self._meter.checkpoint(0, self._held_out_loss())
        for step in range(1, steps + 1):
            with self._meter:
                loss = self._step(step)
            self._meter.note(step, loss)
            if step in checkpoints:
                self._meter.checkpoint(step, self._held_out_loss())
        facts = {"parameters": self._parameters, "ranks_identical": self._ranks_are_identical()}
        self._meter.finish(self._task.unit, self._task.units, facts)

    def _step(self, step):
        inputs, targets = self._task.batch(step)
        for group in self._optimiser.param_groups:
            group["lr"] = self._task.rate * rate_at(step - 1, self._options.steps)
        loss = self._loss(self._model, inputs, targets)
        self._optimiser.zero_grad()
        loss.backward()
        self._optimiser.step()
        return loss.detach()

    def _loss(self, model, inputs, targets):
        kind, mixed = self._place.device.type, self._options.precision == "bf16"
        with torch.autocast(kind, torch.bfloat16, enabled=mixed):
            outputs = model(inputs)
        return self._task.loss(outputs.float(), targets)

    def _held_out_loss(self):
        """Taken by every rank on the same data, so that it takes no collective of its own."""
        # DDP's own forward sends buffers; the module in it sends nothing.
        model = getattr(self._model, "module", self._model)
        model.eval()
        with torch.no_grad():
            losses = [self._loss(model, *batch).item() for batch in self._task.held_out()]
        model.train()
        return statistics.mean(losses)

    def _ranks_are_identical(self):
        """Whether all ranks hold the same parameters, to the bit; None where each holds a part."""
        if self._options.wrap == "fsdp2":
            return None
        mine = fingerprint(self._model.parameters())
        of_all = [torch.empty_like(mine) for _ in range(self._place.ranks)]
        dist.all_gather(of_all, mine)
        return all(torch.equal(mine, other) for other in of_all)


def fingerprint(parameters):
    """Two sums over the bits of all values, one of them weighted by place; they wrap around."""
    sums = []
    for parameter in parameters:
        bits = parameter.detach().flatten().view(torch.int32).long()
        place = torch.arange(1, len(bits) + 1, device=bits.device)
        sums += [bits.sum(), (bits * place).sum()]
    return torch.stack(sums)


def run(parser, make_task, arguments=None):
    """What a script does: make_task(options, place) gives its Task."""
    options = parser.parse_args(arguments)
    check_options(parser, options)
    place = join(options)
    torch.manual_seed(options.seed)
    Trainer(make_task(options, place), options, place).run()
    # The wrapped model holds the group, whose threads should not outlive Python: its hook calls
    # back into Python.
    gc.collect()
    # Not after an exception: with a peer gone, this might wait for it.
    dist.destroy_process_group()
