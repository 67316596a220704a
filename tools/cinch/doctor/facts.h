// What `cinch doctor` has found: plain values, gathered by gather.h and judged by judge.h.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/param.h"
#include "interpose/real/nccl_content.h"

namespace cinch::doctor {

class Variables {
 public:
  Variables() = default;
  Variables(std::initializer_list<std::pair<const std::string, std::string>> values)
      : values_(values) {}
  // NAME=VALUE strings, ended by null; the first of a name counts.
  explicit Variables(const char* const* environment);

  // Empty where it is unset.
  std::string operator[](const std::string& name) const;
  // Those that begin so and have a value.
  std::vector<std::string> namesWith(std::string_view prefix) const;

 private:
  std::map<std::string, std::string> values_;
};

// A file or folder that a setting names.
struct FileFact {
  std::string check;  // the check that it belongs to
  std::string setting;
  std::string fault;  // empty: it is as it should be
  std::string fix;
};

// One of LD_PRELOAD.
struct PreloadFact {
  std::string path;
  bool exists = false;
  bool isCinch = false;
  bool exportsNccl = false;
};

struct SettingFacts {
  Variables variables;
  Params params;
  std::vector<std::string> warnings;  // of the parameter table
  std::vector<std::string> notices;   // of it and of the rules: old names that are still taken
  std::vector<FileFact> files;
  std::vector<PreloadFact> preloads;
};

// One of Cinch's libraries.
struct LibraryFact {
  std::string name;
  std::string path;   // empty: it is not beside this program
  std::string fault;  // of loading it; empty: it can be loaded, and is of this release
};

struct NcclFact {
  std::string path;
  std::string version;  // "2.28.9"; empty where the file does not say
};

struct Gpu {
  std::string name;
  int nNvlinks = -1;  // in use; -1: not known
};

struct DriverFacts {
  std::string version;  // "580.65.06"; empty: no driver is loaded
  bool hasLibcuda = false;
  int cudaMajor = 0;  // that the codec was built with; 0: this build has none
  bool hasNvml = false;
  std::vector<Gpu> gpus;
};

struct InterfaceFact {
  std::string name;
  std::string address;
  bool isLoopback = false;
  bool isSelected = false;  // by NCCL_SOCKET_IFNAME
  int megabits = -1;        // per second; -1: not known
};

struct PortFact {
  std::string name;   // "mlx5_0:1"
  std::string state;  // "ACTIVE"
  std::string link;   // "InfiniBand", "Ethernet"
  std::string rate;   // "400 Gb/sec (4X NDR)"
};

struct NetworkFacts {
  std::string list;    // NCCL_SOCKET_IFNAME
  std::string choice;  // the address that this leads to; empty: none
  std::vector<InterfaceFact> interfaces;
  std::vector<PortFact> ports;
  bool hasPeerMemory = false;  // the kernel module that gives cards a GPU's memory
  bool hasDmabuf = false;      // a kernel that does so itself
};

inline constexpr uint64_t kUnlimited = UINT64_MAX;

struct LimitFacts {
  uint64_t descriptors = 0;
  uint64_t hardDescriptors = 0;
  uint64_t lockedBytes = 0;
  uint64_t sharedMemoryBytes = 0;     // free in /dev/shm
  uint64_t availableMemoryBytes = 0;  // 0: not known
  int nFlows = 4;                     // CINCH_NET_FLOWS
  bool hasVerbs = false;
};

// A plugin of NCCL that is named, or would be loaded without being named.
struct PluginFact {
  std::string variable;
  std::string value;    // empty: the default name
  std::string path;     // where the loader would find it; empty: nowhere it looks
  bool isOurs = false;  // Cinch's
};

struct ProgramFacts {
  std::string command;  // empty: none was given
  std::string path;     // of the file that is executed in the end: of a script, its interpreter
  std::string fault;    // why it cannot be started; empty: it can
  bool isSetuid = false;
  bool isStatic = false;
  bool isForeign = false;     // of another machine
  std::string python;         // what it imports decides; the one that is started, else empty
  NcclContent content;        // of the file
  std::string hiddenIn;       // a library of it that hides an NCCL; empty: none
  std::string hiddenVersion;  // of that NCCL
  std::vector<std::string> libraries;  // that the loader maps with it
};

struct ExchangeFacts {
  bool hasEmulator = false;
  bool hasEnded = false;  // in time
  int status = 0;
  bool isCompressed = false;
  std::string lastLine;
};

}  // namespace cinch::doctor
