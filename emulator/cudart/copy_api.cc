// Copies and fills.

#include <cstdint>
#include <cstring>

#include "emulator/cudart/api.h"
#include "emulator/cudart/capture_rules.h"
#include "emulator/cudart/device.h"
#include "emulator/cudart/memory.h"
#include "emulator/cudart/stream.h"

namespace cinch::cudart {
namespace {

// Where a range lies: memory that the device can reach (allocated here, also pinned), or elsewhere.
enum class Place { reachable, elsewhere, crossesItsEnd };

Place placeOf(const void* pointer, size_t nBytes) {
  const auto allocation = Memory::instance().find(pointer);
  if (!allocation) return Place::elsewhere;
  const size_t offset = static_cast<const char*>(pointer) - static_cast<char*>(allocation->base);
  return nBytes <= allocation->nBytes - offset ? Place::reachable : Place::crossesItsEnd;
}

// Whether `kind` may name the range, the end of the copy that is device memory if `device`.
bool endAllowed(const void* pointer, size_t nBytes, bool device) {
  const Place place = placeOf(pointer, nBytes);
  return place == Place::reachable || (place == Place::elsewhere && !device);
}

// Which ends of a copy must be memory that the device can reach.
struct Ends {
  bool to;
  bool from;
};

Ends namesDevice(cudaMemcpyKind kind) {
  return {kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice,
          kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice};
}

cudaError_t checkCopy(const void* to, const void* from, size_t nBytes, cudaMemcpyKind kind) {
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault)
    return cudaErrorInvalidMemcpyDirection;
  const Ends device = namesDevice(kind);
  const bool allowed =
      nBytes == 0 || (to != nullptr && from != nullptr && endAllowed(to, nBytes, device.to) &&
                      endAllowed(from, nBytes, device.from));
  return allowed ? cudaSuccess : cudaErrorInvalidValue;
}

bool isDevice(const void* pointer) {
  const auto allocation = Memory::instance().find(pointer);
  return allocation && allocation->traits.type == cudaMemoryTypeDevice;
}

// The caller copies, once all work that the null stream is ordered with is done. A copy between
// device buffers does not wait, as on a GPU.
cudaError_t copy(void* to, const void* from, size_t nBytes, cudaMemcpyKind kind) {
  if (const cudaError_t error = checkCopy(to, from, nBytes, kind); error != cudaSuccess)
    return error;
  const auto stream = findStream(cudaStreamLegacy);
  if (const cudaError_t error = checkWait(*stream); error != cudaSuccess) return error;
  if (nBytes != 0 && isDevice(to) && isDevice(from)) {
    stream->submit([=] { std::memmove(to, from, nBytes); });
    return cudaSuccess;
  }
  stream->synchronize();
  if (nBytes != 0) std::memmove(to, from, nBytes);
  return cudaSuccess;
}

// Reads `from` when the copy runs, also where it is pageable: a program that changes it before the
// stream gets there is wrong here, and would be with pinned memory on a GPU.
cudaError_t copyAsync(void* to, const void* from, size_t nBytes, cudaMemcpyKind kind,
                      Stream& stream) {
  const cudaError_t error = checkCopy(to, from, nBytes, kind);
  if (error != cudaSuccess || nBytes == 0) return error;
  return perform(stream, cudaGraphNodeTypeMemcpy,
                 [=](Stream& lane) { lane.submit([=] { std::memmove(to, from, nBytes); }); });
}

// Rows of a matrix: the first bytes of each, at a distance of `pitch` bytes.
struct Rows {
  size_t pitch;
  size_t width;
  size_t height;

  bool isEmpty() const { return width == 0 || height == 0; }
  bool fitsAddresses() const { return pitch <= (SIZE_MAX - width) / height; }
  size_t span() const { return (height - 1) * pitch + width; }  // of rows that are not empty
};

cudaError_t checkRows(const void* memory, const Rows& rows, bool device) {
  const bool allowed =
      memory != nullptr && rows.fitsAddresses() && endAllowed(memory, rows.span(), device);
  return allowed ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t checkRowCopy(const void* to, const Rows& toRows, const void* from, const Rows& fromRows,
                         cudaMemcpyKind kind) {
  if (const cudaError_t error = checkCopy(to, from, 0, kind); error != cudaSuccess) return error;
  if (toRows.width > toRows.pitch || fromRows.width > fromRows.pitch)
    return cudaErrorInvalidPitchValue;
  if (toRows.isEmpty()) return cudaSuccess;
  if (const cudaError_t error = checkRows(to, toRows, namesDevice(kind).to); error != cudaSuccess)
    return error;
  return checkRows(from, fromRows, namesDevice(kind).from);
}

void copyRows(void* to, const Rows& toRows, const void* from, const Rows& fromRows) {
  for (size_t row = 0; row < toRows.height; ++row)
    std::memmove(static_cast<char*>(to) + row * toRows.pitch,
                 static_cast<const char*>(from) + row * fromRows.pitch, toRows.width);
}

cudaError_t copyRowsAsync(void* to, const Rows& toRows, const void* from, const Rows& fromRows,
                          cudaMemcpyKind kind, Stream& stream) {
  const cudaError_t error = checkRowCopy(to, toRows, from, fromRows, kind);
  if (error != cudaSuccess || toRows.isEmpty()) return error;
  return perform(stream, cudaGraphNodeTypeMemcpy,
                 [=](Stream& lane) { lane.submit([=] { copyRows(to, toRows, from, fromRows); }); });
}

cudaError_t fillAsync(void* memory, int value, size_t nBytes, Stream& stream) {
  if (nBytes == 0) return cudaSuccess;
  if (placeOf(memory, nBytes) != Place::reachable) return cudaErrorInvalidValue;
  return perform(stream, cudaGraphNodeTypeMemset,
                 [=](Stream& lane) { lane.submit([=] { std::memset(memory, value, nBytes); }); });
}

cudaError_t fill(void* memory, int value, size_t nBytes) {
  const auto stream = findStream(cudaStreamLegacy);
  const cudaError_t error = checkWait(*stream);
  return error == cudaSuccess ? fillAsync(memory, value, nBytes, *stream) : error;
}

}  // namespace
}  // namespace cinch::cudart

using namespace cinch::cudart;

cudaError_t cudaMemcpy(void* to, const void* from, size_t nBytes, cudaMemcpyKind kind) {
  return api([&] { return copy(to, from, nBytes, kind); });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t nBytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return onStream(stream, [&](Stream& found) { return copyAsync(to, from, nBytes, kind, found); });
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t toPitch, const void* from, size_t fromPitch,
                              size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  return onStream(stream, [&](Stream& found) {
    return copyRowsAsync(to, {toPitch, width, height}, from, {fromPitch, width, height}, kind,
                         found);
  });
}

// All devices share their memory, so this is a copy like any other.
cudaError_t cudaMemcpyPeerAsync(void* to, int toDevice, const void* from, int fromDevice,
                                size_t nBytes, cudaStream_t stream) {
  return onStream(stream, [&](Stream& found) {
    if (!deviceExists(toDevice) || !deviceExists(fromDevice)) return cudaErrorInvalidDevice;
    return copyAsync(to, from, nBytes, cudaMemcpyDeviceToDevice, found);
  });
}

cudaError_t cudaMemset(void* memory, int value, size_t nBytes) {
  return api([&] { return fill(memory, value, nBytes); });
}

cudaError_t cudaMemsetAsync(void* memory, int value, size_t nBytes, cudaStream_t stream) {
  return onStream(stream, [&](Stream& found) { return fillAsync(memory, value, nBytes, found); });
}
