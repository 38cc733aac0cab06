# shellcheck shell=bash
# The shared libraries that travel in a bundle, and the proof that they are all that it needs.

# Part of glibc, which every machine brings; and the driver's own library, which only fits its driver.
bundle_leaves_out='^(ld-linux.*|libc|libm|libmvec|libpthread|librt|libdl|libresolv|libutil|libcuda)\.so'

# programs_of FOLDER: its programs and shared objects.
programs_of() {
  find "$1" -type f \( -path '*/bin/*' -o -name '*.so*' -o -path '*/tests/*' -executable \) -print | while IFS= read -r file; do
    [[ $(head -c 4 "$file" | tr -d '\0') != $'\x7fELF' ]] || printf '%s\n' "$file"
  done
}

# copy_libraries FOLDER: what its programs load, however deep, into lib/. ldd lists dependencies of dependencies too.
copy_libraries() {
  local folder=$1 file name path
  programs_of "$folder" | while IFS= read -r file; do
    ldd "$file"
  done | awk '/=> \// { print $1, $3 }' | sort -u >"$folder/.libraries"
  while read -r name path; do
    [[ $name =~ $bundle_leaves_out || -e $folder/lib/$name ]] && continue
    install -m 755 -s "$(readlink -f "$path")" "$folder/lib/$name"
  done <"$folder/.libraries"
  rm "$folder/.libraries"
}

# check_libraries FOLDER GLIBC: everything is found inside the bundle, and nothing asks for a newer glibc.
check_libraries() {
  local folder file missing
  folder=$(cd "$1" && pwd)
  while IFS= read -r file; do
    missing=$(found_elsewhere "$file" "$folder")
    [[ -z $missing ]] || fail "$file would not find in the bundle: $missing"
    check_glibc "$file" "$2"
  done < <(programs_of "$folder")
}

# found_elsewhere FILE FOLDER: what it loads from outside of the bundle. A shared object is loaded by a program, whose
# rpath holds for it too, so it is enough that lib/ has what it asks for.
found_elsewhere() {
  local name path
  LD_LIBRARY_PATH='' ldd "$1" | awk '/=>/ { print $1, $3 }' | while read -r name path; do
    [[ $name =~ $bundle_leaves_out || $path == "$2"/* ]] && continue
    [[ $1 == *.so* && -e $2/lib/$name ]] || printf '%s ' "$name"
  done
}

check_glibc() {
  local newest
  newest=$(objdump -T "$1" | { grep -o 'GLIBC_[0-9.]*' || true; } | sed 's/GLIBC_//' | sort -Vu | tail -n 1)
  [[ $(printf '%s\n' "${newest:-0}" "$2" | sort -V | tail -n 1) == "$2" ]] ||
    fail "$1 needs glibc $newest, and a bundle promises $2: make it on Debian 12"
}
