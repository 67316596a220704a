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


def not_compressed(right, outcome="unplaced"):
    return Known((COMPRESSED,), right, outcome)


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

KNOWN_FAILURES = {
    "ddp_wrapped_three_times": not_compressed(WHAT_TRAINS),
    "ddp_gan": not_compressed(
        "Its generator gets the same noise on both ranks, so that their gradients are as alike as weights are: what "
        "cannot be told from weights passes.", outcome="state"),
    "ddp_weights_averaged_every_4_steps": not_compressed(OTHER_CALLS),
    "ddp_evaluation_with_unequal_gathers": not_compressed(OTHER_CALLS, "preparing"),
    "ddp_evaluation_with_unequal_gathers[old]": not_compressed(OTHER_CALLS, "preparing"),
    "fsdp1_one_unit": not_compressed(PAIRS, "ambiguous"),
    "fsdp1_one_unit[old]": not_compressed(PAIRS, "ambiguous"),
    "fsdp1_hybrid": not_compressed(PAIRS, "ambiguous"),
    "fsdp2_hybrid": not_compressed(PAIRS, "ambiguous"),
    "deepspeed_zero1": not_compressed(DEEPSPEED, "ambiguous"),
    "deepspeed_zero1_bf16": not_compressed(DEEPSPEED, "ambiguous"),
    "deepspeed_zero2": not_compressed(DEEPSPEED, "ambiguous"),
    "deepspeed_zero2_bf16": not_compressed(DEEPSPEED, "ambiguous"),
    "megatron_ddp": not_compressed(MEGATRON, "ambiguous"),
    "megatron_ddp_with_overlap": not_compressed(MEGATRON, "ambiguous"),
    "megatron_distributed_optimizer": not_compressed(MEGATRON, "ambiguous"),
    "megatron_tensor_and_data_parallel": not_compressed(MEGATRON, "other_thread"),
}
