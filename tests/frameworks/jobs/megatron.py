"""Megatron-core: a GPT of four layers with its own data parallelism, optimizers and tensor parallelism."""
import torch

from jobs.workloads import N_TOKENS, seed, steps, texts
from marks import mark, next_step
from registry import finished, job

STEPS = steps(15)
FACTS = dict(imports=("megatron.core", "megatron.core.models.gpt.gpt_layer_specs", "megatron.core.optimizer",
                      "megatron.core.distributed", "megatron.core.models.gpt"),
             not_on_gloo="Megatron-core is for GPUs alone")


def gpt(tensor_parallel):
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.transformer import TransformerConfig

    config = TransformerConfig(num_layers=4, hidden_size=128, num_attention_heads=4, hidden_dropout=0.0,
                               attention_dropout=0.0, use_cpu_initialization=True, bias_dropout_fusion=False,
                               tensor_model_parallel_size=tensor_parallel)
    return GPTModel(config, get_gpt_layer_local_spec(), vocab_size=N_TOKENS, max_sequence_length=64).cuda()


def train(tensor_parallel=1, overlap=False, distributed_optimizer=False, backward="gradients",
          meaningless=False, n_steps=STEPS):
    from megatron.core import parallel_state, tensor_parallel as tp
    from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
    from megatron.core.distributed import finalize_model_grads
    from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer

    parallel_state.initialize_model_parallel(tensor_parallel)
    tp.model_parallel_cuda_manual_seed(5)
    torch.manual_seed(seed())
    model = gpt(tensor_parallel)
    model = DistributedDataParallel(model.config, DistributedDataParallelConfig(
        overlap_grad_reduce=overlap, use_distributed_optimizer=distributed_optimizer,
        bucket_size=200_000 if overlap else None), model)
    optimizer = get_megatron_optimizer(
        OptimizerConfig(optimizer="adam", lr=1e-3, use_distributed_optimizer=distributed_optimizer), [model])
    data_rank = parallel_state.get_data_parallel_rank()
    losses = []
    for tokens, wanted in texts(n_steps, "cuda", size=8, part=data_rank, same=True,
                                meaningless=meaningless):
        model.zero_grad_buffer()
        optimizer.zero_grad()
        places = torch.arange(tokens.shape[1], device="cuda").expand_as(tokens)
        mask = torch.ones(1, 1, tokens.shape[1], tokens.shape[1], device="cuda").tril() < 0.5
        with mark("activations"):
            loss = model(tokens, places, mask, labels=wanted).mean()
        with mark(backward):
            loss.backward()
        with mark("gradients"):
            finalize_model_grads([model])
        with mark("weights"):
            optimizer.step()
        losses.append(loss.detach())
        next_step()
    return finished(losses, model)


@job(indistinct="the main thread makes one call in each step, and nothing was broadcast: so does a program that "
                "averages its weights.", **FACTS)
def megatron_ddp(device):
    """All gradients in one buffer, reduced after backward."""
    return train()


@job(**FACTS)
def megatron_ddp_with_overlap(device):
    return train(overlap=True)


@job(indistinct="the main thread reduces, and in this easy task gradients differ by less than three times what they have "
                "in common, as averages of weights do. Where noise prevails they are compressed.", **FACTS)
def megatron_distributed_optimizer(device):
    return train(distributed_optimizer=True)


@job(late="the main thread reduces, and until noise is three times what gradients have in common they may be averages of "
          "weights.", **FACTS)
def megatron_distributed_optimizer_with_noise(device):
    """Texts without meaning: as in most training, gradients are noise more than anything else."""
    return train(distributed_optimizer=True, meaningless=True, n_steps=steps(40))


@job(**FACTS)
def megatron_distributed_optimizer_with_overlap(device):
    return train(distributed_optimizer=True, overlap=True)


@job(compressible=False, replicated=False, **FACTS)
def megatron_tensor_parallel(device):
    return train(tensor_parallel=2, backward="activations")


@job(indistinct="autograd threads reduce activations here, and the main thread the gradients: one call in each step, as "
                "averages of weights are.", ranks=4, replicated=False, **FACTS)
def megatron_tensor_and_data_parallel(device):
    return train(tensor_parallel=2, backward="activations")
