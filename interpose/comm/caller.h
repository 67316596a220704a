// Who makes a call: policy/evidence.h says what that tells.
#pragma once

#include "interpose/policy/evidence.h"

namespace cinch {

// Of the calling thread, by its name; asked for once per thread.
Caller currentCaller();

struct CommResources;

// A thread of PyTorch's autograd engine makes a large reduction of floating-point values on the
// communicator that has these resources. Thread-safe.
void noteAutogradReduction(const CommResources& comm);
// Whether one has, on any communicator of the process; and on another one than this.
bool reducesFromAutograd();
bool reducesFromAutogradBeside(const CommResources& comm);

}  // namespace cinch
