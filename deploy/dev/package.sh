# shellcheck shell=bash
# ./dev package: the Debian packages, in build/packages.

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
