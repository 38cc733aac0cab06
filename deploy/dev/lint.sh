# shellcheck shell=bash
# ./dev lint: the tree's own rules, shellcheck, headers that compile alone, clang-tidy. ./dev format: clang-format 14 over
# every C++ and CUDA source.

dev_lint() {
  local wrong=0
  case ${1:-} in
    --rules) ;;
    '') ;;
    *) fail "lint takes --rules or nothing, not \"$1\"" ;;
  esac
  need rules
  python3 deploy/dev/rules.py || wrong=1
  check_scripts || wrong=1
  if [[ -z ${1:-} ]]; then
    need build lint
    say 'configuring the preset host-debug in build/host-debug'
    configure host-debug
    check_headers || wrong=1
    check_with_clang_tidy || wrong=1
  fi
  [[ $wrong -eq 0 ]] || fail 'lint found the faults above'
  say 'lint: nothing found'
}

# What git knows or would know, and is there.
list_files() {
  local file
  git ls-files --cached --others --exclude-standard -- "$@" | while IFS= read -r file; do
    [[ ! -f $file ]] || printf '%s\n' "$file"
  done
}

list_scripts() {
  local file
  list_files | while IFS= read -r file; do
    if [[ $(head -n 1 "$file" | head -c 64 | tr -d '\0') =~ ^#.*(bash|shell=) ]]; then
      printf '%s\n' "$file"
    fi
  done
}

check_scripts() {
  local script scripts
  mapfile -t scripts < <(list_scripts)
  if command -v shellcheck >/dev/null; then
    shellcheck --external-sources --source-path=. "${scripts[@]}"
    return
  fi
  say "shellcheck is not installed: ${#scripts[@]} scripts are only parsed"
  for script in "${scripts[@]}"; do
    bash -n "$script" || return 1
  done
}

# Each header is compiled alone, with the folders that the build searches. CUDA's headers are not everywhere.
check_headers() {
  local headers
  say 'each header alone'
  mapfile -t headers < <(list_files '*.hpp' | xargs -r grep -L -E '#include <cu(da|fft)')
  # shellcheck disable=SC2016
  printf '%s\n' "${headers[@]}" | xargs -P "$(job_count)" -I '{}' sh -c 'echo "#include \"$1\"" |
    g++ -std=c++20 -fsyntax-only -Wall -Wextra -I. -Iclient/cpp/include -Ibuild/host-debug/generated -x c++ - ||
    { echo "$1 does not compile alone"; exit 1; }' sh '{}'
}

check_with_clang_tidy() {
  local file sources
  say 'clang-tidy (some minutes)'
  mapfile -t sources < <(list_files '*.cpp' | while IFS= read -r file; do
    if grep -q "/$file\"" build/host-debug/compile_commands.json; then
      printf '%s\n' "$file"
    fi
  done)
  printf '%s\n' "${sources[@]}" |
    xargs -P "$(job_count)" -n 4 clang-tidy-14 --quiet --extra-arg=-Wno-unknown-warning-option -p build/host-debug 2> >(grep -v 'warnings generated' >&2 || true)
}

dev_format() {
  local sources mode=(-i)
  case ${1:-} in
    --check) mode=(--dry-run --Werror) ;;
    '') ;;
    *) fail "format takes --check or nothing, not \"$1\"" ;;
  esac
  need format
  mapfile -t sources < <(list_files '*.cpp' '*.hpp' '*.cu' '*.cuh')
  [[ ${#sources[@]} -gt 0 ]] || fail 'there are no sources here'
  clang-format-14 "${mode[@]}" -- "${sources[@]}" || fail 'the sources above are not formatted: run ./dev format'
  say "format: ${#sources[@]} sources looked at, all are as .clang-format says"
}
