# shellcheck shell=bash
# Configuring and building a preset of CMakePresets.json.

# Compilers that run at once: one a core, and no more than memory has room for (about 1 GiB each), where that is known.
job_count() {
  local cores memory=''
  cores=$(nproc)
  if [[ -r /proc/meminfo ]]; then
    memory=$(awk '/^MemAvailable/ { gib = int($2 / 1048576); print gib < 1 ? 1 : gib }' /proc/meminfo)
  fi
  memory=${memory:-$cores}
  echo "${PENSTOCK_JOBS:-$((cores < memory ? cores : memory))}"
}

# The Python that has what the tests import; one that a version manager put first on the PATH may not.
python_for_tests() {
  local candidate
  for candidate in ${PENSTOCK_PYTHON:+"$PENSTOCK_PYTHON"} python3 /usr/bin/python3; do
    if "$candidate" -c 'import numpy, scipy, zmq' 2>/dev/null; then
      command -v "$candidate"
      return 0
    fi
  done
  command -v python3 || true
}

# run_logged LOG COMMAND...: quiet while it goes well, and the end of the log when it does not.
run_logged() {
  local log=$1
  shift
  if ! "$@" >"$log" 2>&1; then
    tail -n 60 "$log" >&2
    fail "\"$*\" failed; all that it said is in $log"
  fi
}

# Quicker from scratch; what builds without these scripts, as the image, is to find it in ccache.
export PENSTOCK_UNITY=${PENSTOCK_UNITY:-ON}

# configure PRESET
configure() {
  local preset=$1 python definitions=() log bench=${PENSTOCK_BENCH:-OFF}
  log=build/$preset.configure.log
  python=$(python_for_tests)
  [[ $preset != host-?san ]] || bench=OFF
  definitions+=("-DPENSTOCK_WERROR=${PENSTOCK_WERROR:-OFF}" "-DPENSTOCK_UNITY=$PENSTOCK_UNITY" "-DPENSTOCK_BENCH=$bench")
  [[ -z $python ]] || definitions+=("-DPENSTOCK_PYTHON=$python")
  [[ -z ${PENSTOCK_CUDA:-} || $preset == host-* ]] || definitions+=("-DPENSTOCK_CUDA=$PENSTOCK_CUDA")
  [[ -z ${PENSTOCK_KERNEL_PYTHON:-} ]] || definitions+=("-DPENSTOCK_KERNEL_PYTHON=$PENSTOCK_KERNEL_PYTHON")
  [[ -z ${PENSTOCK_TORCH_PYTHON:-} ]] || definitions+=("-DPENSTOCK_TORCH_PYTHON=$PENSTOCK_TORCH_PYTHON")
  mkdir -p build
  run_logged "$log" cmake --preset "$preset" "${definitions[@]}"
  sed -n 's/^-- Penstock: /   /p' "$log"
}

# build PRESET [TARGET...]: everything, or of these targets those that this configuration has.
build() {
  # Which language the compiler speaks changes nothing of what it makes; in an image it has none.
  export CCACHE_SLOPPINESS=${CCACHE_SLOPPINESS:-locale}
  # Paths in the tree count as relative ones: presets in folders of their own share what is the same in both.
  export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$PWD}
  local preset=$1 count started=$SECONDS quiet=() targets=() target
  shift
  count=$(job_count)
  say "building the preset $preset in build/$preset, $count at once"
  configure "$preset"
  for target in "$@"; do
    if grep -q "^build $target: phony" "build/$preset/build.ninja"; then
      targets+=(--target "$target")
    fi
  done
  [[ -t 1 ]] || quiet=(-- --quiet)
  cmake --build --preset "$preset" --parallel "$count" "${targets[@]}" "${quiet[@]}" ||
    fail "the preset $preset does not build: what the compiler said is above"
  printf '   built in %d s\n' $((SECONDS - started))
}

# Real recordings are no part of the tree: tests find them by these names, and skip with a reason without them.
find_recordings() {
  local name variable
  for name in recordings reference; do
    variable=PENSTOCK_${name^^}
    if [[ -z ${!variable:-} && -d ../shared/$name ]]; then
      export "$variable=$(cd "../shared/$name" && pwd)"
    fi
  done
  say "recordings: ${PENSTOCK_RECORDINGS:-none here, so the tests that need them are skipped}"
}

# ./dev new-operator NAME: the files of a new operator, and its entries in the lists: docs/first-operator.md.
dev_new-operator() {
  [[ $# -eq 1 ]] || fail 'new-operator wants a name, as in ./dev new-operator rectify'
  need rules
  python3 deploy/dev/new_operator.py "$1"
  say "it multiplies by a number for now; ./dev test -R $1 builds and tests it, docs/first-operator.md goes on"
}
