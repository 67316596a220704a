// What keeps a program from waiting for other ranks while it has an NCCL group open, where an abort
// from another thread would free what NCCL has recorded. Process-wide.
//
// A mark is a call that a control thread has promised not to be made before the ranks have decided
// (decision_record.h). No mark is set while a thread has a group open, and no group is opened while
// there is a mark: each side first says what it wants, and looks then at what the other one has.
#pragma once

namespace cinch {

// For control threads: false where a thread has a group open, unless it must be. Never waits.
bool addMark(bool mustBe);
void removeMark();

// Before the program's outermost ncclGroupStart: waits until there is no mark, for control threads
// only, and no longer than these need: where one is frozen with its host, the group may be the one
// that aborts. Without a mark two atomic operations.
void enterGroup();
// When that group has ended, on the same thread.
void leaveGroup();

// The two of them, for as long as it lives.
class GroupEntered {
 public:
  GroupEntered() { enterGroup(); }
  ~GroupEntered() { leaveGroup(); }
  GroupEntered(const GroupEntered&) = delete;
  GroupEntered& operator=(const GroupEntered&) = delete;
};

// For a thread that must wait for the ranks' decision whether or not it has a group open: as if it
// had none.
class GroupSuspended {
 public:
  GroupSuspended();
  ~GroupSuspended();
  GroupSuspended(const GroupSuspended&) = delete;
  GroupSuspended& operator=(const GroupSuspended&) = delete;

 private:
  const int nGroups_;
};

}  // namespace cinch
