# What every run of the tests sees of the transport over verbs on a kernel's provider.
. /guest/hosts.sh
. /guest/yardstick.sh
. /guest/verbs.sh
. /guest/training.sh

# Those that move data, and those that end badly; all cases are run with one queue.
CASES=oversized_receive,zero_bytes,sizes,misaligned,grouped_receives,both_ends,close_in_flight

make_hosts
choose_transport
status=0
conform v12 1 0 --cases ^large,many_connections || status=1
conform v12 4 1 --cases $CASES || status=1
compare_training || status=1
# 75: boot.py's word for what hangs on clocks alone.
fail_over sender_down 4 3000000 || [ $status = 1 ] || status=75
exit $status
