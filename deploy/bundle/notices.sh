# shellcheck shell=bash
# The licences of what a bundle carries that is not ours.

# Header-only or static libraries that are compiled into our programs.
bundle_compiled_in=(cppzmq-dev libspdlog-dev libboost-dev libtomlplusplus-dev libcli11-dev nlohmann-json3-dev libgtest-dev)

# write_notices FOLDER: prints what is carried, package by package, and each package's copyright file.
write_notices() {
  local folder=$1 library package packages=()
  for library in "$folder"/lib/*.so*; do
    package=$(package_of "${library##*/}")
    packages+=("$package")
  done
  mapfile -t packages < <(printf '%s\n' "${packages[@]}" "${bundle_compiled_in[@]}" | sort -u)
  cat <<'TEXT'
This bundle carries software of others: the shared libraries in lib/, and libraries of which parts are compiled into
the programs. Penstock's own licence is in LICENSE. FFTW (libfftw3f) is under the GNU General Public License, version 2
or later; whoever passes on this bundle with it passes on the whole under the terms of version 3, which the Apache
License 2.0 allows. Sources of all of them: the Debian packages of these names and versions.

TEXT
  dpkg-query -W -f='  ${source:Package} ${source:Version}: ${Package} ${Version}\n' "${packages[@]}"
  [[ ! -e $folder/lib/penstock/penstock-cuda.so ]] ||
    printf '  NVIDIA CUDA runtime, compiled into penstock-cuda.so, under the CUDA Toolkit End User License Agreement\n'
  for package in "${packages[@]}"; do
    printf '\n%s\n%s\n\n' "$package" "$(printf '=%.0s' $(seq ${#package}))"
    cat "/usr/share/doc/${package%%:*}/copyright"
  done
}

# package_of NAME: the installed package that a library of this name comes from. dpkg knows paths of before /usr was merged
# as they were.
package_of() {
  local path real package
  path=$(ldconfig -p | awk -v name="$1" '$1 == name && !found { print $NF; found = 1 }')
  real=$(readlink -f "$path")
  package=$(dpkg-query -S "$real" "${real#/usr}" "$path" "${path#/usr}" 2>/dev/null | head -n 1 | cut -d : -f 1 || true)
  [[ -n $package ]] || fail "no installed package has $1, so its licence is not known"
  printf '%s\n' "$package"
}
