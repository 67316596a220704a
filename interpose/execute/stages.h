// The stages of compressed calls, each enqueued on its stream or on one that is joined with it.
#pragma once

#include "interpose/execute/exchange.h"
#include "interpose/execute/neighbours.h"

namespace cinch {

// Nothing here waits for other work. Outside of captures memory is taken only for residuals: where
// a slot's owned shard moves, and with CINCH_WHEN=always where a layout comes back. An error means
// that some work was enqueued and the result is not to be used.

// The workspace is the call's from here on.
Result<void> openStages(BatchItem& item);
// Where the hosts sum up first: of what this rank was sent, before the first codes, which are of
// the sum.
Result<void> sumStage(BatchItem& item);

// The codec's stages, each of a chunk of all the items.
//
// Codes of the shards to send; what they leave out stays in the residual.
Result<void> encodeStage(const Neighbours& items, uint32_t chunk);
// The own shard: peers in rank order, own part exact; encoded again, or, for ReduceScatter, the
// result. Of a pair, the result from both ranks' codes.
Result<void> reduceStage(const Neighbours& items, uint32_t chunk);
// All ranks, owners included, decode the same bytes, so that all end with the same bits.
Result<void> decodeStage(const Neighbours& items, uint32_t chunk);

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
