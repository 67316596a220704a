// What the ranks of a host do for each other in an AllReduce that they sum up first, and the
// messages of its lanes (plan/host_plan.h), all through the user's own communicator.
#pragma once

#include "interpose/execute/batch.h"
#include "interpose/execute/exchange.h"

namespace cinch {

// Whether the call has lanes.
bool hasLanes(const BatchItem& item);

// Each records into the group that is open. Where the call only connects, the messages are as large
// as they will be, and come from and go to the workspace.

// Every rank's parts, as they are, to the owners of their lanes on its host.
Result<void> scatterParts(const BatchItem& item);
// Between the owners of a lane, as exchangeShards() and gatherShards() between all ranks.
Result<void> exchangeLane(const BatchItem& item, const ShardBuffers& shards);
Result<void> gatherLane(const BatchItem& item, const ShardBuffers& shards);
// Every owner's part of the result to the other ranks of its host.
Result<void> spreadParts(const BatchItem& item);

// Of the own lane's part, in local rank order, in fp32: what its owners reduce among themselves.
SumLaunch sumOf(const BatchItem& item);
float* laneSum(const BatchItem& item);
// Where part `lane` of the result goes.
uint8_t* resultPart(const BatchItem& item, uint32_t lane);

}  // namespace cinch
