#!/bin/sh
# rendered_page_test.sh PENSTOCK-BENCH DOCS: docs/benchmarks.md and its drawings are what the figures give.
set -eu
bench=$1 docs=$2
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
cp "$docs"/benchmarks/*.json "$folder"
"$bench" --draw "$folder"/*.json
"$bench" --render "$folder"/*.json >"$folder/benchmarks.md"
cmp "$folder/benchmarks.md" "$docs/benchmarks.md"
for drawing in "$folder"/*.svg; do
  cmp "$drawing" "$docs/benchmarks/${drawing##*/}"
done
[ "$(find "$docs/benchmarks" -name '*.svg' | wc -l)" = "$(find "$folder" -name '*.svg' | wc -l)" ]
