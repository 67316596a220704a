# Included by guest scripts: two hosts, a and b, in one machine.
#
# Host a has the devices rxe_a0 and rxe_a1 on the interfaces a0 and a1; host b likewise. Two veth pairs
# join a0 with b0 and a1 with b1. GID 0 is link-local, GID 1 is IPv4 (10.0.LINK.1 for a, .2 for b),
# GID 2 is IPv6 (fd00:LINK::1 and ::2).
#
# Soft-RoCE in Linux 6.1 sends and receives in the first network namespace only: its sockets and its
# routes are that one's. So the four interfaces stay there, where both ends of a pair are addresses of
# the same machine, and a packet would not get further than lo. But Soft-RoCE looks up its routes for
# the interface of the device ("oif"), so rules for these stand before the table of local addresses.
#
# What is run plainly reaches all four devices and meets its peers through lo: both ends of a program
# that starts its own processes can run so, each with its own devices. on_host runs a program in a
# namespace of that host's, with nothing but the interface "mgmt" (192.168.9.1, .2) to the other's.
# Devices are visible from all namespaces, as /sys is the first one's everywhere.

HOSTS="a b"
LINKS="0 1"

fail() { echo "guest: $*" >&2; exit 1; }

# number_of HOST; peer_of HOST; table_of INTERFACE
number_of() { case "$1" in a) echo 1 ;; b) echo 2 ;; esac; }
peer_of() { case "$1" in a) echo b ;; b) echo a ;; esac; }
table_of() { echo "$(number_of "${1%?}")0${1#?}"; }

# address HOST LINK; address6 HOST LINK
address() { echo "10.0.$2.$(number_of "$1")"; }
address6() { echo "fd00:$2::$(number_of "$1")"; }

# Rules of interfaces before the table of local addresses, which stands at 0.
make_room_for_rules() {
  local family
  for family in -4 -6; do
    ip $family rule add pref 1000 lookup local
    ip $family rule del pref 0
  done
}

# add_route INTERFACE TO FROM: to the other end's address, and its neighbour entry: where the kernel
# has to ask for that, the first queue pair waits a second.
add_route() {
  local peer="$(peer_of "${1%?}")${1#?}"
  ip route replace "$2" dev "$1" src "$3" table "$(table_of "$1")"
  ip neigh replace "$2" dev "$1" lladdr "$(cat "/sys/class/net/$peer/address")" nud permanent
}

# add_routes INTERFACE: after it was down, when they are gone.
add_routes() {
  local host="${1%?}" link="${1#?}"
  local peer="$(peer_of "$host")"
  add_route "$1" "$(address "$peer" "$link")" "$(address "$host" "$link")"
  add_route "$1" "$(address6 "$peer" "$link")" "$(address6 "$host" "$link")"
}

# Packets come in with an address of this machine as their source.
take_own_addresses() {
  echo 1 >"/proc/sys/net/ipv4/conf/$1/accept_local"
  echo 0 >"/proc/sys/net/ipv4/conf/$1/rp_filter"
  echo 1 >"/proc/sys/net/ipv6/conf/$1/keep_addr_on_down"
}

make_interface() {
  local host="${1%?}" link="${1#?}" family
  take_own_addresses "$1"
  # Room for the largest packets of RoCE, which carry 4096 bytes.
  ip link set "$1" mtu 9000 up
  ip addr add "$(address "$host" "$link")/24" dev "$1"
  ip addr add "$(address6 "$host" "$link")/64" dev "$1" nodad
  for family in -4 -6; do
    ip $family rule add pref 100 oif "$1" lookup "$(table_of "$1")"
  done
}

make_link() {
  local host
  ip link add "a$1" type veth peer name "b$1"
  for host in $HOSTS; do make_interface "$host$1"; done
  for host in $HOSTS; do
    add_routes "$host$1"
    rdma link add "rxe_$host$1" type rxe netdev "$host$1"
  done
}

make_management() {
  local host
  for host in $HOSTS; do
    ip netns add "$host"
    ip -n "$host" link set lo up
  done
  ip -n a link add mgmt type veth peer name mgmt netns b
  for host in $HOSTS; do
    ip -n "$host" addr add "192.168.9.$(number_of "$host")/24" dev mgmt
    ip -n "$host" link set mgmt up
  done
}

# wait_until SECONDS COMMAND...: until the command is true, which is asked ten times a second.
wait_until() {
  local tries=$(($1 * 10))
  shift
  until "$@"; do
    tries=$((tries - 1))
    [ $tries -gt 0 ] || return 1
    sleep 0.1
  done
}

is_active() { rdma link show "rxe_$1/1" | grep -q 'state ACTIVE'; }

make_hosts() {
  local host link
  echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter
  make_room_for_rules
  for link in $LINKS; do make_link "$link"; done
  make_management
  for link in $LINKS; do
    for host in $HOSTS; do
      wait_until 10 is_active "$host$link" || fail "rxe_$host$link is not active"
    done
  done
}

# on_host HOST COMMAND...; start_on_host for "start_on_host HOST COMMAND... &", of which $! is then the
# command's process, to wait for or to kill.
start_on_host() {
  local host="$1"
  shift
  exec nsenter "--net=/run/netns/$host" "$@"
}
on_host() { (start_on_host "$@"); }

# link_down INTERFACE; link_up INTERFACE: the ports at both ends go down, and come back.
link_down() { ip link set "$1" down; }
link_up() {
  ip link set "$1" up
  add_routes "$1"
}

# lose_packets INTERFACE [PERCENT]: what it sends is lost without a trace. keep_packets INTERFACE
lose_packets() { tc qdisc replace dev "$1" root netem loss "${2:-100}%"; }
keep_packets() { tc qdisc del dev "$1" root; }

sent_bytes() { cat "/sys/class/net/$1/statistics/tx_bytes"; }

# Seconds since the machine was switched on, in hundredths.
uptime_centiseconds() {
  local uptime
  read -r uptime _ </proc/uptime
  echo "${uptime%.*}${uptime#*.}"
}
