#!/usr/bin/env bash
# The steps of the Dockerfile that take more than a line, so that its two targets share them.
#
#   stage.sh prepare        the packages that a build needs; from the folder of the source, as the next one
#   stage.sh build ON|OFF   the programs, with or without the CUDA module, into /image/root; into /image/packages the
#                           names of the packages that their libraries come from; with the results that CCACHE_DIR
#                           holds, and CMAKE_ARGS, words for CMake, from the environment
#   stage.sh install        from /image: those packages, the programs and the user
set -euo pipefail

prepare() {
  # Images of Debian and Ubuntu delete what apt downloads; here it goes to a folder that outlives the build.
  rm -f /etc/apt/apt.conf.d/docker-clean
  # shellcheck source=deploy/dev/setup.sh
  source deploy/dev/setup.sh
  need build
}

build() {
  local root=/image/root targets=(penstockd penstock penstock_documents) more
  [[ $1 == OFF ]] || targets+=(penstock-cuda)
  read -ra more <<<"${CMAKE_ARGS:-}"
  # In the folder of ./dev package, in no language, and with relative paths, as there: what that one left in ccache fits.
  export CCACHE_SLOPPINESS=${CCACHE_SLOPPINESS:-locale} CCACHE_BASEDIR=${CCACHE_BASEDIR:-$PWD}
  cmake -S . -B build/package -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=/usr \
    -DPENSTOCK_TESTS=OFF -DPENSTOCK_BENCH=OFF -DPENSTOCK_CUDA="$1" "${more[@]}"
  cmake --build build/package --target "${targets[@]}"
  DESTDIR=$root cmake --install build/package --strip --component daemon
  if [[ $1 == ON ]]; then
    DESTDIR=$root cmake --install build/package --strip --component cuda
    copy_libraries "$root" 'libcufft.so.1[0-9]' 'libnvrtc.so.1[0-9]' 'libnvrtc-builtins.so.1[0-9].[0-9]' \
      'libnvJitLink.so.1[0-9]'
  fi
  leave_out_host_files "$root"
  install -D -m 644 deploy/docker/penstock.toml "$root/etc/penstock/penstock.toml"
  packages_of "$root" >/image/packages
  cp deploy/docker/stage.sh /image/
}

# leave_out_host_files ROOT: what is for a machine that people log in to, or that systemd runs.
leave_out_host_files() {
  rm -rf "${1:?}"/usr/share/{man,bash-completion,zsh,fish} "${1:?}"/usr/lib/{systemd,sysusers.d} "${1:?}/etc/default"
  find "$1/usr/share/doc" -type f ! -name copyright -delete
  find "$1" -type d -empty -delete
}

# copy_libraries ROOT PATTERN...: the libraries that are loaded when a pipeline needs a Fourier transform, or users' code
# a compiler, from the toolkit that the module was built with, to where they are looked for.
copy_libraries() {
  local root=$1 pattern library found
  shift
  for pattern in "$@"; do
    found=
    # shellcheck disable=SC2231  # a pattern
    for library in /usr/local/cuda/lib64/$pattern; do
      [[ -e $library ]] || continue
      install -D -m 644 "$(readlink -f "$library")" "$root/usr/local/cuda/lib64/${library##*/}"
      found=yes
    done
    [[ -n $found ]] || fail "the devel image has no $pattern in /usr/local/cuda/lib64"
  done
}

# packages_of ROOT: the packages that bring the libraries which the programs in it load, however deep.
packages_of() {
  find "$1" -type f \( -path '*/bin/*' -o -name 'penstock-cuda.so' \) -exec ldd {} + |
    awk '/=> \// { print $3 }' | sort -u | while read -r library; do
      package_of "$(readlink -f "$library")"
    done | sort -u
}

# package_of FILE: where /lib is a link to /usr/lib, a package may have registered the file under either.
package_of() {
  { dpkg-query -S "$1" 2>/dev/null || dpkg-query -S "${1#/usr}" 2>/dev/null || dpkg-query -S "/usr$1" 2>/dev/null ||
    fail "no package brings $1"; } | sed 's/:.*//'
}

install_image() {
  apt-get -qq update
  xargs env DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes --no-install-recommends </image/packages
  apt-get clean
  rm -rf /var/lib/apt/lists/*
  cp -a /image/root/. /
  groupadd --gid 7600 penstock
  useradd --uid 7600 --gid 7600 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin penstock
  install -d -o 7600 -g 7600 -m 750 /run/penstock /var/cache/penstock
}

fail() {
  printf 'stage: %s\n' "$*" >&2
  exit 1
}

case ${1-} in
  prepare) prepare ;;
  build) build "$2" ;;
  install) install_image ;;
  *) fail 'prepare, build ON|OFF, or install' ;;
esac
