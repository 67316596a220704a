# What the other tests in the machine build on: RDMA goes over the links, and ends with them.
. /guest/hosts.sh
. /guest/yardstick.sh

MESSAGES=24

# measure QUEUE_PAIRS: ib_write_bw's figure, when its bytes were seen on the link.
measure() {
  local before="$(sent_bytes a0)" rate sent
  rate="$(write_bw 0 "$1" $MESSAGES)" || exit 1
  sent=$(($(sent_bytes a0) - before))
  [ $sent -gt $((MESSAGES * $1 * MESSAGE_BYTES)) ] || fail "only $sent bytes went over the link"
  echo "guest: queue pairs: $1, MiB/s: ${rate# }" >&2
  echo "\"$1\":${rate# }"
}

has_sent() { [ "$(sent_bytes "$1")" -gt "$2" ]; }
saw_port_error() { grep -q IBV_EVENT_PORT_ERR "/tmp/events_$1"; }
is_gone() { ! kill -0 "$1" 2>/dev/null; }

# Takes link 1 down under a transfer; prints the hundredths of a second until the sender ended. Or
# null: ib_write_bw asks for 7 retries, which mean for ever, so where it has sent all that it may, and
# waits for an answer, it does not end.
break_transfer() {
  local device watchers="" start
  for device in rxe_a1 rxe_b1; do
    ibv_asyncwatch -d $device >/tmp/events_$device 2>&1 &
    watchers="$watchers $!"
  done
  start_write_bw 1 1 5000
  wait_until 20 has_sent a1 $((4 * MESSAGE_BYTES)) || fail "no transfer to break"
  start="$(uptime_centiseconds)"
  link_down a1
  if wait_until 5 is_gone "$SENDER"; then
    echo $(($(uptime_centiseconds) - start))
    wait "$SENDER" && fail "the sender ended without an error over a link that is down"
  else
    echo null
    kill "$SENDER"
  fi
  for device in rxe_a1 rxe_b1; do
    wait_until 5 saw_port_error $device || fail "no IBV_EVENT_PORT_ERR on $device"
  done
  kill $watchers
  is_gone "$RECEIVER" || kill "$RECEIVER"
}

make_hosts
rates="$(measure 1)" || exit 1
for pairs in 2 4; do
  rates="$rates,$(measure $pairs)" || exit 1
done
centiseconds="$(break_transfer)" || exit 1
link_up a1
wait_until 5 is_active a1 || fail "the link does not come back"
write_bw 1 1 8 >/dev/null || exit 1
echo "{\"mib_per_second\":{$rates},\"centiseconds_to_error\":$centiseconds}" | tee /out/boot_test.json
