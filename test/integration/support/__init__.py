# SPDX-License-Identifier: MIT
"""Harness of the integration tests: real processes, real sockets, the standard library only.

Fixtures (../conftest.py): `gateway_factory(**keys)` → Gateway, `upstream` → ScriptedUpstream that
answers 200 "ok\\n", `upstream_factory(…)` → ScriptedUpstream, `demo_factory(…)` → Demo, `blackhole` →
an address where connecting hangs. All are ended at teardown, where a gateway that did not exit
with 0, or wrote a sanitizer's report, fails the test.

    from support import deadline_headers, wait_until

    def test_c011_client_leaves(gateway_factory, upstream):
        gateway = gateway_factory(upstream=upstream)
        upstream.handler = lambda conn, request: conn.wait_for_close()
        with gateway.client() as client:
            client.request("GET", "/slow", headers=deadline_headers(5000))
            upstream.wait_for_requests(1)
        assert upstream.connections[0].wait_for_close(timeout=0.2) == "fin"
        gateway.wait_metric("prazo_client_gone_total", 1, state="sent")

Gateway          gateway_factory(upstream=up, app={"connect_timeout": "1s"}, routes=[…], deadline="2s",
                 listen={"trust": "none"}, …): see Gateway's docstring. One thread, every request logged,
                 a quick shutdown, unless keys say otherwise.
                 .client() .fetch(target, method, headers, body) .admin(target) .metric(name, **labels)
                 .wait_metric(name, value or function, **labels) .logs(**fields) .wait_log(**fields)
                 .reload(**keys) .terminate() .kill() .signal(n) .wait() .rss() .fds() .threads()
                 .expected_exit = 2 where an exit code other than 0 is right.
RawClient        RawClient(address): .send(bytes) .request(…) .read_response() .read_head() .read_body(r)
                 .recv_until(b"…") .recv_exactly(n) .recv_all() .recv_end() → "fin" or "rst"
                 .half_close() .close() .reset() (RST) .expect_silence(seconds)
                 Answers are read strictly: ProtocolError; ConnectionEnded (.how, .got) between
                 messages and Truncated (.message has what came) inside a body.
Response         .status .headers .header(name) .body .text .json .trailers .informational .chunks
                 .problem → "deadline-exceeded" for prazo's own documents, else None
ScriptedUpstream handler(conn, request) answers through conn (.respond() .respond_chunked() .send()
                 .close() .reset() .half_close()), or returns bytes, a status, a body as str, or
                 (status, body[, headers]).
                 up.handler = f; up.script(503, b"HTTP/1.1 200 OK\\r\\n…", f) for the next requests.
                 conn.hold(event) conn.work(seconds) conn.wait_for_close() conn.pause_reading()
                 conn.received conn.fin_at conn.rst_at; up.requests up.connections
                 up.wait_for_requests(n) up.stop_listening() up.listen_again()
                 early=True: handlers run at the request's head; on_connection=f: raw connections.
Families         upstream_factory(family="unix" or "ipv6"), gateway_factory(listen="unix" or "ipv6")
NameServer       with NameServer({"app.test": ["127.0.0.1"]}) as names:
                 gateway_factory(upstream="app.test:80", prefix=names.prefix); .names .is_silent
                 .queries. Needs root, as CI has.
Commands         prazo("config", path) → CompletedProcess

Times: wait_until(condition, timeout), now_ms(), Stopwatch, deadline_headers(left_ms). Upper bounds
grow with $PRAZO_TEST_SLACK, for sanitizer builds. $PRAZO names the binary (default build/prazo).
One test: /usr/bin/python3 -m pytest test/integration -k c011
"""

from .client import RawClient, fetch, fetch_timed
from .clock import SLACK, Stopwatch, deadline_headers, now_ms, wait_until
from .demo import Demo
from .gateway import Gateway
from .message import (LAST_CHUNK, ConnectionEnded, ProtocolError, Truncated, build_head, chunk)
from .metrics import parse_metrics
from .names import NameServer
from .net import BlackHole, free_address, free_port, is_listening, release_address
from .process import IS_SANITIZED, PRAZO, Process, prazo
from .upstream import ScriptedUpstream

__all__ = [
    "RawClient", "fetch", "fetch_timed", "SLACK", "Stopwatch", "deadline_headers", "now_ms",
    "wait_until", "Demo", "Gateway", "LAST_CHUNK", "ConnectionEnded", "ProtocolError", "Truncated",
    "build_head", "chunk", "parse_metrics", "NameServer", "BlackHole", "free_address", "free_port",
    "is_listening", "release_address", "IS_SANITIZED", "PRAZO", "Process", "prazo",
    "ScriptedUpstream",
]
