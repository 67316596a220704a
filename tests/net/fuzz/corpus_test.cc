// What make_corpus.py writes by the document alone is what the code takes.
#include <gtest/gtest.h>

#include "net_plugin/wire/record.h"
#include "tests/net/fuzz/corpus.h"
#include "tests/unit/net_plugin/wire/wire_support.h"

namespace cinch::net {
namespace {

TEST(Corpus, HasARecordOfEveryType) {
  std::vector<int> seen(11);
  for (const auto& entry : std::filesystem::directory_iterator(kCorpus / "record")) {
    const std::vector<uint8_t> bytes = contentOf(entry.path());
    ASSERT_EQ(bytes.size(), kRecordBytes) << entry.path();
    EXPECT_TRUE(parseRecord(std::span(bytes).first<kRecordBytes>())) << entry.path();
    if (bytes[0] < seen.size()) ++seen[bytes[0]];
  }
  for (size_t type = 1; type < seen.size(); ++type) EXPECT_GT(seen[type], 0) << type;
}

TEST(Corpus, HasAHelloThatIsTaken) {
  for (bool keyed : {false, true}) {
    const auto bytes = contentOf(kCorpus / "handshake" / (keyed ? "hello_keyed" : "hello_plain"));
    ASSERT_GT(bytes.size(), 1 + kHelloBytes);
    ListeningHandshake listening(kListening, 6, keyed ? key(1) : Key());
    const auto hello = listening.takeHello(std::span(bytes).subspan<1, kHelloBytes>());
    ASSERT_TRUE(hello.ok()) << hello.error().message;
    EXPECT_EQ(hello.value(), (Hello{5, 0, 4, 3, kConnecting, kListening}));
  }
}

}  // namespace
}  // namespace cinch::net
