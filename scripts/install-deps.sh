#!/usr/bin/env bash
# Installs the Debian packages of the named groups: build, run, test, bench. Does nothing, and needs no
# root, when all of them are there. This is the one list of what prazo needs.
set -euo pipefail

build=(gcc libc6-dev make cmake ninja-build pkg-config git ca-certificates
  libuv1-dev libc-ares-dev libyaml-dev libjansson-dev node-llhttp)
run=(curl)
test=(libcmocka-dev clang clang-format clang-tidy libclang-rt-14-dev g++ universal-ctags
  python3 python3-pytest python3-pytest-xdist
  curl socat strace procps util-linux mount prometheus groff-base
  nginx wrk nghttp2-client nodejs) # peers that nobody here wrote
bench=(nginx haproxy h2o wrk nghttp2-client strace python3 procps)

packages=()
for group in "${@:-build}"; do
  case $group in
    build) packages+=("${build[@]}") ;;
    run) packages+=("${run[@]}") ;;
    test) packages+=("${test[@]}") ;;
    bench) packages+=("${bench[@]}") ;;
    *) echo "usage: $0 [build] [run] [test] [bench]" >&2; exit 2 ;;
  esac
done

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed ||
    missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo)
echo "installing: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -qq
# Services that a package would start (nginx, prometheus) are no part of this and would take ports.
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
  printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee $policy >/dev/null
  "${as_root[@]}" chmod +x $policy
  trap '"${as_root[@]}" rm -f $policy' EXIT
fi
"${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
