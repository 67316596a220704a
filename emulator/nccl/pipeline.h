// Carries out one operation: walks its schedule as messages arrive and slots come free.
#pragma once

#include "common/result.h"
#include "emulator/nccl/channel.h"
#include "emulator/nccl/operation.h"
#include "emulator/nccl/reduction.h"
#include "emulator/nccl/schedule.h"

namespace cinch::emulator {

class Pipeline {
 public:
  // `in` and `out` outlive the pipeline; null where the schedule never receives or sends.
  Pipeline(const Operation& operation, int rank, int nRanks, ReceiveChannel* in, SendChannel* out);

  // Does what can be done now, without waiting; true where anything moved.
  Result<bool> advance();
  // All steps done and all bytes handed to the network.
  bool isDone() const;

  ReceiveChannel* in() const { return in_; }
  SendChannel* out() const { return out_; }

 private:
  bool tryStep();
  void receive(const Step& step, const char* arrived, char* slot);
  void originate(const Step& step, char* slot);
  const char* input(const Range& range) const { return input_ + range.input * width_; }
  char* output(const Range& range) const { return output_ + range.output * width_; }

  Schedule schedule_;
  Reduction reduction_;
  size_t width_;  // bytes of an element
  const char* input_;
  char* output_;
  int nRanks_;
  uint64_t scalar_;  // an element in the first bytes, where the reduction scales
  ReceiveChannel* in_;
  SendChannel* out_;
  size_t next_ = 0;
  bool announced_ = false;  // the receives
};

}  // namespace cinch::emulator
