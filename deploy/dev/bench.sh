# shellcheck shell=bash
# ./dev bench: measures on this machine, beside its own limits taken in the same run, and renders the page anew.

dev_bench() {
  local backend=host
  need build
  build release
  nvidia-smi -L 2>/dev/null | grep -q '^GPU' && backend=cuda
  say "measuring the $backend backend (some minutes; leave the machine alone)"
  mkdir -p docs/benchmarks
  build/release/bin/penstock-bench --backend "$backend" --json "docs/benchmarks/$backend.json" "$@"
  build/release/bin/penstock-bench --render docs/benchmarks/*.json >docs/benchmarks.md
  say "written: docs/benchmarks/$backend.json and docs/benchmarks.md"
}
