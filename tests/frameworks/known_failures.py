"""What is wrong today: rows of docs/frameworks.md that the test expects to fail, and what is right.

The test fails where one of these checks does not fail any more, so that whoever puts one right takes it
off this list; where it fails for another reason; and where anything else is wrong.
"""
from dataclasses import dataclass

COMPRESSED = "gradients are compressed"
EXACT = "what is no gradient stays exact"
LOSS = "the loss is plain's"


@dataclass(frozen=True)
class Known:
    checks: tuple  # of judge.py: these fail
    right: str  # a sentence: what is right
    outcome: str = ""  # what the call log says of most gradients that were not compressed
    may: tuple = ()  # these may fail with them: how far off the loss is depends on the noise


def not_compressed(right):
    return Known((COMPRESSED,), right, outcome="unplaced")


def not_exact(right):
    return Known((EXACT,), right, may=(LOSS,))


WHAT_TRAINS = ("DDP says which parameters train, and its buckets are their gradients, whatever else was broadcast "
               "before.")
OTHER_CALLS = ("Calls from another thread than autograd's are no part of the gradients' pattern: they pass, and the "
               "gradients, which come from autograd's thread, are compressed as without them.")
PAIRS = ("A ReduceScatter from autograd's thread, whose shards the next AllGather returns as weights, carries "
         "gradients, however many units there are and however large.")
DEEPSPEED = ("The buckets that backward reduces are gradients, the last one of the step too, which comes from the main "
             "thread; the AllGather in place is of weights, and passes.")
MEGATRON = ("The reductions of Megatron-core's gradient buffers are compressed, though nothing was broadcast before "
            "them.")
AVERAGES = ("Averaged weights are not gradients, whatever their size: they stay exact. They come from the main thread, "
            "and each rank's own values are almost those of the result.")
NOT_LEARNING = "Sums in a program without autograd are no gradients, though something of their size was broadcast."

KNOWN_FAILURES = {
    "ddp_buffers_5_percent": not_compressed(WHAT_TRAINS),
    "ddp_frozen_5_percent": not_compressed(WHAT_TRAINS),
    "ddp_frozen_30_percent": not_compressed(WHAT_TRAINS),
    "ddp_frozen_30_percent[old]": not_compressed(WHAT_TRAINS),
    "ddp_frozen_midway": not_compressed(WHAT_TRAINS),
    "ddp_wrapped_three_times": not_compressed(WHAT_TRAINS),
    "trainer_lora": not_compressed(WHAT_TRAINS),
    "trainer_lora[old]": not_compressed(WHAT_TRAINS),
    "trainer_lora_with_evaluation": not_compressed(WHAT_TRAINS),
    "hooks_on_gradients": not_compressed(
        "Reductions from autograd's thread are of gradients where no large call of the step comes from another "
        "thread."),
    "ddp_contrastive": not_compressed(OTHER_CALLS),
    "ddp_counts_beside_gradients": not_compressed(OTHER_CALLS),
    "ddp_many_counts_beside_gradients": not_compressed(OTHER_CALLS),
    "ddp_running_statistics": not_compressed(OTHER_CALLS),
    "ddp_gathered_features": not_compressed(OTHER_CALLS),
    "ddp_muon": not_compressed(OTHER_CALLS),
    "ddp_weights_averaged_every_step": not_compressed(OTHER_CALLS),
    "ddp_weights_averaged_every_4_steps": not_compressed(OTHER_CALLS),
    "ddp_sync_batch_norm_of_many_channels": not_compressed(
        "DDP says which of the calls from autograd's thread are of its buckets: the norm's statistics, which are not, "
        "pass."),
    "ddp_evaluation_with_unequal_gathers": not_compressed(OTHER_CALLS),
    "ddp_evaluation_with_unequal_gathers[old]": not_compressed(OTHER_CALLS),
    "fsdp1_one_unit": not_compressed(PAIRS),
    "fsdp1_one_unit[old]": not_compressed(PAIRS),
    "fsdp1_hybrid": not_compressed(PAIRS),
    "fsdp2_two_blocks": not_compressed(PAIRS),
    "fsdp2_bf16": not_compressed(PAIRS),
    "fsdp2_hybrid": not_compressed(PAIRS),
    "tensor_parallel_with_fsdp2": not_compressed(PAIRS),
    "deepspeed_zero1": not_compressed(DEEPSPEED),
    "deepspeed_zero1_bf16": not_compressed(DEEPSPEED),
    "deepspeed_zero2": not_compressed(DEEPSPEED),
    "deepspeed_zero2_bf16": not_compressed(DEEPSPEED),
    "megatron_ddp": not_compressed(MEGATRON),
    "megatron_ddp_with_overlap": not_compressed(MEGATRON),
    "megatron_distributed_optimizer": not_compressed(MEGATRON),
    "megatron_tensor_and_data_parallel": not_compressed(MEGATRON),
    "periodic_averager_every_step": not_exact(AVERAGES),
    "periodic_averager_every_4_steps": not_exact(AVERAGES),
    "periodic_averager_every_10_steps": not_exact(AVERAGES),
    "periodic_averager_every_100_steps": not_exact(AVERAGES),
    "hierarchical_averager": not_exact(AVERAGES),
    "post_local_sgd": not_exact(AVERAGES),
    "post_local_sgd_one_bucket": not_exact(AVERAGES),
    "post_local_sgd_from_the_start": not_exact(AVERAGES),
    "post_local_sgd_from_the_start_one_bucket": not_exact(AVERAGES),
    "accelerate_local_sgd": not_exact(AVERAGES),
    "accelerate_local_sgd_after_ddp": not_exact(AVERAGES),
    "local_sgd_in_bf16": not_exact(AVERAGES),
    "averaged_optimizer_state": not_exact(AVERAGES),
    "muon_of_equal_gradients": not_exact(
        "What the ranks add up is a gather: where one rank has something, the other one has zeros."),
    "tensor_parallel_after_broadcast": not_exact(
        "Sums from the main thread and from autograd's that have one size are activations and their gradients."),
    "pipeline_with_sums": not_exact("A sum from the main thread of a process with autograd's threads is no gradient."),
    "router_counts": not_exact("Counts are whole numbers, and gradients are not."),
    "k_means": not_exact(NOT_LEARNING),
    "power_iteration": not_exact(NOT_LEARNING),
    "histograms": not_exact(NOT_LEARNING),
}
