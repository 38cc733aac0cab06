# shellcheck shell=bash
# ./dev attack: the attacks of tests/attack in their long forms, one after another.

dev_attack() {
  local seconds=60 arguments=()
  while [[ $# -gt 0 ]]; do
    case $1 in
      --seconds)
        [[ $# -ge 2 ]] || fail '--seconds wants a number'
        seconds=$2
        shift
        ;;
      *) arguments+=("$1") ;;
    esac
    shift
  done
  need build test
  find_recordings
  build release
  say "attacks, those that repeat for $seconds s each"
  PENSTOCK_ATTACK_SECONDS=$seconds ctest --preset release --label-regex '^attack$' --timeout 3600 "${arguments[@]}"
}
