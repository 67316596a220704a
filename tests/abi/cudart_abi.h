// What the CUDA headers say, as seen by one translation unit: compiled once with the emulator's
// headers and once with the toolkit's.
#pragma once

#include <cstddef>
#include <string>

struct CudartAbi {
  struct Row {
    const char* name;
    long number;       // a value, size or offset
    const char* type;  // mangled, of a pointer to the function; "" for other rows
  };
  const Row* rows;
  size_t nRows;
  int version;  // CUDART_VERSION of the headers

  // A small program, compiled with these headers: "" or what went wrong.
  std::string (*run)();
};

const CudartAbi& emulatorHeaders();
#ifdef CINCH_TOOLKIT_HEADERS
const CudartAbi& toolkitHeaders();
#endif
