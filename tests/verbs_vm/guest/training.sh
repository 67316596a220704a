# Included by guest scripts after hosts.sh: a training job of two ranks, one on each host, with Cinch
# and its net plugin on the emulated CUDA and NCCL of the build folder $BUILD. It learns from $DOCS.

TRAINING_STEPS=20
# Fewer than 200,000 parameters.
TRAINING_WIDTH=96

# start_rank TRANSPORT RANK HOST: becomes the rank; to be started with &.
start_rank() {
  export CINCH_NET="$1" NCCL_HOSTID="$3" NCCL_IB_HCA="rxe_$3" NCCL_SOCKET_IFNAME=mgmt
  export NCCL_NET_PLUGIN="$BUILD/lib/libnccl-net-cinch.so" NCCL_NET=Cinch NCCL_DEBUG=INFO
  # What would depend on time: which strategy is the faster one.
  export CINCH_WHEN=always CINCH_STATS="/out/training.$1.$2"
  export OPENBLAS_NUM_THREADS=1
  export LD_PRELOAD="$BUILD/lib/libcinch.so"
  start_on_host "$3" "$BUILD/bin/train_lm" --ranks 2 --rank "$2" --id-file "/tmp/training.$1" \
    --steps $TRAINING_STEPS --hidden $TRAINING_WIDTH --batch 8 --text /tmp/training.text \
    --log "/out/training.$1.$2.jsonl" >"/tmp/training.$1.$2" 2>&1
}

# train TRANSPORT: prints what both ranks say of their end; train_lm itself fails where their
# parameters are not the same in every bit.
train() {
  local first second
  start_rank "$1" 0 a &
  first=$!
  start_rank "$1" 1 b &
  second=$!
  wait $first && wait $second || fail "training over $1: $(cat "/tmp/training.$1".?)"
  grep -q "CINCH/NET connection .*$2" "/tmp/training.$1.0" || fail "not over $1: $(cat "/tmp/training.$1.0")"
  tail -n 1 "/out/training.$1.0.jsonl"
  tail -n 1 "/out/training.$1.1.jsonl"
}

# compare_training: over verbs and over sockets, all four ranks end with the same parameters and loss.
compare_training() {
  local ends
  cat "$DOCS"/*.md >/tmp/training.text
  train verbs "queues of rxe_a0" >/tmp/training.ends || exit 1
  train socket "flows of mgmt" >>/tmp/training.ends || exit 1
  ends="$(sort -u /tmp/training.ends | wc -l)"
  echo "guest: training: $(sort -u /tmp/training.ends)" >&2
  [ "$ends" = 1 ]
}
