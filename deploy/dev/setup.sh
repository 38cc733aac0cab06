# shellcheck shell=bash
# What every word of ./dev stands on: messages, and the Debian packages that are needed.

# Debian's packages by what they are for. Ubuntu 24.04 has them under the same names.
declare -A packages=(
  [build]='g++ cmake ninja-build ccache pkg-config libzmq3-dev cppzmq-dev libspdlog-dev libboost-dev libfftw3-dev
    libhwloc-dev libminizip-dev libncurses-dev libsndfile1-dev libsodium-dev libsystemd-dev libtomlplusplus-dev libcli11-dev
    nlohmann-json3-dev prometheus-cpp-dev libgtest-dev libgmock-dev'
  [test]='libopenblas0 libdnnl2 python3 python3-numpy python3-zmq python3-scipy python3-pyte python3-yaml
    prometheus systemd'
  [bench]='libbenchmark-dev libdnnl-dev python3 python3-matplotlib'
  [container]='debootstrap buildah runc iproute2 systemd-container'
  [package]='dpkg-dev fakeroot file gzip lintian'
  [demo]='alsa-utils'
  [format]='git clang-format-14'
  [rules]='git python3'
  [lint]='clang-tidy-14'
)

bold='' plain=''
if [[ -t 1 && -z ${NO_COLOR:-} ]]; then
  bold=$'\e[1m' plain=$'\e[0m'
fi

say() {
  printf '%s== %s%s\n' "$bold" "$*" "$plain"
}

fail() {
  printf 'dev: %s\n' "$*" >&2
  exit 1
}

is_installed() {
  [[ $(dpkg-query -W -f='${db:Status-Abbrev}' "$1" 2>/dev/null) == ii* ]]
}

# need PURPOSE...: installs what is missing of the packages for these purposes, and says so in one line.
need() {
  local purpose package wanted=() missing=()
  [[ ${PENSTOCK_SETUP:-ON} != OFF ]] || return 0
  for purpose in "$@"; do
    read -r -d '' -a wanted <<<"${packages[$purpose]}" || true
    for package in "${wanted[@]}"; do
      is_installed "$package" || missing+=("$package")
    done
  done
  [[ ${#missing[@]} -gt 0 ]] || return 0
  if command -v apt-get >/dev/null; then
    install_packages "${missing[@]}"
  else
    say "no apt on this machine, so nothing is installed; Debian calls what is needed: ${missing[*]}"
  fi
}

install_packages() {
  local as_root=() log=build/setup.log
  if [[ $(id -u) -ne 0 ]]; then
    command -v sudo >/dev/null || fail "run this as root first: apt-get install --no-install-recommends $*"
    as_root=(sudo)
    [[ -t 0 ]] || as_root=(sudo -n)
  fi
  as_root+=(env DEBIAN_FRONTEND=noninteractive apt-get -qq)
  mkdir -p build
  say "installing with apt what is missing (a minute or two): $*"
  if ! { "${as_root[@]}" update && "${as_root[@]}" install -y --no-install-recommends "$@"; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    fail "apt could not install these packages; all that it said is in $log"
  fi
}
