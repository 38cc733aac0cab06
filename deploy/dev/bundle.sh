# shellcheck shell=bash
# ./dev bundle: everything that a machine without any of our packages needs to run Penstock and all of its tests.
# ./dev package: the Debian packages, in build/packages.

source deploy/bundle/libraries.sh
source deploy/bundle/notices.sh

bundle_limit_mib=64
bundle_newest_glibc=2.36

dev_bundle() {
  [[ $# -eq 0 ]] || fail 'bundle takes no options'
  need build bench
  PENSTOCK_BENCH=ON build release
  # Programs that the tree no longer makes are no part of it.
  ninja -C build/release -t cleandead >/dev/null
  local version name
  version=$(sed -n 's/^project(penstock VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
  name=penstock-$version-linux-$(uname -m)
  say "gathering build/$name"
  rm -rf "build/$name" "build/$name.tar.gz"
  gather "build/$name"
  check_bundle "build/$name"
  pack "$name"
  say "made build/$name ($(mib "build/$name") MiB) and build/$name.tar.gz ($(mib "build/$name.tar.gz") MiB)"
  printf '   unpack it anywhere and call run-tests\n'
}

mib() {
  du -sm "$1" | cut -f 1
}

# Tests of what a bundle has not: packages, images, pages for people, examples.
not_here=()
for name in completions dashboard deployment dev docker documents install live_examples models_bare packages systemd; do
  not_here+=(! -name "${name}_test.py")
done

# gather FOLDER: copies what the build made and what the tests read into the bundle's layout.
gather() {
  local to=$1 from=build/release module
  mkdir -p "$to"/{bin,lib,etc,python} "$to"/tests/{proto,system,python}
  install -s -t "$to/bin" "$from"/bin/penstockd "$from"/bin/penstock "$from"/bin/penstock-bench
  # Libraries there are for attacks, which a bundle does not hold, as it does not hold the seeds of the fuzzers.
  find "$from/tests" -maxdepth 1 -type f -executable ! -name '*.so' ! -name '*_replay' \
    -exec install -s -t "$to/tests" {} +
  module=$(find "$from" -name penstock-cuda.so -type f -print -quit)
  if [[ -n $module ]]; then
    mkdir -p "$to/lib/penstock"
    install -s -t "$to/lib/penstock" "$module"
  else
    say 'without penstock-cuda.so: there is no CUDA toolkit here, so this bundle runs on the host backend alone'
  fi
  cp deploy/config/*.toml "$to/etc"
  cp -r proto/PROTOCOL.md proto/golden "$to/tests/proto"
  # As they are installed: a link to what is not there is a link no more.
  cp -r "$from"/documents/{docs,proto,SECURITY.md} "$to"
  cp -r client/python/src/penstock "$to/python"
  find client/python/tests -maxdepth 1 -name '*.py' -exec cp -t "$to/tests/python" {} +
  find tests/system -name '*.py' "${not_here[@]}" -exec cp -t "$to/tests/system" {} +
  install -D -m 644 -t "$to/deploy/prometheus" deploy/prometheus/alerts.yml
  # What stages of users' own include, and examples of them.
  mkdir -p "$to/kernels" "$to/daemon/code"
  cp -r kernels/include "$to/kernels"
  cp -r daemon/code/include "$to/daemon/code"
  cp -r deploy/examples "$to/deploy"
  cp deploy/systemd/penstockd.service "$to/tests/system"
  find "$to" -name __pycache__ -prune -exec rm -r {} +
  install -m 755 deploy/bundle/run-tests "$to/run-tests"
  cp deploy/bundle/README "$to/README"
  cp LICENSE "$to/LICENSE"
  copy_libraries "$to"
  write_notices "$to" >"$to/THIRD-PARTY"
}

# check_bundle FOLDER: what a bundle promises, or nothing is packed.
check_bundle() {
  check_libraries "$1" "$bundle_newest_glibc"
  check_links "$1"
}

# check_links FOLDER: each link of its pages to a file leads to one.
check_links() {
  local page link
  find "$1" -name '*.md' -not -path '*/tests/*' | while IFS= read -r page; do
    { grep -oP '\]\(\K(?!http)[^)#]+' "$page" || true; } | while IFS= read -r link; do
      [[ -e $(dirname "$page")/$link ]] || fail "$page links to $link, which the bundle lacks"
    done
  done
}

# pack NAME: the same tree gives the same bytes, whoever packs it and when.
pack() {
  local name=$1 epoch
  epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
  tar --directory build --sort=name --owner=0 --group=0 --numeric-owner --mode=u+rw,go=rX,a+rX --mtime="@$epoch" \
    --create "$name" | gzip --no-name --best >"build/$name.tar.gz"
  [[ $(mib "build/$name.tar.gz") -le $bundle_limit_mib ]] ||
    fail "build/$name.tar.gz has more than $bundle_limit_mib MiB"
}

# The same tree gives the same packages: their files carry the time of its last commit.
dev_package() {
  [[ $# -eq 0 ]] || fail 'package takes no options'
  need build package
  SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
  export SOURCE_DATE_EPOCH
  build package
  say 'packing'
  rm -rf build/packages
  mkdir -p build/packages
  run_logged build/package.cpack.log cpack --config build/package/CPackConfig.cmake -B "$PWD/build/package/cpack"
  mv build/package/cpack/*.deb build/packages
  run_logged build/package.lintian.log lintian --fail-on error build/packages/*.deb
  cat build/package.lintian.log
  say 'made in build/packages'
  (cd build/packages && du -h -- *.deb)
}
