#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Figures of prazo next to nginx, HAProxy and h2o, all in one run on this machine.

Read the ratio to nginx, not the number: it moves less between machines. CPU is the proxy's own user
and system time for one proxied request; rounds are interleaved, so that a noisy minute hits all.

    bench/bench.py                     everything
    bench/bench.py small fin           some
"""
import argparse
import contextlib
import re
import resource
import socket
import statistics
import subprocess
import threading
import time

from peers import HERE, PEERS, Peer

CONNECTIONS = 64
IDLE_CONNECTIONS = 10000
RATE = 5000


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))]


def table(title, unit, results):
    """results: {peer: [values]}; the first peer is the measure."""
    print(f"\n{title} ({unit})")
    first = statistics.median(next(iter(results.values())))
    for name, values in results.items():
        middle = statistics.median(values)
        ratio = f"{middle / first:6.2f} x nginx" if first else ""
        print(f"  {name:8s} {middle:9.2f}  {ratio}   min {min(values):.2f} max {max(values):.2f}")


@contextlib.contextmanager
def peers(names, log=False):
    with contextlib.ExitStack() as stack:
        upstream = stack.enter_context(Peer("upstream"))
        yield [stack.enter_context(Peer(name, upstream.port, log)) for name in names]


def wrk(port, path, seconds, script=None):
    """Number of requests answered; answers other than 2xx end the run."""
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", f"http://127.0.0.1:{port}{path}"]
    out = subprocess.run(command + (["-s", str(HERE / "conf" / script)] if script else []),
                         capture_output=True, text=True, check=True).stdout
    for line in out.splitlines():
        if "Non-2xx" in line or "Socket errors" in line:
            raise SystemExit(f"wrk: {line.strip()}: {' '.join(command)}")
    return int(re.search(r"(\d+) requests in", out).group(1))


def cpu(args, title, path, script=None, log=False):
    results = {name: [] for name in args.peers}
    with peers(args.peers, log) as started:
        for peer in started:
            wrk(peer.port, path, 1, script)
        for _ in range(args.rounds):
            for peer in started:
                before = peer.cpu_seconds()
                count = wrk(peer.port, path, args.seconds, script)
                results[peer.name].append(1e6 * (peer.cpu_seconds() - before) / count)
    table(title, "CPU µs a request", results)


def small(args):
    cpu(args, f"small answer, {CONNECTIONS} connections", "/small")


def big(args):
    cpu(args, "64 KiB answer", "/big")


def post(args):
    cpu(args, "POST of 16 KiB", "/small", script="post16k.lua")


def log(args):
    cpu(args, "small answer, access log on", "/small", log=True)


def latency(args):
    """Open loop: requests are due at fixed times, so that a stall is seen by all that were due."""
    names = [*args.peers, "direct"]
    half, tail = {n: [] for n in names}, {n: [] for n in names}
    clients = 50
    with Peer("upstream") as upstream, contextlib.ExitStack() as stack:
        started = [stack.enter_context(Peer(name, upstream.port)) for name in args.peers]
        for _ in range(args.rounds):
            for name, peer in [*zip(args.peers, started), ("direct", upstream)]:
                record = peer.dir / "h2load.tsv"
                record.unlink(missing_ok=True)
                subprocess.run(["h2load", "--h1", "-c", str(clients), "--rps", str(RATE // clients),
                                "-n", str(RATE * args.seconds), "--log-file", str(record),
                                f"http://127.0.0.1:{peer.port}/small"], check=True, capture_output=True)
                times = [int(line.split("\t")[2]) for line in record.read_text().splitlines()]
                half[name].append(percentile(times, 0.5))
                tail[name].append(percentile(times, 0.99))
    for share, seen in (("p50", half), ("p99", tail)):
        floor = seen.pop("direct")
        table(f"latency at {RATE} requests/s, {share}", "µs", seen)
        print(f"  direct   {statistics.median(floor):9.2f}  without any proxy")


def exchange(conn):
    conn.sendall(b"GET /small HTTP/1.1\r\nHost: bench\r\n\r\n")
    got = b""
    while b"]}" not in got:
        data = conn.recv(65536)
        if not data:
            raise SystemExit("a connection was closed that should stay open")
        got += data


def raise_nofile():
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def memory(args):
    """Growth for connections that have had one request each and now stay open."""
    results, idle = {}, {}
    raise_nofile()
    for name in args.peers:
        with peers([name]) as (peer,), contextlib.ExitStack() as stack:
            idle[name] = [peer.rss_bytes() / 1048576]
            with socket.create_connection(("127.0.0.1", peer.port)) as conn:
                exchange(conn)
            before = peer.rss_bytes()
            for _ in range(IDLE_CONNECTIONS):
                exchange(stack.enter_context(socket.create_connection(("127.0.0.1", peer.port))))
            results[name] = [(peer.rss_bytes() - before) / IDLE_CONNECTIONS / 1024]
    table("resident memory, idle", "MiB", idle)
    table(f"memory of an idle connection, {IDLE_CONNECTIONS} open", "KiB", results)


def syscalls(args):
    results, kinds = {}, {}
    for name in args.peers:
        with peers([name]) as (peer,):
            wrk(peer.port, "/small", 1)
            record = peer.dir / "strace"
            attach = [word for pid in peer.pids() for word in ("-p", str(pid))]
            trace = subprocess.Popen(["strace", "-f", "-c", "-o", str(record), *attach],
                                     stderr=subprocess.PIPE, text=True)
            trace.stderr.readline()  # "attached"
            count = wrk(peer.port, "/small", args.seconds)
            trace.terminate()
            trace.wait()
            rows = re.findall(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$",
                              record.read_text(), flags=re.M)
            rows = [(int(calls), call) for calls, call in rows if call != "total"]
            results[name] = [sum(calls for calls, _ in rows) / count]
            kinds[name] = ", ".join(f"{call} {calls / count:.2f}" for calls, call in sorted(rows)[::-1][:5])
    table("system calls", "a request", results)
    for name, text in kinds.items():
        print(f"  {name:8s} {text}")


class Watcher:
    """An upstream that never answers and notes when its caller hung up."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        self.arrived, self.gone = threading.Semaphore(0), threading.Semaphore(0)
        self.gone_at = 0.0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                conn, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._watch, args=(conn,), daemon=True).start()

    def _watch(self, conn):
        with conn:
            if not conn.recv(65536):
                return  # a probe, or a connection opened ahead
            self.arrived.release()
            try:
                while conn.recv(65536):
                    pass
            except ConnectionResetError:
                pass
            self.gone_at = time.monotonic()
            self.gone.release()


def fin(args):
    """From the client's close to the moment the upstream sees it."""
    results = {}
    for name in args.peers:
        watcher, times = Watcher(), []
        with Peer(name, watcher.port) as peer:
            for _ in range(300):
                conn = socket.create_connection(("127.0.0.1", peer.port))
                conn.sendall(b"GET /hang HTTP/1.1\r\nHost: bench\r\n\r\n")
                if not watcher.arrived.acquire(timeout=5):
                    raise SystemExit(f"{name} did not pass the request on")
                start = time.monotonic()
                conn.close()
                if not watcher.gone.acquire(timeout=2):
                    break
                times.append(1e6 * (watcher.gone_at - start))
        watcher.listener.close()
        if times:
            results[name] = times
        else:
            print(f"\n{name} does not pass a client's hang-up on within 2 s")
    if results:
        table("hang-up passed on to the upstream", "µs", results)
        table("hang-up passed on to the upstream, p99", "µs",
              {name: [percentile(times, 0.99)] for name, times in results.items()})


ALL = {f.__name__: f for f in (small, big, post, log, latency, memory, syscalls, fin)}


def main():
    options = argparse.ArgumentParser(description=__doc__,
                                      formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--seconds", type=int, default=5)
    options.add_argument("--peers", type=lambda s: s.split(","), default=PEERS)
    options.add_argument("what", nargs="*", help=" ".join(ALL))
    args = options.parse_args()
    unknown = set(args.what) - set(ALL)
    if unknown:
        options.error(f"unknown: {' '.join(unknown)}; there are {' '.join(ALL)}")
    for name in args.what or ALL:
        ALL[name](args)


if __name__ == "__main__":
    main()
