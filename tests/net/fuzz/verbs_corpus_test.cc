// What make_corpus.py writes of cards and control messages by the headers alone is what the code
// takes.
#include <gtest/gtest.h>

#include "net_plugin/ib/card.h"
#include "net_plugin/ib/control.h"
#include "tests/net/fuzz/corpus.h"

namespace cinch::net::ib {
namespace {

TEST(VerbsCorpus, IsTaken) {
  size_t nCards = 0;
  std::vector<bool> kinds(std::variant_size_v<ControlMessage>);
  for (const auto& entry : std::filesystem::directory_iterator(kCorpus / "verbs")) {
    SCOPED_TRACE(entry.path());
    const std::vector<uint8_t> bytes = contentOf(entry.path());
    ASSERT_GT(bytes.size(), 1u);
    const auto message = std::span(bytes).subspan(1);
    if (bytes[0] == 0) {
      const Result<Card> card = parseCard(message);
      ASSERT_TRUE(card.ok()) << card.error().message;
      ++nCards;
    } else {
      const Result<ControlMessage> control = parseControl(message);
      ASSERT_TRUE(control.ok()) << control.error().message;
      kinds[control.value().index()] = true;
    }
  }
  EXPECT_EQ(nCards, 2u);
  EXPECT_EQ(kinds, std::vector<bool>(kinds.size(), true));
}

}  // namespace
}  // namespace cinch::net::ib
