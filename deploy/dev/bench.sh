# shellcheck shell=bash
# ./dev bench: measures on this machine, beside its own limits in the same run, and prints tables.

bench_program=build/release/bin/penstock-bench
bench_results=docs/benchmarks  # not tracked

# dev_bench [NAME...] [OPTIONS...]: these benchmarks, or all; the options go to penstock-bench. --quick without a NAME is
# the gate of CI: ratios on the host backend against floors. With a NAME it is a short run, whose result is not kept.
dev_bench() {
  local backend=host names=() quick=no option
  while [[ $# -gt 0 && $1 != -* ]]; do
    names+=("$1")
    shift
  done
  for option in "$@"; do
    [[ $option != --quick ]] || quick=yes
  done
  need build bench
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
  local quick=$1 backend=$2 known name result options=() results=()
  shift 2
  options=("$@")
  while [[ $# -gt 0 ]]; do  # the result's name has the backend
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
  mkdir -p "$bench_results"
  for name in "${names[@]}"; do
    say "measuring $name on the $backend backend (some minutes; leave the machine alone)"
    result=$bench_results/$name-$backend.json
    [[ $quick == no ]] || result=build/$name-$backend-quick.json
    rm -f "$result"
    bench_one "$name" --backend "$backend" --json "$result" "${options[@]}"
    [[ ! -e $result ]] || results+=("$result")
  done
  [[ ${#results[@]} -gt 0 ]] || return 0
  tests/bench/report.py "${results[@]}"
  [[ $quick == yes ]] || tests/bench/report.py --plots "$bench_results" "${results[@]}"
}

# bench_one NAME [OPTIONS...]: exit status 77 says that it needs a GPU and there is none, which is no failure.
bench_one() {
  local status=0
  "$bench_program" "$@" || status=$?
  [[ $status == 0 || $status == 77 ]] || fail "the benchmark \"$1\" failed"
}
