#!/usr/bin/env bash
# Fuzzes each target for a while. usage: fuzz.sh BUILD_DIRECTORY SECONDS
# New inputs go to BUILD_DIRECTORY/corpus; a crash is kept beside the stored corpus, so that it can
# be committed as a test.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1 seconds=$2
for target in "$build"/test/fuzz.*; do
  [ -x "$target" ] || continue
  name=${target##*/fuzz.}
  mkdir -p "$build/corpus/$name" "test/fuzz/corpus/$name"
  echo "== $name: again with $target test/fuzz/corpus/$name"
  "$target" -max_total_time="$seconds" -timeout=5 -print_final_stats=1 -verbosity=0 \
    -artifact_prefix="test/fuzz/corpus/$name/" "$build/corpus/$name" "test/fuzz/corpus/$name"
done
