# shellcheck shell=bash
# ./dev test: builds, runs ctest (which holds the Python tests as well), counts what really ran.

dev_test() {
  local presets=() sanitizers=no containers=no arguments=() preset failed=()
  while [[ $# -gt 0 ]]; do
    case $1 in
      --sanitizers) sanitizers=yes ;;
      --containers) containers=yes ;;
      --quick) arguments+=(--label-exclude '^system$') ;;
      --preset)
        [[ $# -ge 2 ]] || fail '--preset wants the name of a preset'
        presets=("$2")
        shift
        ;;
      --) ;;
      *) arguments+=("$1") ;;
    esac
    shift
  done
  [[ ${#presets[@]} -gt 0 ]] || presets=(release)
  [[ $sanitizers == no ]] || presets+=(host-asan host-tsan)

  need build test
  [[ $containers == no ]] || need container
  find_recordings
  for preset in "${presets[@]}"; do
    build "$preset"
    run_tests "$preset" "${arguments[@]}" || failed+=("$preset")
  done
  say 'what ran'
  "$(python_for_tests)" deploy/dev/results.py "${presets[@]}" || fail 'not every test passed'
  [[ ${#failed[@]} -eq 0 ]] || fail "ctest failed in: ${failed[*]}"
}

# run_tests PRESET [CTEST ARGUMENT...]: ctest's outcome; the results lie in build/PRESET/results.
run_tests() {
  local preset=$1 results=$PWD/build/$1/results wrap=()
  shift
  rm -rf "$results"
  mkdir -p "$results"
  say "tests of the preset $preset"
  # ThreadSanitizer of GCC 12 needs less randomness in where memory is mapped than newer kernels give.
  if [[ $preset == host-tsan && $(cat /proc/sys/vm/mmap_rnd_bits 2>/dev/null || echo 28) -gt 28 ]]; then
    wrap=(setarch "$(uname -m)" --addr-no-randomize)
  fi
  GTEST_OUTPUT="xml:$results/" "${wrap[@]}" ctest --preset "$preset" --parallel "$(job_count)" \
    --output-junit "$results/ctest.junit" "$@"
}
