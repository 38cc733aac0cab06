# shellcheck shell=bash
# ./dev new-operator NAME: the files of a new operator, and its entries in the lists: docs/first-operator.md.

dev_new-operator() {
  [[ $# -eq 1 ]] || fail 'new-operator wants a name, as in ./dev new-operator rectify'
  need rules
  python3 deploy/dev/new_operator.py "$1"
  say "it multiplies by a number for now; ./dev test -R $1 builds and tests it, docs/first-operator.md goes on"
}
