#include "interpose/comm/process_number.h"

#include <algorithm>

#include "common/param.h"

namespace cinch {
namespace {

// Of the process among all of the job, as torchrun, Slurm, Open MPI, MPICH and PMIx say it.
constexpr const char* kProcessNumbers[] = {"RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK",
                                           "PMI_RANK", "PMIX_RANK"};

bool isNumber(const std::string& text) {
  return !text.empty() && text.size() < 10 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::string processPrefix() {
  for (const char* name : kProcessNumbers)
    if (const char* value = environmentVariable(name); value != nullptr && isNumber(value))
      return "process" + std::string(value) + ".";
  return "";
}

}  // namespace cinch
