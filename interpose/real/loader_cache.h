// Reads what ldconfig wrote. Pure: bytes in, paths out.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cinch {

// Paths that the cache (the bytes of ld.so.cache, "glibc-ld.so.cache1.1") holds for a library name.
// Whatever is not such a cache, or points outside its bytes, gives nothing.
std::vector<std::string> findInLoaderCache(std::string_view cache, std::string_view library);

}  // namespace cinch
