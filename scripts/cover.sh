#!/usr/bin/env bash
# Line coverage of the C tests. usage: cover.sh BUILD_DIRECTORY
# Uses gcov alone: one line per file and a total; the annotated sources lie in BUILD_DIRECTORY/report.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$PWD/$1 root=$PWD
find "$build" -name '*.gcda' -delete
ctest --test-dir "$build" --output-on-failure >"$build/ctest.log" || { cat "$build/ctest.log"; exit 1; }
rm -rf "$build/report"
mkdir -p "$build/report"
cd "$build/report"
find "$build/CMakeFiles" -name '*.gcda' -print0 |
  xargs -0 gcov --source-prefix "$root" --relative-only --preserve-paths 2>/dev/null |
  awk '/^File /{f=$2; gsub(/\x27/, "", f)}
    /^Lines executed:/{split($0, p, /[:% ]+/); n=p[5]; if (f ~ /^src\//) {
      printf "%6.1f%% of %4d %s\n", p[3], n, f; hit += p[3] * n / 100; all += n } f=""}
    END {if (all) printf "%6.1f%% of %4d total\n", 100 * hit / all, all}' | sort -k4
