// Who makes the calls of one communicator. Threads are a rank's own affair: what is here may only
// go into a vote.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "interpose/policy/signature.h"

namespace cinch {

// The thread that makes a call. PyTorch runs the backward pass on threads of its autograd engine,
// which reduce gradients; averages of weights, metrics and states come from others.
enum class Caller : uint8_t { autograd, other };

// How many calls of one signature either has made on a communicator. What was learned may be a part
// of the step: a layer of tensor parallelism, which sums up activations from the main thread again
// and again, and then their gradients from autograd's. One call may be of a first step that was
// made otherwise, as Megatron-core's is.
struct CallerCounts {
  uint64_t autograd = 0, other = 0;

  void add(Caller caller) { ++(caller == Caller::autograd ? autograd : other); }
  bool areBoth() const { return autograd > 1 && other > 1; }
};

// Who makes a call, and who made those before it.
struct CallOrigin {
  Caller caller = Caller::other;
  CallerCounts ever{};  // of its signature, this call included
  // Others have reduced or gathered nothing large for longer than a step, or never; or each call
  // once, which autograd threads have made since.
  bool isAutogradAlone = false;
  // Something large is reduced on another communicator of the process, too: gradients there,
  // perhaps, and those of split layers' inputs here.
  bool reducesBeside = false;
};

class Callers {
 public:
  // A call is made. `index` is that of its signature, none where it has none any more.
  CallOrigin note(const Signature& signature, std::optional<uint32_t> index, bool isLarge,
                  Caller caller);

 private:
  void noteOther(std::optional<uint32_t> index);
  bool isOthersFirstStep() const;

  std::vector<CallerCounts> counts_;  // by index of the signature
  // Large calls since one of another thread.
  uint64_t nSinceOthers_ = 0;
  // What others have called, large calls only, while each was the first of its signature.
  std::vector<uint32_t> firsts_;
  bool areFirstsAll_ = true;
};

}  // namespace cinch
