// A place in a program that makes the same calls again and again, as a training loop does: the
// shapes stay, the data changes.
#pragma once

#include <vector>

#include "tests/fuzz/builder.h"

namespace cinch::fuzz {

// One collective, and what each rank chooses for itself.
struct Site {
  Call call;
  std::vector<int> streams;  // by world rank
  std::vector<int> offsets;
  std::vector<char> inPlace;
  std::vector<double> scalars = {};  // of a PreMulSum, by world rank; empty: another operation
  bool scalarOnDevice = false;
};

Site randomSite(Builder& builder, int comm);
// The same with an operation of the user's.
Site randomUserSite(Builder& builder, int comm);
// Makes all ranks use the streams of `streams`, by world rank.
void moveTo(const std::vector<int>& streams, Site& site);

// One message of a communicator; ranks are its own.
struct Message {
  Call call;
  int from, to;
  int fromStream, toStream;
};

// A group, as every rank issues it: communicators in one order everywhere, their collectives too;
// messages anywhere between them.
struct GroupSite {
  struct Part {
    int comm;
    std::vector<Site> sites;
    std::vector<Message> messages;
    // By rank of the communicator: indices of sites (from 0) and messages (from -1 downwards).
    std::vector<std::vector<int>> order;
  };
  std::vector<Part> parts;
  std::vector<char> interleaved;  // by world rank: the parts' halves alternate
  std::vector<int> nesting;       // by world rank: further levels around all, or a part of it
};

// With operations of the user's where `userOps` allows.
GroupSite randomGroup(Builder& builder, const std::vector<int>& comms, bool userOps);

void moveTo(const std::vector<int>& streams, const Builder& builder, GroupSite& group);

// Appends one pass. `slot` is the first buffer slot to use; emitGroup returns the first one that no
// rank used.
void emitSite(Builder& builder, const Site& site, int slot = 0);
int emitGroup(Builder& builder, const GroupSite& group, int slot = 0);

}  // namespace cinch::fuzz
