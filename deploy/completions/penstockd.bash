# shellcheck shell=bash
# Completion of `penstockd` for bash.

# The pipelines that a configuration declares, as the daemon reads it.
_penstockd_pipelines() {
  local file='' i
  for ((i = 1; i < COMP_CWORD - 1; i++)); do
    case ${COMP_WORDS[i]} in
      -c | --config) file=${COMP_WORDS[i + 1]} ;;
    esac
  done
  "${COMP_WORDS[0]}" ${file:+--config "$file"} --print-config 2>/dev/null |
    sed -n '/^\[\[pipeline\]\]/,/^name/ s/^name = "\(.*\)"/\1/p'
}

_penstockd() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} choices
  COMPREPLY=()
  case $before in
    -c | --config)
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      return
      ;;
    --listen | --admin | --arch) return ;;
    --backend) choices='auto cuda host' ;;
    --completion) choices='callback poll auto' ;;
    --format) choices='text dot json man' ;;
    --print-plan) choices=$(_penstockd_pipelines) ;;
    *)
      choices='--config --listen --admin --backend --completion --check-config --arch --print-config --print-settings
        --doctor --print-plan --format --version --help'
      ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$choices" -- "$word")
}

complete -F _penstockd penstockd
