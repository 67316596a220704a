"""Ten mistakes in the plugins."""

from fault import Fault

FAULTS = [
    Fault(
        name="dropped-chunk-takes-the-next-record-along",
        file="net_plugin/socket/flow_io.cc",
        right="std::min<size_t>(payloadLeft_, stage_.size())",
        wrong="(FAULT ? stage_.size() : std::min<size_t>(payloadLeft_, stage_.size()))",
        harm="after a chunk that nobody needs any more its flow falls deaf, and the job hangs",
    ),
    Fault(
        name="memory-forgotten-only-from-its-beginning",
        file="net_plugin/socket/link.cc",
        right="return buffer >= memory.data() && buffer < memory.data() + memory.size();",
        wrong="return FAULT ? buffer == memory.data()\n"
        "               : (buffer >= memory.data() && buffer < memory.data() + memory.size());",
        harm="an aborted job crashes, or memory that was given back is still written to",
    ),
    Fault(
        name="closed-listener-keeps-its-callers",
        file="net_plugin/socket/network.cc",
        right="for (const WaitingChannel& it : waiting) it.link->close(it.channel);",
        wrong="if (!FAULT) {\n    for (const WaitingChannel& it : waiting) it.link->close(it.channel);\n  }",
        harm="a rank whose peer gave up before it accepted hangs instead of getting an error",
    ),
    Fault(
        name="flow-stays-marked-as-idle",
        file="net_plugin/socket/rate.cc",
        right="ranEmpty_ = false;",
        wrong="if (!FAULT) ranEmpty_ = false;",
        harm="a slow link gets as much as the fast ones, so that every message waits for it",
    ),
    Fault(
        name="figures-begin-anew-with-each-connection",
        file="net_plugin/socket/link_statistics.cc",
        right="add(countersOf(flow), figures.counters);",
        wrong="if (FAULT) {\n"
        "    countersOf(flow) = figures.counters;\n"
        "  } else {\n"
        "    add(countersOf(flow), figures.counters);\n"
        "  }",
        harm="the network report forgets losses, chunks and bytes of flows that were replaced",
    ),
    Fault(
        name="announced-again-but-not-sent-again",
        file="net_plugin/ib/sender.cc",
        right="state.dataIsPosted = false;",
        wrong="if (!FAULT) state.dataIsPosted = false;",
        harm="after a lane has failed a receive ends with bytes that never arrived: wrong values",
    ),
    Fault(
        name="overlapping-memory-taken-for-known",
        file="net_plugin/ib/region_cache.cc",
        right="return entry.begin <= begin && end <= entry.end;",
        wrong="return entry.begin <= begin && (FAULT ? begin < entry.end : end <= entry.end);",
        harm="a transfer from a buffer that reaches beyond one registered before fails, and the job with it",
    ),
    Fault(
        name="largest-message-refused",
        file="net_plugin/abi/adapter.cc",
        right="nBytes < 0 || nBytes > kMaxBytes",
        wrong="nBytes < 0 || (FAULT ? nBytes >= kMaxBytes : nBytes > kMaxBytes)",
        harm="a message of exactly 1 GiB, which NCCL was told it may send, ends the job",
    ),
    Fault(
        name="costs-kept-after-the-rule-changed-them",
        file="tuner_plugin/tuner.cc",
        right="  if (costs_ != nullptr)\n"
        "    costs_->record(static_cast<TunedCollective>(call.collective), call.nBytes, call.nPipeOps, grid);\n"
        "  Entry* const entry = find(call);\n"
        "  if (entry == nullptr) return;\n"
        "  const Rule& rule = entry->rule;\n"
        "  const bool isUsed = isUsable(grid, rule);\n"
        "  if (isUsed) {\n"
        "    grid.at(rule.algorithm, rule.protocol) = kBest;\n",
        wrong="  const auto keep = [&] {\n"
        "    if (costs_ == nullptr) return;\n"
        "    costs_->record(static_cast<TunedCollective>(call.collective), call.nBytes, call.nPipeOps, grid);\n"
        "  };\n"
        "  Entry* const entry = find(call);\n"
        "  if (!FAULT || entry == nullptr || !isUsable(grid, entry->rule)) keep();\n"
        "  if (entry == nullptr) return;\n"
        "  const Rule& rule = entry->rule;\n"
        "  const bool isUsed = isUsable(grid, rule);\n"
        "  if (isUsed) {\n"
        "    grid.at(rule.algorithm, rule.protocol) = kBest;\n"
        "    if (FAULT) keep();\n",
        harm="the kept table of NCCL's costs says 0 for what a rule chose, and cinch explain repeats it",
    ),
    Fault(
        name="half-of-the-users-choice-does-not-count",
        file="tuner_plugin/abi/adapter.cc",
        right="return algorithm != nullptr || protocol != nullptr;",
        wrong="return FAULT ? algorithm != nullptr && protocol != nullptr\n"
        "               : algorithm != nullptr || protocol != nullptr;",
        harm="with NCCL 2.21 a rule overrides NCCL_ALGO where NCCL_PROTO is not set, and the other way around",
    ),
]
