# The full matrix of what the transport over verbs has to do on a kernel's provider.
. /guest/hosts.sh
. /guest/yardstick.sh
. /guest/verbs.sh
. /guest/training.sh

FAILURES=20
HOWS="sender_down receiver_down data_lost answers_lost"

# nth N WORDS...: the word at N modulo their number, from 0.
nth() {
  local n="$1"
  shift
  shift $((n % $#))
  echo "$1"
}

status=0
make_hosts
choose_transport
for queues in 1 4; do
  for turn in $(seq 7); do
    compare_goodput $queues $((160 / queues)) 4 "$turn" || status=1
  done
done
compare_training || status=1
for turn in $(seq 0 $((FAILURES - 1))); do
  # As many turns with each way are spread over the numbers of queues.
  fail_over "$(nth "$turn" $HOWS)" "$(nth "$turn" 1 2 4)" $((200000 + turn * 500000)) || status=1
done
for turn in $(seq 0 5); do
  fail_late "$(nth "$turn" 1 2 4)" $((500000 + turn * 200000)) || status=1
done
fail_everywhere || status=1
for version in v8 v9 v10 v11 v12; do
  conform $version 1 0 || status=1
  for queues in 2 4; do
    conform $version $queues 0 || status=1
    conform $version $queues 1 || status=1
  done
done
exit $status
