"""accelerate, and Hugging Face's Trainer with and without LoRA; models are made from configurations."""
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Dataset, TensorDataset

from jobs.workloads import N_CLASSES, N_FEATURES, N_TOKENS, generator_of, mlp, seed, steps
from marks import mark, next_step
from registry import finished, job

STEPS = steps(20)


def accelerator_on(device, **options):
    from accelerate import Accelerator

    return Accelerator(cpu=device == "cpu", **options)


def examples(n):
    generator = generator_of(11)
    inputs = torch.randn(n, N_FEATURES, generator=generator)
    return TensorDataset(inputs, (inputs @ torch.randn(N_FEATURES, N_CLASSES, generator=generator)).argmax(1))


def train_accelerated(accelerator, n_steps=STEPS):
    """accelerate's own example, with a metric gathered at the end; returns (losses, model)."""
    model = mlp()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = DataLoader(examples(max(2048, n_steps * 32 * accelerator.num_processes)), batch_size=32)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    losses = []
    for inputs, wanted in loader:
        if len(losses) == n_steps:
            break
        with accelerator.accumulate(model):
            loss = cross_entropy(model(inputs), wanted)
            with mark("gradients"):
                accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.detach())
        next_step()
    with mark("metrics"):
        accelerator.gather_for_metrics(torch.stack(losses))
    return losses, model


@job(imports=("accelerate",), makes_group=True)
def accelerate_plain(device):
    return finished(*train_accelerated(accelerator_on(device)))


@job(imports=("accelerate",), makes_group=True)
def accelerate_accumulation(device):
    return finished(*train_accelerated(accelerator_on(device, gradient_accumulation_steps=2), n_steps=steps(30)))


@job(imports=("accelerate",), makes_group=True)
def accelerate_bf16(device):
    return finished(*train_accelerated(accelerator_on(device, mixed_precision="bf16")))


class Counting(Dataset):
    """Texts that count up in steps of their own."""

    def __init__(self, size, length=32):
        generator = generator_of(13 + size)
        first = torch.randint(N_TOKENS, (size, 1), generator=generator)
        stride = torch.randint(1, 5, (size, 1), generator=generator)
        self.tokens = (first + stride * torch.arange(length)) % N_TOKENS

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, index):
        return {"input_ids": self.tokens[index], "labels": self.tokens[index]}


def gpt2():
    """0.9 million parameters."""
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(
        vocab_size=N_TOKENS, n_positions=64, n_embd=128, n_layer=4, n_head=4, resid_pdrop=0, embd_pdrop=0,
        attn_pdrop=0, attn_implementation="eager", bos_token_id=0, eos_token_id=0))


def with_lora(model):
    from peft import LoraConfig, get_peft_model

    return get_peft_model(model, LoraConfig(r=32, target_modules=["c_attn", "c_fc", "c_proj"],
                                            fan_in_fan_out=True, lora_dropout=0.0))


def train_with_trainer(device, model, evaluates=False, **options):
    import tempfile

    from transformers import Trainer, TrainerCallback, TrainingArguments

    losses = []

    class Marking(TrainerCallback):
        def on_step_end(self, *_, **__):
            next_step()

        def on_log(self, *_, logs, **__):
            if "loss" in logs:
                losses.append(logs["loss"])

    class Marked(Trainer):
        """A Trainer that says which of its calls are what."""

        def training_step(self, *arguments, **keywords):
            with mark("gradients"):
                return super().training_step(*arguments, **keywords)

        def evaluation_loop(self, *arguments, **keywords):
            with mark("metrics"):
                return super().evaluation_loop(*arguments, **keywords)

    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder, max_steps=steps(30), per_device_train_batch_size=4, learning_rate=1e-3,
            logging_steps=1, save_strategy="no", report_to=[], disable_tqdm=True, use_cpu=device == "cpu",
            eval_strategy="steps" if evaluates else "no", eval_steps=10, seed=1 + seed(), **options)
        trainer = Marked(model=model, args=arguments, train_dataset=Counting(512), callbacks=[Marking()],
                         eval_dataset=Counting(50) if evaluates else None)
        trainer.train()
    return finished(losses, nn.ParameterList(parameter for parameter in model.parameters()))


FACTS = dict(imports=("transformers", "transformers.trainer", "peft", "accelerate",
                      "transformers.models.gpt2.modeling_gpt2"), makes_group=True)


@job(**FACTS)
def trainer_plain(device):
    return train_with_trainer(device, gpt2())


@job(**FACTS)
def trainer_with_evaluation(device):
    return train_with_trainer(device, gpt2(), evaluates=True)


@job(**FACTS)
def trainer_with_accumulation(device):
    return train_with_trainer(device, gpt2(), gradient_accumulation_steps=2)


@job(back_ends_differ=True, **FACTS)
def trainer_lora(device):
    return train_with_trainer(device, with_lora(gpt2()))


@job(**FACTS)
def trainer_lora_with_evaluation(device):
    return train_with_trainer(device, with_lora(gpt2()), evaluates=True)
