// Status and Result: how a fallible function says that it failed, and why.
//
// No exceptions cross a call path. A Status becomes an ncclResult_t only in interpose/entry/.
#pragma once

#include <cstdarg>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

namespace cinch {

// The numbers are those of ncclResult_t (NCCL 2.18 and later), so that entry/ converts by a cast.
enum class Status : int {
  ok = 0,
  cudaError = 1,
  systemError = 2,
  internalError = 3,
  invalidArgument = 4,
  invalidUsage = 5,
  remoteError = 6,
  inProgress = 7,
};

// What went wrong, and what the reader can do about it.
struct Error {
  Status status = Status::internalError;
  std::string message;
};

// Builds an Error with a printf-style message.
[[gnu::format(printf, 2, 3)]] inline Error errorf(Status status, const char* format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return Error{status, text};
}

// A value or an Error. `value()` may be called only when `ok()`.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}
  Result(Error error) : error_(std::move(error)) {}

  bool ok() const { return value_.has_value(); }
  explicit operator bool() const { return ok(); }
  T& value() { return *value_; }
  const T& value() const { return *value_; }
  const Error& error() const { return error_; }

 private:
  std::optional<T> value_;
  Error error_;
};

// Success, or an Error.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Error& error() const { return *error_; }

 private:
  std::optional<Error> error_;
};

}  // namespace cinch

// Returns the error of `expression` (a Result) from the enclosing function, if it has one.
#define CINCH_TRY(expression)                                                 \
  do {                                                                        \
    if (auto&& result_ = (expression); !result_.ok()) return result_.error(); \
  } while (0)
