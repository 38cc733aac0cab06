# shellcheck shell=bash
# ./dev demo: recorded voices through a real daemon, and what came back on the last screen.

demo_voices=/usr/share/sounds/alsa
demo_last=Front_Center
# The spectrum of "voice" alone, so that one screen holds its picture.
demo_pipeline='
[[pipeline]]
name    = "voice-spectrum"
input   = { dtype = "i16", shape = [1024] }
outputs = ["psd"]

[[pipeline.stage]]
name = "sound"
op   = "convert"
to   = "f32"

[[pipeline.stage]]
name   = "psd"
op     = "power_spectrum"
from   = "sound"
window = "hann"
scale  = "db"
'
demo_folder=''
demo_daemon=''

dev_demo() {
  [[ $# -eq 0 ]] || fail 'demo takes no options'
  need build demo
  build release penstockd penstock penstock-cuda
  demo_folder=$(mktemp -d)
  trap end_demo EXIT
  export PENSTOCK_URL=ipc://$demo_folder/penstock
  start_daemon
  send_voices
  show_last_voice
  stop_daemon
  say_what_next
}

end_demo() {
  [[ -z $demo_daemon ]] || kill -KILL "$demo_daemon" 2>/dev/null || true
  [[ -z $demo_folder ]] || rm -rf "$demo_folder"
}

# start_daemon: on a socket of its own, so that a daemon that runs already is not disturbed.
start_daemon() {
  local left=240
  say 'starting penstockd with deploy/config/penstock.toml'
  { cat deploy/config/penstock.toml && echo "$demo_pipeline"; } >"$demo_folder/penstock.toml"
  build/release/bin/penstockd --config "$demo_folder/penstock.toml" --listen "$PENSTOCK_URL" --admin none \
    2>"$demo_folder/log" &
  demo_daemon=$!
  until build/release/bin/penstock --timeout 500ms ping --quiet 2>/dev/null; do
    left=$((left - 1))
    if [[ $left -eq 0 ]] || ! kill -0 "$demo_daemon" 2>/dev/null; then
      cat "$demo_folder/log" >&2
      fail 'the daemon did not become ready: what it said is above'
    fi
    sleep 0.1
  done
  sed 's/^/   /' "$demo_folder/log"
}

send_voices() {
  local voice name
  say "sending the recorded voices of $demo_voices through the pipeline \"voice\""
  for voice in "$demo_voices"/*.wav; do
    name=$(basename "$voice" .wav)
    [[ $name != Noise && $name != "$demo_last" ]] || continue
    build/release/bin/penstock send --pipeline voice "$voice" --out "$demo_folder/$name" >"$demo_folder/sent" 2>&1 ||
      { cat "$demo_folder/sent" >&2 && fail "sending $voice failed"; }
    printf '   %-12s %s\n' "$name" "$(grep -o '[0-9,]* of .*' "$demo_folder/sent" | sed -n 1p)"
  done
}

show_last_voice() {
  say "a voice that says \"front center\", its spectrum taken frame by frame by the daemon"
  build/release/bin/penstock send --pipeline voice-spectrum "$demo_voices/$demo_last.wav" --view ||
    fail "sending $demo_voices/$demo_last.wav failed"
  say_where
}

# Read from the daemon itself, by its counters.
say_where() {
  local facts
  facts=$(build/release/bin/penstock info --json)
  printf '  device      %s\n  account     %s requests accepted, %s results\n' \
    "$(member device backend <<<"$facts"): $(member device name <<<"$facts")" \
    "$(member requests accepted <<<"$facts")" "$(member requests results <<<"$facts")"
}

# member OBJECT NAME: that member of the first object of that name, of indented JSON.
member() {
  sed -n "/\"$1\": {/,/}/ s/^ *\"$2\": \"\{0,1\}\([^\",]*\).*/\1/p" | sed -n 1p
}

stop_daemon() {
  local status=0
  kill -TERM "$demo_daemon"
  wait "$demo_daemon" || status=$?
  demo_daemon=''
  [[ $status -eq 0 ]] || { cat "$demo_folder/log" >&2 && fail "the daemon ended with $status, not with 0"; }
}

say_what_next() {
  say 'what next'
  cat <<'TEXT'
  build/release/bin/penstockd --config deploy/config/penstock.toml    the daemon
  build/release/bin/penstock send -p voice FILE.wav --view    your own voice (16 bits)
  README.md    a pipeline and a client of your own;    ./dev test    all the tests
TEXT
}
