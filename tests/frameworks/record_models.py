#!/usr/bin/env python3
"""Records for tests/traces what the small jobs of tests/frameworks do not show:

    record_models.py [--build FOLDER] [--to FOLDER] [NAME ...]

- traces of deeper models, which have many equal layers, buckets and groups (DEEP);
- what DDP broadcasts about its buckets for real models (MODELS), in ddp_messages/recorded_MODEL.json: it is
  in the log of calls as a whole (docs/call-log.md).

Start it with the python that emulator/torch/environment.py prints.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, "emulator", "torch")]

import recording  # noqa: E402
from marks import mark, next_step  # noqa: E402

MESSAGE_STEPS = 3  # the messages come in the second, and what they announce in the third
STEPS = 24
VOCABULARY = 4096
LAYERS = 12


def made(name, configuration, **options):
    """A model of the package transformers."""
    import transformers

    return getattr(transformers, name)(getattr(transformers, configuration)(**options))


def tied():
    """Tied, frozen and zero-dimensional parameters."""
    import torch

    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = torch.nn.Embedding(VOCABULARY, 256)
            self.frozen = torch.nn.Linear(256, 256).requires_grad_(False)
            self.temperature = torch.nn.Parameter(torch.tensor(1.0))
            self.blocks = torch.nn.ModuleList(torch.nn.Linear(256, 256) for _ in range(12))
            self.scales = torch.nn.ParameterList(torch.tensor(1.0) for _ in range(12))
            self.head = torch.nn.Linear(256, VOCABULARY, bias=False)
            self.head.weight = self.embedding.weight

        def forward(self, inputs):
            x = self.frozen(self.embedding(inputs))
            for block, scale in zip(self.blocks, self.scales):
                x = x + scale * torch.relu(block(x))
            return self.head(x) * self.temperature

    return Tied()


def tokens():
    import torch

    return torch.randint(0, VOCABULARY, (1, 8))


def image(size):
    import torch

    return torch.randn(2, 3, size, size)


# Name: how to build it, and a batch.
MODELS = {
    "resnet50": (lambda: made("ResNetForImageClassification", "ResNetConfig", num_labels=1000),
                 lambda: image(64)),
    "vit_b16": (lambda: made("ViTForImageClassification", "ViTConfig", num_labels=1000),
                lambda: image(224)),
    "gpt2": (lambda: made("GPT2LMHeadModel", "GPT2Config", use_cache=False), tokens),
    "bert_large": (lambda: made("BertForMaskedLM", "BertConfig", hidden_size=1024, num_hidden_layers=24,
                                          num_attention_heads=16, intermediate_size=4096), tokens),
    "llama": (lambda: made("LlamaForCausalLM", "LlamaConfig", hidden_size=768, num_hidden_layers=8,
                                     num_attention_heads=12, num_key_value_heads=4, intermediate_size=2048,
                                     use_cache=False), tokens),
    "tied": (tied, tokens),
}


def loss_of(output):
    return getattr(output, "logits", output).float().pow(2).mean()


def send_messages(name):
    """One rank's part; returns the shapes of the parameters that DDP reduces."""
    import torch

    make, batch = MODELS[name]
    model = torch.nn.parallel.DistributedDataParallel(make().cuda())
    for _ in range(MESSAGE_STEPS):
        loss_of(model(batch().cuda())).backward()
        model.zero_grad()
    return [list(parameter.shape) for parameter in model.parameters() if parameter.requires_grad]


def deep_gpt():
    """10 million parameters."""
    return made("GPT2LMHeadModel", "GPT2Config", n_layer=LAYERS, n_embd=256, n_head=4, n_positions=64,
                vocab_size=VOCABULARY, use_cache=False)


def train(model, micro_batches=1, evaluate_every=0, clip=None, forward="weights", batch=tokens):
    """forward: what the forward pass sends."""
    import torch

    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    for step in range(1, STEPS + 1):
        for _ in range(micro_batches):
            with mark(forward):
                loss = loss_of(model(batch().cuda()))
            with mark("gradients"):
                loss.backward()
        if clip:
            with mark("metrics"):
                clip(model)
        optimizer.step()
        optimizer.zero_grad()
        if evaluate_every and step % evaluate_every == 0:
            with mark(forward), torch.no_grad():
                for _ in range(3):
                    model(batch().cuda())
        next_step()


def ddp_deep():
    import torch

    train(torch.nn.parallel.DistributedDataParallel(deep_gpt().cuda(), bucket_cap_mb=3))


def ddp_resnet50():
    import torch

    make, _ = MODELS["resnet50"]
    train(torch.nn.parallel.DistributedDataParallel(make().cuda()), batch=lambda: image(32))


def sharded(mesh=None):
    from torch.distributed.fsdp import fully_shard

    model = deep_gpt().cuda()
    for block in model.transformer.h:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def clip_norm(model):
    import torch

    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).full_tensor()


def fsdp1_deep():
    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy
    from transformers.models.gpt2.modeling_gpt2 import GPT2Block

    model = FullyShardedDataParallel(deep_gpt().cuda(), device_id=0, auto_wrap_policy=ModuleWrapPolicy({GPT2Block}))
    train(model, clip=lambda model: model.clip_grad_norm_(1.0))


def fsdp2_deep():
    train(sharded(), clip=clip_norm)


def fsdp2_deep_accumulation():
    """Every one of 4 micro-batches is reduced."""
    train(sharded(), micro_batches=4, clip=clip_norm)


def fsdp2_deep_evaluations():
    train(sharded(), evaluate_every=8)


def fsdp2_deep_hybrid():
    from torch.distributed.device_mesh import init_device_mesh

    train(sharded(init_device_mesh("cuda", (2, 2), mesh_dim_names=("replicate", "shard"))))


def zero(stage):
    import deepspeed

    config = {"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": True},
              "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "torch_adam": True}},
              "zero_optimization": {"stage": stage, "reduce_bucket_size": 1_000_000}}
    engine, *_ = deepspeed.initialize(model=deep_gpt(), config=config)
    for _ in range(STEPS):
        with mark("weights"):
            loss = loss_of(engine(tokens().cuda()))
        with mark("gradients"):
            engine.backward(loss)
        with mark("weights"):
            engine.step()
        next_step()


# Name: the number of ranks, and what each of them does.
DEEP = {
    "ddp_deep": (2, ddp_deep),
    "ddp_resnet50": (2, ddp_resnet50),
    "fsdp1_deep": (2, fsdp1_deep),
    "fsdp2_deep": (2, fsdp2_deep),
    "fsdp2_deep_accumulation": (2, fsdp2_deep_accumulation),
    "fsdp2_deep_evaluations": (2, fsdp2_deep_evaluations),
    "fsdp2_deep_hybrid": (4, fsdp2_deep_hybrid),
    "zero1_deep": (2, lambda: zero(1)),
    "zero2_deep": (2, lambda: zero(2)),
    "zero3_deep": (2, lambda: zero(3)),
}


def run(name, function, n_ranks, folder):
    """What rank 0 returns, in a process where the emulator is preloaded."""
    import ranks

    def job(_):
        import torch
        import torch.distributed as dist

        torch.set_num_threads(1)
        torch.manual_seed(1)
        dist.init_process_group("nccl", device_id=torch.device("cuda", 0))
        result = function()
        dist.destroy_process_group()
        return result

    outcomes = ranks.run_ranks(job, n_ranks, timeout=600, environment={
        "CINCH_CALL_LOG": f"{folder}/%p", "JOB_MARKS": f"{folder}/%p.marks.jsonl", "CINCH_MODE": "observe",
        "TORCH_DIST_USE_NCCL2": "1"})
    for outcome in outcomes:
        if not outcome.ok:
            raise RuntimeError(f"{name}, rank {outcome.rank}: {outcome.error}\n{outcome.output}")
    return outcomes[0].result


def origin():
    import torch

    return f"recorded, torch {torch.__version__} on the emulator"


def record_messages(name, folder, target):
    shapes = run(name, lambda: send_messages(name), 2, folder)
    calls, _ = recording.files_of_rank_0(folder)
    facts = recording.ddp_messages(calls, origin()) | {"shapes": shapes}
    path = target / "ddp_messages" / f"recorded_{name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(facts, separators=(",", ":")) + "\n", encoding="utf-8")
    return f"{facts['nParameters']} parameters in {len(facts['bucketSizes'])} buckets"


def record_trace(name, folder, target):
    n_ranks, function = DEEP[name]
    run(name, function, n_ranks, folder)
    calls, marks = recording.files_of_rank_0(folder)
    framework = f"PyTorch, {name} of tests/frameworks/record_models.py"
    recording.to_trace(name, framework, origin(), calls, marks).write(target, recording.VALUES_BYTES)
    return f"{len(calls)} calls"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", help="a folder where Cinch and the emulator are built")
    parser.add_argument("--to", type=pathlib.Path, default=pathlib.Path(ROOT, "tests", "traces"))
    parser.add_argument("--preloaded", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*", default=[*DEEP, *MODELS])
    arguments = parser.parse_args()
    if not arguments.preloaded:
        import environment

        values = os.environ | environment.prepare(sys.executable, arguments.build).variables(cinch=True)
        command = [sys.executable, "-B", __file__, "--preloaded", "--to", arguments.to, *arguments.names]
        return subprocess.run(command, env=values, check=False).returncode
    import ranks

    ranks.import_early(("transformers",))
    for name in arguments.names:
        with tempfile.TemporaryDirectory() as folder:
            what = (record_trace if name in DEEP else record_messages)(name, folder, arguments.to)
            print(f"{name}: {what}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
