# shellcheck shell=bash
# ./dev bench: measures on this machine, beside its own limits taken in the same run, and renders the page anew.

bench_program=build/release/bin/penstock-bench

# dev_bench [NAME...] [OPTIONS...]: these benchmarks, or each of them; the options go to penstock-bench. --quick
# without a NAME is the gate: ratios on the host backend against floors; with one, a short run that is kept nowhere.
dev_bench() {
  local backend=host names=() quick=no option
  while [[ $# -gt 0 && $1 != -* ]]; do
    names+=("$1")
    shift
  done
  for option in "$@"; do
    [[ $option != --quick ]] || quick=yes
  done
  need build
  PENSTOCK_BENCH=ON build release penstock-bench penstockd penstock penstock-cuda
  if [[ $quick == yes && ${#names[@]} == 0 ]]; then
    "$bench_program" --floors tests/bench/floors.json
    return
  fi
  nvidia-smi -L 2>/dev/null | grep -q '^GPU' && backend=cuda
  bench_each "$quick" "$backend" "$@"
}

# bench_each QUICK BACKEND [OPTIONS...]: the benchmarks in `names`.
bench_each() {
  local quick=$1 backend=$2 known name options=()
  shift 2
  options=("$@")
  while [[ $# -gt 0 ]]; do  # the file is named after the backend that is asked for
    case $1 in
      --backend) backend=$2 ;;
      --backend=*) backend=${1#*=} ;;
    esac
    shift
  done
  mapfile -t known < <("$bench_program" --names)
  [[ ${#names[@]} -gt 0 ]] || names=("${known[@]}")
  for name in "${names[@]}"; do
    [[ " ${known[*]} " == *" $name "* ]] || fail "there is no benchmark \"$name\"; there are: ${known[*]}"
  done
  mkdir -p docs/benchmarks
  for name in "${names[@]}"; do
    say "measuring $name on the $backend backend (some minutes; leave the machine alone)"
    if [[ $quick == yes ]]; then
      bench_one "$name" --backend "$backend" "${options[@]}"
    else
      bench_one "$name" --backend "$backend" --json "docs/benchmarks/$name-$backend.json" "${options[@]}"
    fi
  done
  [[ $quick == yes ]] || render_benchmarks
}

# bench_one NAME [OPTIONS...]: where it needs a GPU and there is none, it says so, which is no failure.
bench_one() {
  local status=0
  "$bench_program" "$@" || status=$?
  [[ $status == 0 || $status == 77 ]] || fail "the benchmark \"$1\" failed"
}

# The page and its drawings, from the figures that there are.
render_benchmarks() {
  "$bench_program" --draw docs/benchmarks/*.json
  "$bench_program" --render docs/benchmarks/*.json >docs/benchmarks.md
  say 'written: docs/benchmarks/ and docs/benchmarks.md'
}
