# SPDX-License-Identifier: MIT
"""The budget of the request path: a proxied keep-alive request is two reads, two writes and its
share of waiting."""
import re
import signal
import subprocess

from support import IS_SANITIZED

REQUESTS = 1000


def test_a_request_costs_at_most_six_system_calls(gateway_factory, upstream, tmp_path):
    gateway = gateway_factory(upstream=upstream, log={"requests": "errors"})
    upstream.handler = lambda conn, _request: conn.send(
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    report = tmp_path / "strace"
    with gateway.client() as client:
        client.request().read_response()
        trace = subprocess.Popen(["strace", "-f", "-c", "-o", report, "-p", str(gateway.process.pid)],
                                 stderr=subprocess.PIPE, text=True)
        assert "attached" in trace.stderr.readline()
        for _ in range(REQUESTS):
            assert client.request().read_response().status == 200
        trace.send_signal(signal.SIGINT)
        trace.wait()
    calls = {name: int(count) for count, name in re.findall(
        r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$", report.read_text(), flags=re.M)}
    calls.pop("total", None)
    assert calls["recvfrom"] >= 2 * REQUESTS * 0.99 and calls["writev"] >= 2 * REQUESTS * 0.99
    if not IS_SANITIZED:  # a sanitizer maps and unmaps memory of its own
        assert sum(calls.values()) / REQUESTS <= 6.2, calls
