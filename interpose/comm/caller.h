// Who makes a call: policy/evidence.h says what that tells.
#pragma once

#include "interpose/policy/evidence.h"

namespace cinch {

// Of the calling thread, by its name; asked for once per thread.
Caller currentCaller();

// A thread of PyTorch's autograd engine has made a large reduction of floating-point values in this
// process, on any communicator. Thread-safe.
void noteAutogradReduction();
bool reducesFromAutograd();

}  // namespace cinch
