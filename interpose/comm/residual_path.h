// What the residuals of a communicator are called in CINCH_RESIDUAL_DIR.
#pragma once

#include <string>

#include "interpose/comm/residual_file.h"

namespace cinch {

// A communicator has no name that survives a restart; what does is its size, its rank, and how many
// like it the process has already. Communicators of one size may have the same ranks in several
// processes (those of tensor parallel groups), so the name tells the process, too, where its
// launcher has numbered it. "folder/process5.rank3of8.comm0"
//
// Holds the smallest number that none of the process's other paths of this owner holds. One
// communicator that follows another one in the same process thus goes on where that has ended.
class ResidualPath {
 public:
  ResidualPath(const std::string& folder, const ResidualOwner& owner);
  ~ResidualPath();
  ResidualPath(const ResidualPath&) = delete;
  ResidualPath& operator=(const ResidualPath&) = delete;

  const std::string& text() const { return text_; }

 private:
  const ResidualOwner owner_;
  const int number_;
  const std::string text_;
};

}  // namespace cinch
