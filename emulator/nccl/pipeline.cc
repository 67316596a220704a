#include "emulator/nccl/pipeline.h"

#include <cstring>

namespace cinch::emulator {
namespace {

// Data that is only moved is handled as the sum of bytes that it never is: its load is a copy.
Reduction reductionOf(const Operation& operation) {
  return reduces(operation.kind) ? *findReduction(operation.type, operation.op)
                                 : *findReduction(ncclUint8, ncclSum);
}

// The same operation in bytes where nothing is reduced, so that all types look alike.
Operation inBytes(Operation operation) {
  if (reduces(operation.kind)) return operation;
  operation.count *= elementBytes(operation.type);
  operation.type = ncclUint8;
  return operation;
}

// Read now, not when the call was made: earlier work of the stream may have written it.
uint64_t scalarOf(const Operation& operation, int nRanks) {
  if (operation.op == ncclAvg) return averageScalar(operation.type, nRanks);
  uint64_t value = operation.scalar.value;
  const void* device = operation.scalar.device;
  if (device != nullptr) memcpy(&value, device, elementBytes(operation.type));
  return value;
}

}  // namespace

Pipeline::Pipeline(const Operation& operation, int rank, int nRanks, ReceiveChannel* in,
                   SendChannel* out)
    : schedule_(inBytes(operation), rank, nRanks),
      reduction_(reductionOf(operation)),
      width_(elementBytes(inBytes(operation).type)),
      input_(static_cast<const char*>(operation.input)),
      output_(static_cast<char*>(operation.output)),
      nRanks_(nRanks),
      scalar_(scalarOf(operation, nRanks)),
      in_(schedule_.nReceives() > 0 ? in : nullptr),
      out_(schedule_.nSends() > 0 ? out : nullptr) {}

bool Pipeline::isDone() const {
  return next_ == schedule_.nSteps() && (out_ == nullptr || out_->isIdle());
}

Result<bool> Pipeline::advance() {
  if (in_ != nullptr && !announced_) in_->expect(schedule_.nReceives());
  announced_ = true;
  bool moved = false;
  if (in_ != nullptr) {
    const Result<bool> received = in_->progress();
    if (!received) return received;
    moved = received.value();
  }
  while (next_ < schedule_.nSteps() && tryStep()) {
    ++next_;
    moved = true;
  }
  if (out_ == nullptr) return moved;
  const Result<bool> sent = out_->progress();
  if (!sent) return sent;
  return moved || sent.value();
}

// Does the next step, if its message has arrived and its slot is free.
bool Pipeline::tryStep() {
  const Step step = schedule_.step(next_);
  const char* arrived = step.receives ? in_->arrived() : nullptr;
  char* slot = step.sends ? out_->freeSlot() : nullptr;
  if ((step.receives && arrived == nullptr) || (step.sends && slot == nullptr)) return false;
  if (step.receives) receive(step, arrived, step.forwards ? slot : nullptr);
  if (!step.forwards) originate(step, slot);
  if (step.receives) in_->release();
  if (step.sends) out_->fill((step.forwards ? step.received : step.fresh).count * width_);
  return true;
}

void Pipeline::receive(const Step& step, const char* arrived, char* slot) {
  const size_t count = step.received.count;
  if (count == 0) return;
  const char* value = arrived;
  if (step.combines) {
    char* sum = slot != nullptr ? slot : output(step.received);
    reduction_.combine(arrived, input(step.received), sum, count, &scalar_);
    if (step.finishes && reduction_.finish != nullptr) reduction_.finish(sum, count, nRanks_);
    value = sum;
  }
  const size_t nBytes = count * width_;
  if (slot != nullptr && value != slot) memcpy(slot, value, nBytes);
  if (step.stores && value != output(step.received)) memcpy(output(step.received), value, nBytes);
}

void Pipeline::originate(const Step& step, char* slot) {
  const Range& range = step.fresh;
  if (range.count == 0) return;
  if (slot != nullptr) reduction_.load(input(range), slot, range.count, &scalar_);
  if (step.keeps) reduction_.load(input(range), output(range), range.count, &scalar_);
}

}  // namespace cinch::emulator
