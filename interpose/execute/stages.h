// The codec stages of one compressed call, enqueued on its stream.
#pragma once

#include "interpose/execute/batch.h"
#include "interpose/execute/exchange.h"

namespace cinch {

// Nothing here waits, locks or (outside of captures) allocates. An error means that some work was
// enqueued and the result is not to be used.

// The workspace is the call's from here on: codes of the shards to send; what they leave out stays
// in the residual.
Result<void> encodeStage(BatchItem& item);
// The own shard: peers in rank order, own part exact; encoded again, or, for ReduceScatter, the
// result.
Result<void> reduceStage(BatchItem& item);
// All ranks, owners included, decode the same bytes, so that all end with the same bits. The
// workspace is the next call's.
Result<void> decodeStage(BatchItem& item);

// Where the encoded shards of the call lie.
ShardBuffers shardsOf(const BatchItem& item);

}  // namespace cinch
