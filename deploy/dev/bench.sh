# shellcheck shell=bash
# ./dev bench: measures on this machine, beside its own limits taken in the same run, and renders the page anew.

bench_names=(round-trip overlap fairness devices timing)

# dev_bench [NAME] [OPTIONS...]: one benchmark, or each of them; the options go to penstock-bench.
dev_bench() {
  local backend=host names=("${bench_names[@]}") name
  if [[ $# -gt 0 && $1 != -* ]]; then
    [[ " ${bench_names[*]} " == *" $1 "* ]] || fail "there is no benchmark \"$1\"; there are: ${bench_names[*]}"
    names=("$1")
    shift
  fi
  need build
  build release
  nvidia-smi -L 2>/dev/null | grep -q '^GPU' && backend=cuda
  mkdir -p docs/benchmarks
  for name in "${names[@]}"; do
    say "measuring $name on the $backend backend (some minutes; leave the machine alone)"
    build/release/bin/penstock-bench "$name" --backend "$backend" --json "$(bench_file "$name" "$backend")" "$@"
  done
  render_benchmarks
}

# bench_file NAME BACKEND: where the figures of a benchmark are kept.
bench_file() {
  if [[ $1 == round-trip ]]; then
    printf 'docs/benchmarks/%s.json\n' "$2"
  else
    printf 'docs/benchmarks/%s-%s.json\n' "$1" "$2"
  fi
}

# The page and its drawings, from the figures that there are.
render_benchmarks() {
  local figures
  for figures in docs/benchmarks/overlap-*.json; do
    [[ ! -e $figures ]] || build/release/bin/penstock-bench --draw "$figures" >"${figures%.json}.svg"
  done
  build/release/bin/penstock-bench --render docs/benchmarks/*.json >docs/benchmarks.md
  say 'written: docs/benchmarks/ and docs/benchmarks.md'
}
