// That both ends of a connection of the control channel hold the key that CINCH_KEY_FILE names,
// where it names one, before a rank says hello over it:
//
//   process                                     server
//      | opening: a random number                  |
//      |------------------------------------------>|
//      |         challenge: another one, and proof |
//      |<------------------------------------------|
//      | proof                                     |
//      |------------------------------------------>|   hellos
//
// A proof is HMAC-SHA256 of who gives it and both numbers. It says who is there when the connection
// is opened, no more, like the net plugin's (net_plugin/wire/handshake.h).
#pragma once

#include <optional>

#include "common/network/secret.h"
#include "common/network/socket.h"
#include "common/result.h"
#include "interpose/agree/agreement_wire.h"

namespace cinch {

// The key of this process; empty: it has none. The error names the file and what is wrong with it.
Result<Key> channelKey();

// For the connecting end, of a connection over which nothing else has gone. The error says which
// end has what key.
Result<void> proveKey(const Socket& socket, const Key& key, Deadline deadline);

// For the server, of one connection. Pure, but for the random number.
class KeyCheck {
 public:
  // `key` outlives this.
  explicit KeyCheck(const Key& key) : key_(&key), isProven_(key.empty()) {}

  // Errors are for the other side; the connection is of no use then.
  Result<Challenge> take(const Opening& opening);
  Result<void> take(const KeyProof& proof);
  // Whether what is not about keys may come; the error is for the other side.
  Result<void> mayGoOn() const;

 private:
  const Key* key_;
  bool isProven_;
  std::optional<Proof> awaited_;
};

}  // namespace cinch
