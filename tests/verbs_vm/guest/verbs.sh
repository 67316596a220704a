# Included by guest scripts after hosts.sh and yardstick.sh: the net plugin of the build folder $BUILD
# over verbs. What they find goes to /out, as lines of JSON.

PLUGIN="$BUILD/lib/libnccl-net-cinch.so"
HARNESS="$BUILD/tests/net_conformance"

# A way is given up after some 4 s, longer than a busy machine keeps this one waiting. On Soft-RoCE a retry count of 7,
# NCCL's default, means for ever.
export NCCL_IB_TIMEOUT=18 NCCL_IB_RETRY_CNT=3

# over_verbs QUEUES SPLIT OPTIONS...: the harness, whose rank 0 has the devices of host a and rank 1
# those of b. SPLIT is 1 where a message is divided among the queues.
over_verbs() {
  local queues="$1" split="$2"
  shift 2
  CINCH_NET=verbs NCCL_IB_QPS_PER_CONNECTION="$queues" NCCL_IB_SPLIT_DATA_ON_QPS="$split" \
    "$HARNESS" --rank-env 0:NCCL_IB_HCA=rxe_a --rank-env 1:NCCL_IB_HCA=rxe_b "$@" "$PLUGIN"
}

# conform VERSION QUEUES SPLIT OPTIONS...
conform() {
  local version="$1" queues="$2" split="$3" result=pass log=/tmp/conform
  shift 3
  over_verbs "$queues" "$split" --verbose --versions "$version" "$@" >$log 2>&1 || result=fail
  [ $result = pass ] || cat $log >&2
  echo "guest: $version, queues: $queues, split: $split: $result" >&2
  echo "{\"version\":\"$version\",\"queues\":$queues,\"split\":$split,\"cases\":$(grep -c ' pass  ' $log),\"result\":\"$result\"}" \
    >>/out/conformance.jsonl
  [ $result = pass ]
}

# field NAME: of the JSON line that is read, where its value is a number.
field() { sed -n "s/.*\"$1\":\([0-9.]*\).*/\1/p"; }

# compare_goodput QUEUES MESSAGES SECONDS TURN: 1 MiB messages of ib_write_bw and of the plugin with as
# many queue pairs, one right after the other, in every second turn the plugin first: the machine below
# drifts. Of the plugin as many in flight as the interface allows, which
# are fewer than ib_write_bw's 128 for each queue pair. ib_write_bw's receiver sleeps. Ours polls as its
# sender does, and the kernel that moves the bytes has to do with what the two leave of two processors:
# so those that find nothing to do sleep 300 us. "polling" is without that, as NCCL is.
compare_goodput() {
  local theirs ours polling
  [ $(($4 % 2)) = 0 ] || ours="$(stream_goodput "$1" "$3" --pause 300)" || exit 1
  theirs="$(write_bw 0 "$1" "$2")" || exit 1
  [ $(($4 % 2)) = 1 ] || ours="$(stream_goodput "$1" "$3" --pause 300)" || exit 1
  polling="$(stream_goodput "$1" "$3")" || exit 1
  echo "guest: queue pairs: $1, ib_write_bw MiB/s: ${theirs# }, plugin Gbit/s: $ours, polling: $polling" >&2
  echo "{\"queues\":$1,\"ib_write_bw_mib_per_s\":${theirs# },\"plugin_gbit_per_s\":$ours,\"polling_gbit_per_s\":$polling}" \
    >>/out/goodput.jsonl
}

# stream_goodput QUEUES SECONDS OPTIONS...: prints Gbit/s.
stream_goodput() {
  local queues="$1" seconds="$2" found
  shift 2
  found="$(over_verbs "$queues" 0 --bench stream --window 32 --seconds "$seconds" "$@" 2>&1 | field gbit_per_s)"
  [ -n "$found" ] || fail "the plugin gives no figure with $queues queue pairs"
  echo "$found"
}

# Ways for a link to end: down at the receiver's or the sender's side, or what either sends is lost.
break_link() {
  case "$1" in
    receiver_down) link_down a0 ;;
    sender_down) link_down b0 ;;
    data_lost) lose_packets b0 ;;
    answers_lost) lose_packets a0 ;;
  esac
}
mend_link() {
  case "$1" in
    receiver_down) link_up a0 ;;
    sender_down) link_up b0 ;;
    data_lost) keep_packets b0 ;;
    answers_lost) keep_packets a0 ;;
  esac
  wait_until 5 is_active a0 && wait_until 5 is_active b0 || fail "the link does not come back"
}

is_gone() { ! kill -0 "$1" 2>/dev/null; }
has_sent() { [ "$(sent_bytes "$1")" -gt "$2" ]; }
has_begun() { has_sent b0 "$2" || is_gone "$1"; }

# start_transfer MESSAGES: of 300,001 bytes each, of which every one is compared; in the background, as
# $job. Its log is $log. A way is given up after some 0.3 s.
log=/tmp/transfer
start_transfer() {
  NCCL_IB_TIMEOUT=14 over_verbs "$queues" 0 --verbose --bench check --bytes 300001 --messages "$1" --timeout 60 >$log 2>&1 &
  job=$!
}

# lose_link HOW QUEUES AFTER_BYTES MESSAGES: a transfer whose link 0 ends after so many bytes; sets
# result. All have to arrive.
lose_link() {
  local queues="$2" job before
  result=pass
  before="$(sent_bytes b0)"
  start_transfer "$4"
  until has_begun $job $((before + $3)); do :; done
  break_link "$1"
  wait_until 30 is_gone $job || { result=hang; kill $job; }
  wait $job || [ $result = hang ] || result=fail
  mend_link "$1"
}

# tell_failure HOW QUEUES AFTER_BYTES SECONDS: of the transfer that was; true where it passed.
tell_failure() {
  [ $result = pass ] || cat $log >&2
  echo "guest: $1 after $3 bytes, queues: $2: $result" >&2
  echo "{\"how\":\"$1\",\"queues\":$2,\"after_bytes\":$3,\"seconds\":$4,\"result\":\"$result\"}" \
    >>/out/failures.jsonl
  [ $result = pass ]
}

# fail_over HOW QUEUES AFTER_BYTES: in the middle of 192 messages, so that the rest goes over link 1.
fail_over() {
  local result start over_second
  over_second="$(sent_bytes b1)"
  start="$(uptime_centiseconds)"
  lose_link "$@" 192
  grep -q 'going on over' $log || result="${result}_without_moving"
  [ "$(sent_bytes b1)" -gt "$over_second" ] || result="${result}_without_link_1"
  tell_failure "$@" $(($(uptime_centiseconds) - start))e-2
}

# fail_late QUEUES BYTES: no answer comes to so much at the end of 48 messages. Their receiver may have
# all and call the plugin no more, until the sender has its answers, too.
fail_late() {
  local result start after=$((48 * 300001 - $2))
  start="$(uptime_centiseconds)"
  lose_link answers_lost "$1" $after 48
  tell_failure answers_lost "$1" $after $(($(uptime_centiseconds) - start))e-2
}

# fail_everywhere: where no link is left the transfer ends with an error that names a device.
fail_everywhere() {
  local result=pass queues=1 before job
  before="$(sent_bytes b0)"
  start_transfer 192
  until has_begun $job $((before + 1000000)); do :; done
  link_down a1
  link_down a0
  wait_until 30 is_gone $job || { result=hang; kill $job; }
  wait $job && result=no_error
  grep -q 'rxe_[ab][01]:1.*there is no other device' $log || result="${result}_without_a_name"
  link_up a0
  link_up a1
  wait_until 5 is_active a0 && wait_until 5 is_active a1 || fail "the links do not come back"
  tell_failure both_down $queues 1000000 0
}

# choose_transport: CINCH_NET=auto takes verbs on a host that has them, and who connects to a host that
# takes something else is told.
choose_transport() {
  local log=/tmp/choose
  over_verbs 1 0 --rank-env 0:CINCH_NET=auto --rank-env 1:CINCH_NET=auto --verbose \
    --versions v12 --cases fifo >$log 2>&1 && grep -q 'queues of rxe_a0:1' $log || \
    { cat $log >&2; fail "CINCH_NET=auto does not take verbs"; }
  over_verbs 1 0 --rank-env 1:CINCH_NET=socket --verbose --versions v12 --cases fifo \
    >$log 2>&1 && fail "one side over verbs, the other over sockets"
  grep -q 'listens over .* this process sends over' $log || { cat $log >&2; fail "no word of the two transports"; }
}
