// That both ends of the control channel hold the key that CINCH_KEY_FILE names: a rank's hello has
// a random number and a proof, and so has the answer. Proofs are HMAC-SHA256 of who gives them,
// that number, the session and the rank: they are of no use in another session or for another rank,
// and not before somebody has the communicator's id. They say who is there when a rank joins, no
// more, as the net plugin's do for a flow (net_plugin/wire/handshake.h). Pure, but for the file and
// random numbers.
#pragma once

#include "common/network/secret.h"
#include "common/result.h"
#include "interpose/agree/agreement_wire.h"

namespace cinch {

// The key of this process; empty: it has none. The error names the file and what is wrong with it.
Result<Key> channelKey();

// What a rank says hello for. A proof for one is none for the other.
enum class Purpose : uint8_t { join, ask };

// For a rank: puts a new number and the proof into its hello, where there is a key.
void sign(HelloMessage& hello, const Key& key, Purpose purpose);
// For the server: what the answer proves, nothing where neither has a key. An error is for the
// other side, which must not join then, nor be told anything.
Result<Proof> answerTo(const HelloMessage& hello, const Key& key, Purpose purpose);
// For the rank again: whether the server holds the key of this hello, too.
Result<void> checkAnswer(const HelloMessage& hello, const Acknowledged& answer, const Key& key);

}  // namespace cinch
