// one_call FUNCTION: calls one function of NCCL as a program does, once with success and once with
// an error, and checks that the library underneath got that call alone, with the same arguments,
// and that its answer came back. Prints the path of the library that the program's call is bound
// to. Exits 0 if all is so.
//
// Calls and arguments are made from the types in functions.def, so none can be forgotten.
#include <dlfcn.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/fake/nccl/fake_nccl.h"
#include "tests/fake/nccl/later_types.h"
#include "tests/fake/nccl/recorder.h"

extern "C" {
#define FAKE_NCCL(Name, parameters, ...) ncclResult_t nccl##Name parameters;
#include "tests/fake/nccl/functions.def"
#undef FAKE_NCCL
const char* ncclGetErrorString(ncclResult_t result);
const char* pncclGetErrorString(ncclResult_t result);
const char* ncclGetLastError(ncclComm_t comm);
const char* pncclGetLastError(ncclComm_t comm);
void ncclResetDebugInit();
void ncclParamDumpAll();
}

namespace cinch::test {
namespace {

int failures = 0;

void expect(bool good, const char* what) {
  if (good) return;
  fprintf(stderr, "%s\n", what);
  ++failures;
}

// Hands out the arguments of one call by their types, all pointers and numbers different where
// NCCL's rules leave a choice.
class Arguments {
 public:
  // `creates`: the numbers are to say that a communicator of one rank is wanted.
  Arguments(std::string_view function, bool creates) : creates_(creates) {
    expect(ncclGetUniqueId(&id_) == ncclSuccess, "no id");
    expect(ncclCommInitRank(&comm_, 1, id_, 0) == ncclSuccess, "no communicator");
    expect(ncclGetUniqueId(&id_) == ncclSuccess, "no second id");
    if (function == "MemFree") toFree_ = malloc(1);
  }

  template <class T>
  T next() {
    if constexpr (std::is_same_v<T, ncclComm_t>) {
      return comm_;
    } else if constexpr (std::is_same_v<T, ncclUniqueId>) {
      return id_;
    } else if constexpr (std::is_same_v<T, ncclUniqueId*> ||
                         std::is_same_v<T, const ncclUniqueId*>) {
      return &id_;
    } else if constexpr (std::is_same_v<T, ncclConfig_t*>) {
      return &config_;
    } else if constexpr (std::is_pointer_v<T>) {
      return reinterpret_cast<T>(nextPointer());
    } else if constexpr (std::is_enum_v<T>) {
      return static_cast<T>(1);
    } else {
      return static_cast<T>(creates_ ? ++nNumbers_ % 2 : 100 + ++nNumbers_);
    }
  }

 private:
  struct alignas(16) Scratch {
    char bytes[256] = {};
  };

  void* nextPointer() {
    return toFree_ != nullptr ? std::exchange(toFree_, nullptr) : &scratch_[nPointers_++];
  }

  const bool creates_;
  ncclComm_t comm_ = nullptr;
  ncclUniqueId id_{};
  ncclConfig_t config_ = NCCL_CONFIG_INITIALIZER;
  void* toFree_ = nullptr;
  std::array<Scratch, fake::kMaxArgs> scratch_{};
  int nPointers_ = 0;
  int nNumbers_ = 0;
};

void expectArrived(const char* name, const std::vector<uint64_t>& wanted) {
  std::array<uint64_t, fake::kMaxArgs> seen{};
  const int n = fakeNcclLastCall(name, seen.data(), static_cast<int>(seen.size()));
  expect(n == static_cast<int>(wanted.size()), "another number of arguments arrived");
  for (size_t i = 0; i < wanted.size() && n > 0; ++i)
    expect(seen[i] == wanted[i], "an argument changed on the way");
}

// What a group function needs before it.
void openGroup(std::string_view function) {
  if (function == "GroupEnd" || function == "GroupSimulateEnd")
    expect(ncclGroupStart() == ncclSuccess, "no group");
}

// Runs `call`, which passes `values` to the function.
template <class... Parameters, class Call>
void expectOneArrival(const char* name, const std::tuple<Parameters...>& values, Call call) {
  const int64_t before = fakeNcclCalls(name);
  call();
  expect(fakeNcclCalls(name) == before + 1, "did not arrive exactly once");
  expectArrived(name, std::apply(
                          [](const Parameters&... value) {
                            return std::vector<uint64_t>{fake::widen(value)...};
                          },
                          values));
}

template <class... Parameters>
void check(const char* name, ncclResult_t (*function)(Parameters...)) {
  for (const ncclResult_t answer : {ncclSuccess, ncclInvalidUsage}) {
    Arguments arguments(name, (std::is_same_v<Parameters, ncclComm_t*> || ...));
    const std::tuple<Parameters...> values{arguments.next<Parameters>()...};
    openGroup(name);
    fakeNcclSetResult(name, answer);
    expectOneArrival(name, values, [&] {
      expect(std::apply(function, values) == answer, "its answer did not come back");
    });
    fakeNcclSetResult(name, ncclSuccess);
  }
}

template <class Parameter>
void check(const char* name, const char* (*function)(Parameter), const char* (*twin)(Parameter)) {
  Arguments arguments(name, false);
  const std::tuple<Parameter> values{arguments.next<Parameter>()};
  const char* text = nullptr;
  expectOneArrival(name, values, [&] { text = std::apply(function, values); });
  expect(text == std::apply(twin, values), "its answer did not come back");
}

void check(const char* name, void (*function)()) {
  expectOneArrival(name, std::tuple<>(), function);
}

struct Function {
  const char* name;
  const void* address;
  void (*check)();
};

#define FUNCTION(Name, ...) \
  {#Name, reinterpret_cast<const void*>(nccl##Name), [] { check(#Name, __VA_ARGS__); }},

const Function kFunctions[] = {
#define FAKE_NCCL(Name, ...) FUNCTION(Name, nccl##Name)
#include "tests/fake/nccl/functions.def"
#undef FAKE_NCCL
    FUNCTION(GetErrorString, ncclGetErrorString, pncclGetErrorString)
        FUNCTION(GetLastError, ncclGetLastError, pncclGetLastError)
            FUNCTION(ResetDebugInit, ncclResetDebugInit) FUNCTION(ParamDumpAll, ncclParamDumpAll)};

const Function* find(std::string_view function) {
  for (const Function& known : kFunctions)
    if ("nccl" + std::string(known.name) == function) return &known;
  return nullptr;
}

}  // namespace
}  // namespace cinch::test

int main(int argc, char** argv) {
  const cinch::test::Function* function = argc == 2 ? cinch::test::find(argv[1]) : nullptr;
  if (function == nullptr) return fprintf(stderr, "usage: one_call FUNCTION, of NCCL\n"), 2;
  function->check();
  Dl_info where{};
  if (dladdr(function->address, &where) == 0) return fprintf(stderr, "bound to nothing\n"), 1;
  printf("%s\n", where.dli_fname);
  return cinch::test::failures == 0 ? 0 : 1;
}
