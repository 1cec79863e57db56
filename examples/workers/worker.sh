#!/bin/sh
# A worker in shell: `syncline worker` runs it once for each key. The key is in SYNCLINE_KEY, the input on standard input, the
# result what is written to standard output. Exit code 65 says that the key will never work.
#
#     syncline worker sums -- ./worker.sh
set -eu

case "$SYNCLINE_KEY" in
bad-*) echo "$SYNCLINE_KEY is no list of numbers" >&2 && exit 65 ;;
esac

numbers=$(tr -c '0-9\n' ' ')
total=0
for number in $numbers; do total=$((total + number)); done
printf '{"total":%d,"by":"shell"}\n' "$total"
