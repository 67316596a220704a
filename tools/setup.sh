# Sourced by ./quickstart, ./run-tests and .ci/nightly: installs with apt what is missing.

# What a build and ./quickstart take: packages, and what shows that one or something as good is there, a command or
# a file pattern.
CINCH_PACKAGES=(
  "g++              g++"
  "cmake            cmake"
  "cmake-data       /usr/share/cmake*/Help"
  "ninja-build      ninja"
  "python3          python3"
  "iproute2         tc"
  "iperf3           iperf3"
  "util-linux       setpriv"
  "gnuplot-nox      gnuplot"
  "libcli11-dev     /usr/include/CLI/CLI.hpp"
  "libfmt-dev       /usr/include/fmt/core.h"
  "libgtest-dev     /usr/include/gtest/gtest.h"
  "libibverbs-dev   /usr/include/infiniband/verbs.h"
  "nlohmann-json3-dev       /usr/include/nlohmann/json.hpp"
  "libopenblas-pthread-dev  /usr/include/*/openblas-*/openblas_config.h"
  "libssl-dev       /usr/lib/*/libcrypto.a"
)

# Of tests and benchmarks: two minutes of installing that a first look need not wait for.
CINCH_TEST_PACKAGES=(
  "libbenchmark-dev /usr/include/benchmark/benchmark.h"
  "openmpi-bin      mpirun"
  "python3-jsonschema       /usr/lib/python3/dist-packages/jsonschema"
  "python3-numpy    /usr/lib/python3/dist-packages/numpy"
  "python3-sklearn  /usr/lib/python3/dist-packages/sklearn"
)

# Of tests/packages, at night.
CINCH_PACKAGING_PACKAGES=(
  "dpkg-dev         dpkg-shlibdeps"
  "file             file"
  "pkg-config       pkg-config"
  "python3-venv     /usr/lib/python3*/ensurepip"
)

# Of tests/verbs_vm: the machine, and what runs in it. Nothing else needs them.
CINCH_VM_PACKAGES=(
  "busybox-static   busybox"
  "dash             dash"
  "ibverbs-providers        /etc/libibverbs.d/rxe.driver"
  "ibverbs-utils    ibv_asyncwatch"
  "perftest         ib_write_bw"
  "qemu-system-x86  qemu-system-x86_64"
)

# tc and ip live in /usr/sbin on Debian, which an ordinary user's PATH lacks.
PATH="$PATH:/usr/sbin:/sbin"

say() { printf '== %s\n' "$*"; }

# Sets ROOT_COMMAND to what makes a command run as root: nothing for root, sudo where it works.
find_root_command() {
  ROOT_COMMAND=()
  HAVE_ROOT=yes
  [ "$(id -u)" -eq 0 ] && return
  if sudo -n true 2>/dev/null || { [ -t 0 ] && sudo -v; }; then
    ROOT_COMMAND=(sudo)
  else
    HAVE_ROOT=no
  fi
}

is_present() {
  case "$1" in
    /*) compgen -G "$1" >/dev/null ;;
    *) command -v "$1" >/dev/null ;;
  esac
}

missing_packages() {
  local package probe
  for entry in "${CINCH_PACKAGES[@]}"; do
    read -r package probe <<<"$entry"
    is_present "$probe" || echo "$package"
  done
}

apt_get() {
  "${ROOT_COMMAND[@]}" env DEBIAN_FRONTEND=noninteractive apt-get \
    -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 -q "$@"
}

install_missing() {
  local missing
  mapfile -t missing < <(missing_packages)
  if [ "${#missing[@]}" -eq 0 ]; then
    say "Everything that Cinch needs is installed"
    return
  fi
  say "Installing with apt: ${missing[*]}"
  if [ "$HAVE_ROOT" = no ] || ! command -v apt-get >/dev/null; then
    echo "error: missing Debian packages, which cannot be installed from here: ${missing[*]}" >&2
    echo "Run this as root or with sudo on Debian or Ubuntu, or install them yourself." >&2
    return 1
  fi
  # A stale list names packages that are gone; the update may still fail where a mirror is down.
  apt_get update || say "apt-get update failed; trying with the lists that are there"
  apt_get install -y --no-install-recommends "${missing[@]}"
}

# set_up_build: everything before the build.
set_up_build() {
  find_root_command
  install_missing
}

# set_up: the same, and what tests and benchmarks run with.
set_up() {
  CINCH_PACKAGES+=("${CINCH_TEST_PACKAGES[@]}")
  set_up_build
}

# The kernel of tests/verbs_vm, which is unpacked and not installed. Without it that is skipped.
fetch_vm_kernel() {
  python3 -B tests/verbs_vm/kernel.py 2>/dev/null && return
  [ "$HAVE_ROOT" = no ] || apt_get update || true
  python3 -B tests/verbs_vm/kernel.py || say "No kernel for tests/verbs_vm, which is skipped"
}

# Prometheus's checker of metrics, likewise.
fetch_promtool() {
  python3 -B tests/operate/promtool.py 2>/dev/null && return
  [ "$HAVE_ROOT" = no ] || apt_get update || true
  python3 -B tests/operate/promtool.py || say "No promtool for tests/operate, which does without"
}

# set_up_tests: set_up, and what only tests need.
set_up_tests() {
  set_up && fetch_promtool
}

# PyTorch and what its jobs need: 6 GB, once. Without it their tests are skipped.
make_torch_environment() {
  local begin=$SECONDS
  timeout 900 python3 -B emulator/torch/environment.py >/dev/null || say "PyTorch cannot be had here: its tests are skipped"
  say "PyTorch's environment: $((SECONDS - begin)) s"
}

# set_up_nightly: the same for those of .ci/nightly.
set_up_nightly() {
  CINCH_PACKAGES+=("${CINCH_PACKAGING_PACKAGES[@]}")
  [ "$(uname -m)" != x86_64 ] || CINCH_PACKAGES+=("${CINCH_VM_PACKAGES[@]}")
  set_up_tests && { [ "$(uname -m)" != x86_64 ] || fetch_vm_kernel; }
}

# run_tests PRESET [CTEST ARGUMENTS...]: runs them, and prints what took longest. Twice as many at a time as there
# are cores: the processes of a test wait for each other most of the time. With a sanitizer they compute.
run_tests() {
  local preset="$1" status=0 at_once=$((2 * $(nproc)))
  case "$preset" in *san) at_once="$(nproc)" ;; esac
  shift
  ctest --preset "$preset" --parallel "$at_once" --timeout 300 --no-tests=error "$@" || status=1
  python3 -B tools/slowest.py "$preset"
  return $status
}

# Prints the GPUs of this machine as CMake's architectures, "90-real;100-real". Prints nothing
# without a GPU, or for one older than the codec's oldest, 7.5: both train on the emulator. A driver
# that does not work prints its error to stdout.
gpu_architectures() {
  { nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null || true; } |
    awk -F . '$1 * 10 + $2 >= 75 { print $1 $2 "-real" }' | sort -u | paste -sd ';'
}

# cuda_settings BUILD: prints CMake's settings, one a line, for the CUDA codec of this machine's
# GPUs alone, or for none. A build folder that has been configured with the codec keeps its
# architectures.
cuda_settings() {
  local architectures
  echo -DCINCH_CUDA_OPTIMISE=ON
  grep -qs '^CINCH_CUDA_ARCHITECTURES:' "$1/CMakeCache.txt" && return
  architectures="$(gpu_architectures)"
  if [ -n "$architectures" ]; then
    printf '%s\n' -DCINCH_CUDA=auto "-DCINCH_CUDA_ARCHITECTURES=$architectures"
  else
    echo -DCINCH_CUDA=off
  fi
}

# True where a target of that name exists in the build folder.
has_target() { ninja -C "$1" -t query "$2" >/dev/null 2>&1; }
