# shellcheck shell=bash
# ./dev format: clang-format 14 over every C++ and CUDA source that git knows or would know.

list_sources() {
  git ls-files --cached --others --exclude-standard -- '*.cpp' '*.hpp' '*.cu' '*.cuh' | while IFS= read -r file; do
    [[ ! -e $file ]] || printf '%s\n' "$file"
  done
}

dev_format() {
  local sources mode=(-i)
  case ${1:-} in
    --check) mode=(--dry-run --Werror) ;;
    '') ;;
    *) fail "format takes --check or nothing, not \"$1\"" ;;
  esac
  need format
  mapfile -t sources < <(list_sources)
  [[ ${#sources[@]} -gt 0 ]] || fail 'there are no sources here'
  clang-format-14 "${mode[@]}" -- "${sources[@]}" || fail 'the sources above are not formatted: run ./dev format'
  say "format: ${#sources[@]} sources looked at, all are as .clang-format says"
}
