// libFuzzer target: both sides of an opening judge arbitrary bytes, and honest ones of which some
// bits are flipped. Nobody gets in with a proof that he cannot make.
//
// Input: one byte of choices, then a Hello, a Welcome and a Confirm, or what is to be flipped in
// those of an honest opening.
#include "net_plugin/wire/handshake.h"
#include "tests/net/fuzz/fuzz_support.h"
#include "tests/unit/net_plugin/wire/wire_support.h"

namespace cinch::net {
namespace {

struct Input {
  explicit Input(FuzzBytes bytes)
      : choices(bytes.byte()),
        hello(bytes.take<kHelloBytes>()),
        welcome(bytes.take<kWelcomeBytes>()),
        confirm(bytes.take<kConfirmBytes>()) {}

  Key sharedKey() const { return (choices & 1) != 0 ? key(1) : Key(); }
  bool mendsChecksum() const { return (choices & 2) != 0; }
  bool isHonest() const { return (choices & 4) != 0; }

  uint8_t choices;
  HelloBytes hello;
  WelcomeBytes welcome;
  ConfirmBytes confirm;
};

void checkTaken(const Hello& hello) {
  require(hello.to == kListening, "a hello is for this process");
  require(hello.flows >= 1 && hello.flows <= kMaxFlows, "the flows of a link are bounded");
  require(hello.flow < hello.flows, "a flow is one of its link's");
  require(hello.from != Identity{}, "a process has an identity");
}

void judgeArbitrary(const Input& input) {
  ListeningHandshake listening(kListening, 6, input.sharedKey());
  const auto hello =
      listening.takeHello(input.mendsChecksum() ? withChecksum(input.hello) : input.hello);
  if (hello.ok()) checkTaken(hello.value());
  require(!listening.takeConfirm(input.confirm).ok(), "nobody guesses a confirmation");
  ConnectingHandshake connecting(sampleHello(), input.sharedKey());
  require(!connecting.takeWelcome(input.welcome).ok(), "nobody guesses a welcome");
  require(connecting.confirm().empty(), "nothing is proved to a stranger");
}

void judgeFlipped(const Input& input) {
  ConnectingHandshake connecting(sampleHello(), input.sharedKey());
  ListeningHandshake listening(kListening, 6, input.sharedKey());
  HelloBytes sent = masked(copyOf<kHelloBytes>(connecting.hello()), input.hello);
  if (input.mendsChecksum()) sent = withChecksum(sent);
  const bool isSame = sent == copyOf<kHelloBytes>(connecting.hello());
  const auto hello = listening.takeHello(sent);
  require(hello.ok() || !isSame, "an honest hello is taken");
  if (!hello.ok()) return;
  checkTaken(hello.value());
  const bool isWelcomed =
      connecting.takeWelcome(masked(copyOf<kWelcomeBytes>(listening.welcome()), input.welcome))
          .ok();
  require(isWelcomed == (isSame && isZero(input.welcome)), "a flipped bit is seen in the welcome");
  if (!isWelcomed || connecting.confirm().empty()) return;
  const auto confirm = masked(copyOf<kConfirmBytes>(connecting.confirm()), input.confirm);
  require(listening.takeConfirm(confirm).ok() == isZero(input.confirm),
          "a flipped bit is seen in the confirmation");
}

}  // namespace
}  // namespace cinch::net

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cinch::net;
  const Input input(FuzzBytes({data, size}));
  input.isHonest() ? judgeFlipped(input) : judgeArbitrary(input);
  return 0;
}
