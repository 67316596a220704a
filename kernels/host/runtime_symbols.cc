#include "kernels/host/runtime_symbols.h"

#include <dlfcn.h>

#include "kernels/device_table.h"

namespace cinch::host {
namespace {

template <class Function>
bool find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  return function != nullptr;
}

bool findIn(void* library, RuntimeSymbols& symbols) {
  bool complete = dlsym(library, kEmulatorMarkerSymbol) != nullptr;
#define CINCH_FIND(name, ...) complete = complete && find(library, #name, symbols.name);
  CINCH_RUNTIME_SYMBOLS(CINCH_FIND)
#undef CINCH_FIND
  return complete && find(library, "cudaGetErrorName", symbols.cudaGetErrorName) &&
         find(library, "cudaGetLastError", symbols.cudaGetLastError);
}

}  // namespace

bool findRuntimeSymbols(RuntimeSymbols& symbols) {
  if (findIn(RTLD_DEFAULT, symbols)) return true;
  // Loaded for its importer alone, as Python's extension modules are. The reference is kept: the
  // functions must stay.
  void* library = dlopen("libcudart.so.13", RTLD_LAZY | RTLD_NOLOAD);
  return library && findIn(library, symbols);
}

}  // namespace cinch::host
