#include "tests/net/conformance/pattern.h"

#include <string.h>

enum { kWord = sizeof(uint64_t), kUntouched = 0xa5 };

static uint64_t wordAt(uint64_t key, size_t index) {
  return (key + index) * 0x9e3779b97f4a7c15u;
}

void fillPattern(uint8_t* data, size_t nBytes, uint64_t key) {
  const size_t nWords = nBytes / kWord;
  for (size_t i = 0; i < nWords; ++i) {
    const uint64_t word = wordAt(key, i);
    memcpy(data + i * kWord, &word, kWord);
  }
  const uint64_t last = wordAt(key, nWords);
  memcpy(data + nWords * kWord, &last, nBytes % kWord);
}

size_t firstWrongByte(const uint8_t* data, size_t nBytes, uint64_t key) {
  for (size_t at = 0; at < nBytes; at += kWord) {
    const uint64_t word = wordAt(key, at / kWord);
    const size_t n = nBytes - at < kWord ? nBytes - at : kWord;
    if (memcmp(data + at, &word, n) == 0) continue;
    const uint8_t* expected = (const uint8_t*)&word;
    size_t wrong = 0;
    while (data[at + wrong] == expected[wrong]) ++wrong;
    return at + wrong;
  }
  return nBytes;
}

void fillUntouched(uint8_t* data, size_t nBytes) {
  memset(data, kUntouched, nBytes);
}

bool isUntouched(const uint8_t* data, size_t nBytes) {
  if (nBytes == 0) return true;
  return data[0] == kUntouched && memcmp(data, data + 1, nBytes - 1) == 0;
}
