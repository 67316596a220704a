"""Ten mistakes in the codecs."""

from fault import Fault

FAULTS = [
    Fault(
        name="bf16-rounds-nan-like-a-number",
        file="kernels/element/element_traits.h",
        right="isNan ? kCanonicalNan : rounded",
        wrong="isNan && !FAULT ? kCanonicalNan : rounded",
        harm="with codec bf16 a NaN whose bits are all set arrives as zero, and one with a small payload as infinity",
    ),
    Fault(
        name="stochastic-step-rounded-to-nearest",
        file="kernels/codec/uniform.h",
        right="return withStep(bf16Above((high - Bf16::toFloat(minimum)) * kPerCode), minimum);",
        wrong="""const float exact = (high - Bf16::toFloat(minimum)) * kPerCode;
      return withStep(FAULT ? Bf16::fromFloat(exact) : bf16Above(exact), minimum);""",
        harm="with stochastic rounding the largest values of many blocks come out too small on average",
    ),
    Fault(
        name="non-finite-mark-stays",
        file="kernels/core/call_state.h",
        right="state.nonFinite = 0;",
        wrong="if (!FAULT) state.nonFinite = 0;",
        harm="after one overflow a slot drops its residuals in every later step: error feedback is off for good",
    ),
    Fault(
        name="first-probe-counts-as-stranger",
        file="kernels/core/probe.h",
        right="const bool isStranger = probe.nCalls > 0 && isBelieved",
        wrong="const bool isStranger = (FAULT || probe.nCalls > 0) && isBelieved",
        harm="every bucket begins with a false alarm, after which a real stranger is overlooked for a thousand calls",
    ),
    Fault(
        name="larger-shards-come-last",
        file="kernels/wire/wire_format.h",
        right="return part * base_ + (part < extra_ ? part : extra_);",
        wrong="""if (FAULT) return layout_.tiles() * part / nParts();
    return part * base_ + (part < extra_ ? part : extra_);""",
        harm="where tiles do not divide evenly among ranks, the last tile of the larger shards is left unreduced",
    ),
    Fault(
        name="last-peer-decides-acceptance",
        file="kernels/host/shard_loops.h",
        right="accepted &= acceptHeader(launch_.call, peer(part));",
        wrong="accepted = acceptHeader(launch_.call, peer(part)) && (FAULT || accepted);",
        harm="with three ranks or more the bytes of a peer that is out of step are summed up instead of refused",
    ),
    Fault(
        name="rotated-tail-codes-cut-off",
        file="kernels/host/portable_encoder.h",
        right="pack(codes, seenValues(coding.nValues),",
        wrong="pack(codes, FAULT ? coding.nValues : seenValues(coding.nValues),",
        harm="with h2 to h4 the last values of a bucket that is no multiple of 128 come out wrong",
    ),
    Fault(
        name="launch-record-given-back-early",
        file="kernels/host/launch_queue.cc",
        right="""  run(*self);
  self->queue->giveBack(self);""",
        wrong="""  if (FAULT) self->queue->giveBack(self);
  run(*self);
  if (!FAULT) self->queue->giveBack(self);""",
        harm="where calls follow closely, one runs with the arguments of the next: wrong values or a crash",
    ),
    Fault(
        name="nan-looked-for-in-the-range",
        file="kernels/host/simd/linear_scale.h",
        right="return Isa::areFinite(magnitude_);",
        wrong="""return FAULT ? Isa::areFinite(low_) && Isa::areFinite(high_)
                 : Isa::areFinite(magnitude_);""",
        harm="with q2 to q8 a NaN that is not among a block's last values becomes an ordinary number",
    ),
    Fault(
        name="fast-path-skips-statistics",
        file="kernels/host/simd/vector_encoder.h",
        right="!coding.dither && !coding.errors;",
        wrong="!coding.dither && (FAULT || !coding.errors);",
        harm="the codec's error in the report leaves out all whole tiles of the q and c codecs",
    ),
]
