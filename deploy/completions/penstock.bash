# shellcheck shell=bash
# Completion of `penstock` for bash.

# The pipelines of the daemon that the line names, in the time that somebody waits for a tab.
_penstock_pipelines() {
  local url='' i
  for ((i = 1; i < ${#COMP_WORDS[@]} - 1; i++)); do
    if [[ ${COMP_WORDS[i]} == --url ]]; then
      url=${COMP_LINE#*--url}
      url=${url#=}
      read -r url _ <<<"$url"
    fi
  done
  "${COMP_WORDS[0]}" ${url:+--url "$url"} --timeout 500ms info --json 2>/dev/null |
    sed -n '/^  "pipelines": \[/,/^  \]/ s/^      "name": "\([^"]*\)".*/\1/p'
}

# The command that stands on the line already, or nothing.
_penstock_command() {
  local i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
      --url | --server-key | --key-file | --transport | --timeout) i=$((i + 1)) ;;
      -*) ;;
      bench | check-plugin | doctor | info | keygen | ping | record | reload | replay | send | set | top | trace | watch)
        printf '%s\n' "${COMP_WORDS[i]}"
        return
        ;;
    esac
  done
}

_penstock() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command options
  COMPREPLY=()
  command=$(_penstock_command)
  case $before in
    -p | --pipeline)
      mapfile -t COMPREPLY < <(compgen -W "$(_penstock_pipelines)" -- "$word")
      return
      ;;
    --format)
      mapfile -t COMPREPLY < <(compgen -W 'npy raw csv jsonl' -- "$word")
      return
      ;;
    --transport)
      mapfile -t COMPREPLY < <(compgen -W 'auto zmq shm' -- "$word")
      return
      ;;
    --color)
      mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$word")
      return
      ;;
    -c | --config | --daemon | --key-file | -o | --out | --output | --to | --show | --json)
      if [[ $before != --json || $command == bench ]]; then
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        return
      fi
      ;;
  esac
  options='--url --server-key --key-file --transport --timeout --help'
  case $command in
    '') options+=' --version bench check-plugin doctor info keygen ping record reload replay send set top trace watch' ;;
    ping) options+=' --count --quiet' ;;
    info) options+=' --json' ;;
    send)
      options+=' --pipeline --out --format --output --force --view --frames-per-request --in-flight --session --channel'
      options+=' --raw --flush --rate --index --time --color'
      ;;
    replay)
      options+=' --pipeline --out --format --output --force --view --frames-per-request --in-flight --session --pace'
      options+=' --rate --color'
      ;;
    record) options+=' --to --requests --output --session --for --max-bytes --rate --force' ;;
    bench) options+=' --pipeline --size --clients --sessions --in-flight --rate --duration --warmup --json' ;;
    check-plugin) options+=' --entry --input --values --max-frames' ;;
    trace) options+=' --last --follow-for --output' ;;
    watch) options+=' --view --session --output --requests --count --rate --color' ;;
    keygen) options+=' --output --name --force --show' ;;
    top) options+=' --admin --interval --once --batch' ;;
    reload) options+=' --admin' ;;
    set) options+=' --everywhere --admin' ;;
    doctor) options+=' --config --daemon --admin --running --json' ;;
  esac
  if [[ ($command == send || $command == replay || $command == check-plugin) && $word != -* ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
    return
  fi
  mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word")
}

complete -F _penstock penstock
