// The codec stages of one compressed call, enqueued on its stream or on one that is joined with it.
#pragma once

#include "interpose/execute/batch.h"
#include "interpose/execute/exchange.h"

namespace cinch {

// Nothing here waits, locks or (outside of captures) allocates. An error means that some work was
// enqueued and the result is not to be used.

// Of a chunk: codes of the shards to send; what they leave out stays in the residual. From the
// first one on the workspace is the call's, but where the hosts sum up first:
Result<void> encodeStage(BatchItem& item, uint32_t chunk);
// from here on;
Result<void> openStages(BatchItem& item);
// and the sum of what this rank was sent comes before the first codes, which are of it.
Result<void> sumStage(BatchItem& item);
// The own shard: peers in rank order, own part exact; encoded again, or, for ReduceScatter, the
// result. Of a pair, the result from both ranks' codes.
Result<void> reduceStage(BatchItem& item, uint32_t chunk);
// All ranks, owners included, decode the same bytes, so that all end with the same bits.
Result<void> decodeStage(BatchItem& item, uint32_t chunk);
// All is done on the caller's stream. The workspace is the next call's.
Result<void> closeStages(BatchItem& item);

// Something failed: the caller's stream waits for what the codec has been given, since the program
// may use its buffers for something else behind it.
void joinStages(const BatchItem& item);

// The exchange, or the gather, of a chunk has been enqueued just now.
Result<void> noteExchange(BatchItem& item, uint32_t chunk);
Result<void> noteGather(BatchItem& item, uint32_t chunk);

// Where the encoded shards of a chunk lie.
ShardBuffers shardsOf(const BatchItem& item, uint32_t chunk);

}  // namespace cinch
