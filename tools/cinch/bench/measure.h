// Runs one size: warms up, takes the time, checks results.
#pragma once

#include "tools/cinch/bench/buffers.h"
#include "tools/cinch/bench/options.h"
#include "tools/cinch/bench/results.h"
#include "tools/cinch/bench/session.h"

namespace cinch::bench {

class Measurement {
 public:
  // `report` is where Cinch's is read, on rank 0 and where Cinch is there; else null.
  Measurement(Session& session, const Options& options, CallKind kind, const ReportFile* report);

  // Every rank calls it for the same sizes in the same order; the figures are right on rank 0.
  Row run(uint64_t nBytes, const ElementType& type, const Operation& operation);

 private:
  struct Call;

  Phase runPhase(const Call& call);
  void warmUp(const Call& call);
  void fill(const Call& call, uint64_t round);
  void enqueue(const Call& call);
  double time(const Call& call);
  double timeGraph(const Call& call);
  CallRecord learn(const Call& call) const;
  Tolerance agreeTolerance(const Call& call, const CallRecord& record);
  CheckFigures compare(const Call& call, uint64_t round, double bound);
  void check(const Call& call, Phase& phase);
  void describePath(const Call& call, const CallRecord& before, const CallRecord& after,
                    Phase& phase) const;

  Session& session_;
  const Library& library_;
  const Options& options_;
  CallKind kind_;
  const ReportFile* report_;
  DeviceBuffer send_;
  DeviceBuffer receive_;
};

}  // namespace cinch::bench
