/* Contents that say where they belong: what `key` gives at each offset. */
#ifndef CINCH_TESTS_NET_CONFORMANCE_PATTERN_H_
#define CINCH_TESTS_NET_CONFORMANCE_PATTERN_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void fillPattern(uint8_t* data, size_t nBytes, uint64_t key);
/* The offset of the first byte that is different, or nBytes. */
size_t firstWrongByte(const uint8_t* data, size_t nBytes, uint64_t key);

/* What buffers hold before anything was received. */
void fillUntouched(uint8_t* data, size_t nBytes);
bool isUntouched(const uint8_t* data, size_t nBytes);

#endif
