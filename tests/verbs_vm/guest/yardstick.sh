# Included by guest scripts after hosts.sh: what ib_write_bw moves from host a to host b.

MESSAGE_BYTES=1048576

is_listening() { on_host b netstat -ltn | grep -q ":$1 "; }

# start_write_bw LINK QUEUE_PAIRS MESSAGES: sets RECEIVER and SENDER to the processes; the sender prints
# MiB/s into /tmp/write_bw.
start_write_bw() {
  local options="-x 1 -q $2 -n $3 -s $MESSAGE_BYTES -F --output=bandwidth"
  start_on_host b ib_write_bw -d "rxe_b$1" $options >/tmp/write_bw_receiver 2>&1 &
  RECEIVER=$!
  wait_until 10 is_listening 18515 || \
    fail "ib_write_bw does not listen: $(cat /tmp/write_bw_receiver)"
  start_on_host a ib_write_bw -d "rxe_a$1" $options 192.168.9.2 >/tmp/write_bw 2>&1 &
  SENDER=$!
}

# As write_bw, once. Where other processes take the emulator's time, ib_write_bw sometimes says 0: it
# reckons with the processor's cycles.
write_bw_once() {
  start_write_bw "$@"
  wait "$SENDER" || fail "ib_write_bw with $2 queue pairs: $(cat /tmp/write_bw)"
  wait "$RECEIVER"
  tail -n 1 /tmp/write_bw
}

# write_bw LINK QUEUE_PAIRS MESSAGES: prints MiB/s, of so many messages from each queue pair.
write_bw() {
  local attempt rate
  for attempt in 1 2 3; do
    rate="$(write_bw_once "$@")" || exit 1
    case "$rate" in *[1-9]*) echo "$rate" && return ;; esac
  done
  fail "ib_write_bw gives no figure: $(cat /tmp/write_bw)"
}
