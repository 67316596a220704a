// Whether a library that is closed goes away.
#pragma once

namespace cinch {

// Built for a sanitizer, libraries share libstdc++ with the program, and its unique symbols keep
// them for ever.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kLibrariesStay = true;
#else
inline constexpr bool kLibrariesStay = false;
#endif

}  // namespace cinch
