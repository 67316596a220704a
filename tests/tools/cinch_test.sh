#!/usr/bin/env bash
# Runs `cinch` as a user does and compares status, output and the environment that it passes on.
#
#   cinch_test.sh CINCH PRELOADABLE_LIBRARY CONFIG_PAGE
set -u
set -o pipefail
cinch_source=$1 dummy=$2 config_page=$3

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir "$root/bin" "$root/lib"
cp "$cinch_source" "$root/bin/cinch"
cp "$dummy" "$root/lib/libcinch.so"
cp "$dummy" "$root/other.so"
cinch=$root/bin/cinch
library=$root/lib/libcinch.so

checks=0 failures=0

# expect WHAT ACTUAL EXPECTED
expect() {
  checks=$((checks + 1))
  [[ "$2" == "$3" ]] && return
  failures=$((failures + 1))
  printf 'FAILED: %s\n  expected: %s\n  actual:   %s\n' "$1" "$3" "$2"
}

# expect_part WHAT ACTUAL PART
expect_part() {
  checks=$((checks + 1))
  [[ "$2" == *"$3"* ]] && return
  failures=$((failures + 1))
  printf 'FAILED: %s\n  to contain: %s\n  actual:     %s\n' "$1" "$3" "$2"
}

# Runs the command in an environment without what this test is about; fills status, out and err.
run() {
  out=$(env -u LD_PRELOAD -u NCCL_NET -u NCCL_NET_PLUGIN -u NCCL_TUNER_PLUGIN "$@" \
    2> "$root/err")
  status=$?
  err=$(cat "$root/err")
}

preloads='echo "$LD_PRELOAD"'

run_passes_everything_on() {
  run "$cinch" run -- sh -c 'printf "<%s>" "$@"; exit 7' name 'a b' '' -- --net '*' --help
  expect 'exit status of the command' "$status" 7
  expect 'arguments of the command' "$out" '<a b><><--><--net><*><--help>'
  expect 'nothing else is said' "$err" ''
  run "$cinch" run sh -c 'printf "<%s>" "$@"; exit 3' name --tuner --
  expect 'status without separator' "$status" 3
  expect 'arguments without separator' "$out" '<--tuner><-->'
  run A='x y' "$cinch" run -- sh -c 'echo "$A"'
  expect 'environment of the command' "$out" 'x y'
  run "$cinch" run -- sh -c 'kill -TERM $$'
  expect 'a signal that ends the command' "$status" 143
  out=$(echo input | "$cinch" run -- cat)
  expect 'standard input' "$out" input
}

run_sets_the_preload() {
  run "$cinch" run -- sh -c "$preloads"
  expect 'preload' "$out" "$library"
  run LD_PRELOAD="$root/other.so" "$cinch" run -- sh -c "$preloads"
  expect 'preload in front of the one that was there' "$out" "$library:$root/other.so"
  run LD_PRELOAD= "$cinch" run -- sh -c "$preloads"
  expect 'empty preload' "$out" "$library"
  run LD_PRELOAD="$root/other.so:$library" "$cinch" run -- sh -c "$preloads"
  expect 'preload is not doubled' "$out" "$root/other.so:$library"
  run LD_PRELOAD="$root/other.so $library" "$cinch" run -- sh -c "$preloads"
  expect 'preload is not doubled between spaces' "$out" "$root/other.so $library"
  run LD_PRELOAD="$root/gone/libcinch.so" "$cinch" run -- sh -c "$preloads"
  expect_part 'a preload that is gone does not count' "$out" "$library:$root/gone/libcinch.so"
  run "$cinch" run -- "$cinch" run -- sh -c "$preloads"
  expect 'run within run' "$out" "$library"
  ln -s "$cinch" "$root/link"
  run "$root/link" run -- sh -c "$preloads"
  expect 'called through a link' "$out" "$library"
}

run_says_why_it_cannot() {
  run "$cinch" run
  expect 'no command' "$status" 2
  expect_part 'no command, usage' "$err" 'cinch run [--net] [--tuner] -- COMMAND'
  run "$cinch" run --
  expect 'separator but no command' "$status" 2
  run "$cinch" run -- "$root/none"
  expect 'command that is not there' "$status" 127
  expect_part 'command that is not there, message' "$err" "$root/none: command not found"
  run "$cinch" run -- "$root/err"
  expect 'command that is no program' "$status" 126
  run "$cinch" run --nett -- true
  expect 'unknown option' "$status" 2
  expect_part 'unknown option, message' "$err" '--nett'
  mkdir -p "$root/lone/bin" "$root/a b/bin" "$root/a b/lib"
  cp "$cinch" "$root/lone/bin"
  run "$root/lone/bin/cinch" run -- true
  expect 'library is missing' "$status" 125
  expect_part 'library is missing, message' "$err" 'libcinch.so'
  cp "$cinch" "$root/a b/bin"
  cp "$library" "$root/a b/lib"
  run "$root/a b/bin/cinch" run -- true
  expect 'path that LD_PRELOAD cannot hold' "$status" 125
  expect_part 'path that LD_PRELOAD cannot hold, message' "$err" 'a space or a colon'
}

# plugin_is_opt_in OPTION LIBRARY VARIABLE
plugin_is_opt_in() {
  local option=$1 plugin=$root/lib/$2 variable=$3
  run "$cinch" run "$option" -- true
  expect "$option without plugin" "$status" 2
  expect_part "$option without plugin, message" "$err" "$2 is not in this build"
  cp "$dummy" "$plugin"
  run "$cinch" run "$option" -- sh -c "echo \$$variable; $preloads"
  expect "$option sets $variable" "$out" "cinch"$'\n'"$library"
  run LD_LIBRARY_PATH= "$cinch" run "$option" -- sh -c 'echo "$LD_LIBRARY_PATH"'
  expect "$option, where the loader does not know the plugin" "$out" "$root/lib"
  run LD_LIBRARY_PATH=/a:/b "$cinch" run "$option" -- sh -c 'echo "$LD_LIBRARY_PATH"'
  expect "$option keeps what comes first" "$out" "/a:/b:$root/lib"
  run LD_LIBRARY_PATH="$root/lib:/a" "$cinch" run "$option" -- sh -c 'echo "$LD_LIBRARY_PATH"'
  expect "$option, where the loader knows the plugin" "$out" "$root/lib:/a"
  run "$variable=cinch" "$cinch" run "$option" -- sh -c "echo \$$variable"
  expect "$option where $variable says so already" "$out" cinch
  run "$variable=ofi" "$cinch" run "$option" -- true
  expect "$option where $variable names another" "$status" 2
  expect_part "$option, message" "$err" "$variable=ofi already makes this choice"
  run "$cinch" run -- sh -c "echo \"\${$variable-unset}\""
  expect "$variable without $option" "$out" unset
}

run_refuses_two_networks() {
  run NCCL_NET=Socket "$cinch" run --net -- true
  expect '--net where NCCL_NET is set' "$status" 2
  expect_part '--net where NCCL_NET is set, message' "$err" 'NCCL_NET=Socket already'
  run NCCL_NET=Socket "$cinch" run -- true
  expect 'NCCL_NET without --net' "$status" 0
}

two_plugins_lie_in_one_folder() {
  run LD_LIBRARY_PATH=/a "$cinch" run --net --tuner -- sh -c 'echo "$LD_LIBRARY_PATH"'
  expect '--net --tuner' "$out" "/a:$root/lib"
}

bad_settings_are_named() {
  local unknown='CINCH_MOD is not a parameter of Cinch; did you mean CINCH_MODE?'
  local bad='CINCH_CODEC=q7 is not valid (auto|q2|q3|'
  run CINCH_MOD=on CINCH_CODEC=q7 "$cinch" run -- echo ran
  expect 'run goes on' "$out" ran
  expect_part 'run names an unknown parameter' "$err" "$unknown"
  expect_part 'run names a bad value' "$err" "$bad"
  run CINCH_MOD=on CINCH_CODEC=q7 "$cinch" config
  expect 'config with bad settings' "$status" 0
  expect_part 'config names an unknown parameter' "$err" "$unknown"
  expect_part 'config names a bad value' "$err" "$bad"
}

config_shows_values_and_sources() {
  run CINCH_MIN_BYTES=1048576 "$cinch" config
  expect 'config' "$status" 0
  expect 'heading' "$(head -1 <<< "$out" | tr -s ' ')" 'NAME VALUE SOURCE DEFAULT RANGE MEANING'
  expect_part 'value from the environment' "$(tr -s ' ' <<< "$out")" \
    'CINCH_MIN_BYTES 1M environment 64K 1K..1T'
  expect_part 'default' "$(tr -s ' ' <<< "$out")" 'CINCH_MODE on default on off|observe|on'
  run CINCH_MIN_BYTES=1M CINCH_OOPS=1 "$cinch" config --json
  local fields='
import json, sys
report = json.load(sys.stdin)
rows = {row["name"]: row for row in report["parameters"]}
row = rows["CINCH_MIN_BYTES"]
print(row["value"], row["source"], row["default"], row["range"], row["wire"], row["kind"],
      rows["CINCH_MODE"]["source"], len(report["warnings"]), all(r["help"] for r in rows.values()))'
  if command -v python3 > /dev/null; then
    expect 'JSON' "$(python3 -c "$fields" <<< "$out")" \
      '1M environment 64K 1K..1T True size default 1 True'
  fi
  expect_part 'JSON names the source' "$out" '"source": "environment"'
  run "$cinch" config --json --markdown
  expect 'two formats' "$status" 2
  run "$cinch" config surplus
  expect 'surplus argument' "$status" 2
}

config_page_is_up_to_date() {
  run CINCH_MODE=off "$cinch" config --markdown
  expect 'Markdown' "$status" 0
  checks=$((checks + 1))
  diff -u "$config_page" - <<< "$out" && return
  failures=$((failures + 1))
  echo "FAILED: $config_page is out of date: cinch config --markdown > docs/config.md"
}

report_is_explained() {
  cat > "$root/report.json" << 'END'
{"format": 2, "communicators": [
  {"name": "communicator 1 rank 0 of 4", "verdict": "all ranks agree",
   "sending": {"choice": "full", "min_bytes": 1048576, "plain_ms": 812.5, "stateless_ms": 0, "full_ms": 401,
    "sd_percent": [3, 0, 5], "periods": 90, "examinations": 2, "examined_at": 70, "changes": 1},
   "memory": {"workspace": 4096, "residuals": 1056},
   "passed": {"small": {"calls": 7, "bytes": 28}, "warmup": {"calls": 3, "bytes": 12}},
   "calls": [
     {"name": "AllReduce fp32 Sum x 1", "class": "unknown", "calls": 7, "bytes": 28, "compressed": 0,
      "codec": null, "latest": "small"},
     {"name": "AllReduce fp32 Sum x 9", "class": "gradient", "calls": 10, "bytes": 360,
      "compressed": 7, "codec": "q4", "latest": "compressed"}],
   "slots": [
     {"name": "AllReduce fp32 Sum x 9", "codec": "q4", "guard": {"checks": 3, "breaches": 1,
      "nmse": 0.0125, "power_ratio": 1.5, "cosine": 0.995, "budget": 0.02},
      "sending": {"choice": "plain", "min_bytes": 0, "plain_ms": 0.5, "stateless_ms": 0.25, "full_ms": 0,
       "sd_percent": [1, 2, 0], "periods": 900, "examinations": 3, "examined_at": 700, "changes": 0}},
     {"name": "AllReduce fp32 Sum x 8", "codec": "q4", "guard": {"checks": 2, "breaches": 0,
      "nmse": null, "cosine": null, "budget": 0},
      "sending": {"examinations": 0}},
     {"name": "AllReduce fp32 Sum x 7", "codec": "q4", "guard": {"checks": 0}, "sending": {"examinations": 0}}]},
  {"name": "communicator 2 rank 0 of 2", "sending": {"examinations": 0}, "verdict": "pass: rank 1 runs without Cinch",
   "passed": {"not_agreed": {"calls": 1, "bytes": 4}, "rotten": {"calls": 1, "bytes": 4}},
   "calls": []}]}
END
  run "$cinch" explain --report "$root/report.json"
  expect 'a report' "$status" 0
  local flat
  flat=$(tr -s ' ' <<< "$out")
  expect_part 'a row of a call that passes' "$flat" 'AllReduce fp32 Sum x 1 unknown 7 28 0 - small'
  expect_part 'a row of a compressed call' "$flat" 'AllReduce fp32 Sum x 9 gradient 10 360 7 q4 compressed'
  expect_part 'what the guard found' "$flat" 'AllReduce fp32 Sum x 9 q4 3 1 0.0125 1.5 0.995'
  expect_part 'figures that are missing' "$flat" 'AllReduce fp32 Sum x 8 q4 2 0 - - -'
  expect_part 'what steps take' "$flat" 'a training step 812.5 +- 3 % - 401 +- 5 % 2, at 70 of 90 1 full from 1 MiB on'
  expect_part 'what calls take' "$flat" 'AllReduce fp32 Sum x 9 0.5 +- 1 % 0.25 +- 2 % - 3, at 700 of 900 0 plain'
  [[ "$flat" != *'Sum x 8 -'* ]]
  expect 'nothing is said of what was not timed' "$?" 0
  expect_part 'what they mean' "$out" 'V the result'
  [[ "$out" != *'Sum x 7'* ]]
  expect 'nothing is said of what was not checked' "$?" 0
  expect_part 'why' "$out" 'small: it is smaller than CINCH_MIN_BYTES'
  expect_part 'and what to do' "$out" 'What to do: lower CINCH_MIN_BYTES'
  expect_part 'reasons that have passed by' "$out" 'warmup: '
  expect_part 'a verdict' "$out" 'communicator 2 rank 0 of 2: pass: rank 1 runs without Cinch'
  expect_part 'a reason that is unknown' "$out" 'rotten: a reason of another version'
  [[ "$out" != *'compressed: '* ]]
  expect 'nothing is said of what is compressed' "$?" 0
  run "$cinch" explain --report "$root/none.json"
  expect 'no such report' "$status" 2
  expect_part 'no such report, message' "$err" "$root/none.json: there is no such file"
  for text in '' '[]' '{"communicators": 3}' '{"communicators": [{"name": 1}]}'; do
    echo "$text" > "$root/bad.json"
    run "$cinch" explain --report "$root/bad.json"
    expect "not a report: $text" "$status" 2
    expect_part "not a report: $text, message" "$err" 'is no report'
  done
  run "$cinch" explain --report "$root/report.json" --codecs
  expect 'two topics' "$status" 2
  run "$cinch" explain
  expect 'no topic' "$status" 2
}

tolerance_is_stated() {
  run "$cinch" explain --tolerance q8
  expect 'tolerance of a codec' "$status" 0
  [[ "$out" =~ ^[0-9.]+e-0[1-9],([0-9.]+e-0[1-9])$ ]]
  expect "two numbers: $out" "$?" 0
  local fine=${BASH_REMATCH[1]}
  run "$cinch" explain --tolerance q2
  awk -v coarse="${out#*,}" -v fine="$fine" 'BEGIN { exit !(coarse > 100 * fine) }'
  expect 'a coarse codec may do more' "$?" 0
  run "$cinch" explain --tolerance auto
  expect 'no codec' "$status" 2
  expect_part 'no codec, message' "$err" '`cinch explain --codecs` lists them'
}

call_is_explained() {
  local question='explain --op allreduce --bytes 64M --dtype bf16 --ranks 16 --nodes 2 --link 25G'
  local flat
  run "$cinch" $question --codec q4 --codec-rate 400G
  expect 'a call' "$status" 0
  flat=$(tr -s ' ' <<< "$out")
  expect_part 'what is asked' "$out" 'AllReduce of 64 MiB bf16 over 16 ranks on 2 hosts, with q4; predicted'
  expect_part 'a ring sends 2 x 15/16 of the bucket' "$flat" 'ring 40.445 40.265 0.180 0.000 120 MiB exact'
  expect_part 'what is fastest' "$out" 'Fastest: hierarchical'
  expect_part 'from where on it pays' "$out" 'hierarchical is faster than plain NCCL from'
  expect_part 'a number that was given' "$flat" 'link of a host 25 Gbit/s --link'
  expect_part 'a number that was not' "$flat" 'hop between hosts 20 us assumed'
  expect_part 'the rate of the codec' "$flat" 'encode 0.0 us + 1 s per 400 GB --codec-rate'
  run "$cinch" explain --op allreduce --bytes 4M --ranks 64 --nodes 64 --link 25G --codec q4 --codec-rate 400G
  expect_part 'what this version cannot do' "$(tr -s ' ' <<< "$out")" 'not in this version, fastest'
  expect_part 'what it can' "$out" 'Of what is, the fastest: flat'
  expect_part 'from where on that pays' "$out" 'flat is faster than plain NCCL from'
  run CINCH_CACHE_DIR="$root/cache" "$cinch" $question
  expect_part 'a codec that is measured' "$out" 'measured now'
  expect_part 'the codec of the settings' "$(tr -s ' ' <<< "$out")" 'codec h3 CINCH_CODEC=auto'
  run "$cinch" explain --op reduce_scatter --bytes 64M --ranks 8 --link 1G --codec-rate 1T --json
  local fields='
import json, sys
report = json.load(sys.stdin)
rows = {row["scheme"]: row for row in report["schemes"]}
ring, flat = rows["ring"], rows["flat"]
print(*rows, report["codec"]["name"], report["policy"], report["fastest"], ring["nmse"],
      round(ring["host_link_bytes"] / (7 / 8 * report["bytes"]), 6), flat["in_this_version"])'
  if command -v python3 > /dev/null; then
    expect 'JSON' "$(python3 -c "$fields" <<< "$out")" 'ring flat q5 compressed flat 0.0 1.0 True'
  fi
  run "$cinch" explain --op allreduce --bytes 4K --ranks 8 --nodes 1 --link 1G --codec-rate 1T
  expect_part 'what the policy says' "$out" 'passes the call whatever it costs: all ranks'
}

# As its tuner was shown on this host.
nccls_own_estimate_is_shown() {
  local call='--op allreduce --ranks 4 --nodes 2 --link 1G --codec q4 --codec-rate 5G'
  local table="$root/estimates/nccl-costs.$(uname -n).4ranks.2nodes.csv"
  explain_it() { run CINCH_CACHE_DIR="$root/estimates" "$cinch" explain $call --bytes "$@"; }
  mkdir "$root/estimates"
  explain_it 3M
  expect 'nobody has seen any' "$(grep -c 'NCCL itself' <<< "$out")" 0
  printf '%s\n' 'cinch-costs,1,4,2' 'allreduce,2097152,1,ring,simple,20000' 'allreduce,2097152,1,tree,ll,30000' \
    'allreduce,4194304,1,ring,simple,50000' 'allreduce,4194304,1,tree,simple,40000' > "$table"
  explain_it 3M
  expect_part 'between two sizes' "$out" 'NCCL itself expects 30.000 ms of plain calls (tree, simple)'
  explain_it 3M --json
  expect_part 'as JSON' "$out" '"algorithm": "tree"'
  explain_it 5M
  expect 'of no such size' "$(grep -c 'NCCL itself' <<< "$out")" 0
  echo broken > "$table"
  explain_it 3M
  expect 'a broken table' "$status" 0
  expect_part 'a broken table is named' "$err" "$table: "
}

# A codec is measured once on a machine, and what was found is kept.
codec_costs_are_kept() {
  local call='--op allreduce --bytes 4K --ranks 4 --link 1G --codec q4'
  local kept first
  explain_in() { run CINCH_CACHE_DIR="$1" "$cinch" explain $call "${@:2}"; }
  explain_in "$root/kept"
  expect 'no --codec-rate' "$status" 0
  expect_part 'measured first' "$out" 'measured now'
  kept=$(echo "$root"/kept/codec-costs.*.json)
  first=$(cat "$kept")
  explain_in "$root/kept"
  expect_part 'kept' "$out" "measured on 2"
  expect 'nothing to add' "$(cat "$kept")" "$first"
  explain_in "$root/kept" --dtype bf16
  expect_part 'another type is measured' "$out" 'measured now'
  explain_in "$root/kept"
  expect_part 'the first one is still there' "$out" 'measured on 2'
  explain_in "$root/kept" --remeasure
  expect_part '--remeasure' "$out" 'measured now'
  sed -i 's/"machine": "/&another /' "$kept"
  explain_in "$root/kept"
  expect_part 'of another machine' "$out" 'measured now'
  expect 'is not kept' "$(grep -c another "$kept")" 0
  echo '{' > "$kept"
  explain_in "$root/kept"
  expect 'a broken file' "$status" 0
  expect_part 'a broken file is named' "$err" "$kept"
  explain_in "$root/kept"
  expect 'and written anew' "$err" ''
  echo text > "$root/file"
  explain_in "$root/file/cache"
  expect 'a folder that cannot be made' "$status" 0
  expect_part 'measured all the same' "$out" 'measured now'
  expect_part 'and said so' "$err" 'CINCH_CACHE_DIR'
  run "$cinch" explain $call --remeasure --codec-rate 1G
  expect '--remeasure without need' "$status" 2
}

# bad_call WHAT PART ARGUMENTS...: a question that cannot be answered.
bad_call() {
  local what=$1 part=$2
  shift 2
  run "$cinch" explain "$@"
  expect "$what" "$status" 2
  expect_part "$what, message" "$err" "$part"
}

bad_calls_are_named() {
  local call='--op allreduce --ranks 8'
  bad_call 'a size that is none' '--bytes 64X: it is not a size' $call --bytes 64X --link 1G
  bad_call 'no bytes' '--bytes 0: it is not a size' $call --bytes 0 --link 1G
  bad_call 'half a value' '--bytes 6: it is not a multiple of 4 bytes' $call --bytes 6 --link 1G
  bad_call 'a shard of half a value' 'a value for each rank' \
    --op reduce_scatter --ranks 8 --bytes 36 --link 1G
  bad_call 'a rate that is none' '--link fast: it is not a rate' $call --bytes 1M --link fast
  bad_call 'no rate' '--link 0: it is not a rate' $call --bytes 1M --link 0
  bad_call 'a time without unit' '--latency 20: it is not a time' \
    $call --bytes 1M --link 1G --latency 20
  bad_call 'hosts of different size' '8 ranks are not spread evenly' \
    $call --bytes 1M --link 1G --nodes 3
  bad_call 'one rank' '--ranks 1: it is not 2 to' --op allreduce --ranks 1 --bytes 1M --link 1G
  bad_call 'a negative number of ranks' '--ranks -2: it is not 2 to' \
    --op allreduce --ranks -2 --bytes 1M --link 1G
  bad_call 'no codec' '`cinch explain --codecs` lists them' \
    $call --bytes 1M --link 1G --codec zip
  bad_call 'a codec without speed' '--codec-rate slow: it is not a rate in bytes' \
    $call --bytes 1M --link 1G --codec-rate slow
  bad_call 'a type that passes' '--dtype int8: it is not' $call --bytes 1M --link 1G --dtype int8
  bad_call 'another collective' '--op broadcast: it is not' \
    --op broadcast --ranks 8 --bytes 1M --link 1G
  bad_call 'no link' '--link' $call --bytes 1M
  bad_call 'options of a call without one' '--op' --codecs --bytes 1M
  bad_call 'two topics' '1 option' $call --bytes 1M --link 1G --codecs
}

usage_is_checked() {
  run "$cinch"
  expect 'no command at all' "$status" 2
  expect_part "no command at all, help" "$err" config
  run "$cinch" fly
  expect 'unknown command' "$status" 2
  expect_part 'unknown command, message' "$err" fly
  run "$cinch" --version
  expect '--version' "$status" 0
  [[ "$out" =~ ^cinch\ [0-9]+\.[0-9]+\.[0-9]+$ ]]
  expect 'version number' "$?" 0
  run "$cinch" --help
  expect '--help' "$status" 0
  expect_part '--help lists the commands' "$out" config
}

run_passes_everything_on
run_sets_the_preload
run_says_why_it_cannot
plugin_is_opt_in --net libnccl-net-cinch.so NCCL_NET_PLUGIN
plugin_is_opt_in --tuner libnccl-tuner-cinch.so NCCL_TUNER_PLUGIN
two_plugins_lie_in_one_folder
run_refuses_two_networks
bad_settings_are_named
config_shows_values_and_sources
config_page_is_up_to_date
report_is_explained
tolerance_is_stated
call_is_explained
codec_costs_are_kept
nccls_own_estimate_is_shown
bad_calls_are_named
usage_is_checked

echo "$((checks - failures)) of $checks checks passed"
[[ $failures -eq 0 && $checks -gt 60 ]]
