#!/usr/bin/env bash
# `make run`: installs what is missing, builds, starts the demo service and a gateway in front of
# it, says what to try, and stops both on Ctrl-C.
set -euo pipefail
cd "$(dirname "$0")/.."

# A process of somebody else on one of these ports would answer in place of ours.
for port in 8080 9100 9901; do
  if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
    echo "something listens on 127.0.0.1:$port already, perhaps another make run; stop it first" >&2
    exit 1
  fi
done

scripts/install-deps.sh build run
make --no-print-directory all

pids=()
stop() {
  trap - EXIT
  trap 'kill -TERM "${pids[@]}" 2>/dev/null || true' INT TERM HUP # a second signal cuts
  # The gateway first: it has an answer to give for whatever is still under way.
  [ ${#pids[@]} -lt 2 ] || { kill -TERM "${pids[1]}" && wait "${pids[1]}"; } 2>/dev/null || true
  [ ${#pids[@]} -lt 1 ] || { kill -TERM "${pids[0]}" && wait "${pids[0]}"; } 2>/dev/null || true
}
trap stop EXIT
trap 'echo; echo "stopping (the gateway drains first) ..."; exit 0' INT TERM HUP

# await PID URL: until it answers, or the process that should answer has ended.
await() {
  until curl -fsS -o /dev/null "$2" 2>/dev/null; do
    if ! kill -0 "$1" 2>/dev/null; then
      echo "it did not start; its own words are above" >&2
      exit 1
    fi
    sleep 0.1
  done
}

# Each in a process group of its own: a Ctrl-C of the terminal would reach both at once, and stop()
# would be the second signal, which cuts.
set -m
build/prazo demo --listen 127.0.0.1:9100 &
pids+=($!)
await $! http://127.0.0.1:9100/_stats
build/prazo run examples/quickstart.yaml &
pids+=($!)
await $! http://127.0.0.1:9901/readyz
set +m

cat <<'TXT'

prazo listens on 127.0.0.1:8080 in front of a demo service that takes 100 ms. In another terminal:

1. An ordinary request:
   curl -i 127.0.0.1:8080/hello

2. One that may take 50 ms. The answer comes in time, as a problem that says what happened (504),
   and the demo service is told to stop: "cancelled" counts up, "orphan" stays 0.
   curl -iw '\n' -H "x-deadline-ms: $(( $(date +%s%3N) + 50 ))" 127.0.0.1:8080/hello
   curl -s 127.0.0.1:9100/_stats

3. Make the service slow, call it with a client that gives up after a second, and see that the
   gateway has cancelled the work too. Then make it fast again.
   curl -X PUT -d '{"service_ms":4000}' 127.0.0.1:9100/_control
   curl -m 1 127.0.0.1:8080/hello
   curl -s 127.0.0.1:9901/metrics | grep -E '^prazo_(amplification_ratio|cancelled_total|client_gone_total)'
   curl -X PUT -d '{"service_ms":100}' 127.0.0.1:9100/_control

Ctrl-C stops both.
TXT
# Whichever ends first ends the other.
wait -n || true
echo "one of the two processes has ended; stopping the other" >&2
exit 1
