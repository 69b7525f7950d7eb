# SPDX-License-Identifier: MIT
"""Numbers that add up, and never depend on who sends what (contract 10)."""

import contextlib
import math
import random
import threading

import pytest

from support import deadline_headers, fetch, free_address, now_ms, release_address, wait_until

COUNT_C089 = 20_000
PIPELINED = 200


def draw_request(draw):
    word = f"{draw.getrandbits(64):x}"
    return (f"GET /{word}?{word}={word} HTTP/1.1\r\nhost: {word}.example\r\n"
            f"idempotency-key: {word}\r\nx-request-id: {word}\r\n"
            f"user-agent: {word}\r\n\r\n").encode()


# C089
def test_c089_scanner_does_not_fill_the_metric_store(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream, log={"requests": "none"},
                              routes=[{"path": "/api/*"}])
    before, series = gateway.admin("/metrics").text, set(gateway.metrics())
    draw = random.Random(89)
    with gateway.client() as client:
        for _ in range(COUNT_C089 // PIPELINED):
            client.send(b"".join(draw_request(draw) for _ in range(PIPELINED)))
            for _ in range(PIPELINED):
                assert client.read_head().status == 404
                client.recv_until(b"}")
    after = gateway.metrics()
    assert set(after) == series
    assert len(gateway.admin("/metrics").text) - len(before) < 10_000
    assert after.value("prazo_requests_total", route="unmatched", code="4xx") == COUNT_C089
    assert upstream.requests == []


def assert_no_strange_numbers(gateway):
    metrics = gateway.metrics()
    for (name, labels), value in metrics.items():
        assert math.isfinite(value) and value >= 0, (name, dict(labels), value)
    return metrics


# C090
def test_c090_no_duration_is_negative(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    for error_ms in (-3000, -50, -3, -2, -1, 0, 1, 2, 3, 50, 3000):
        for left_ms in (-3, 0, 1, 5, 1000):
            sent = now_ms() + error_ms
            gateway.fetch(headers={"x-deadline-ms": sent + left_ms, "x-deadline-sent-ms": sent})
            gateway.fetch(headers={"x-deadline-ms": sent + left_ms})
    metrics = assert_no_strange_numbers(gateway)
    assert metrics.value("prazo_budget_left_seconds_count") == 110
    assert metrics.value("prazo_clock_skew_total") == 0


# C090
@pytest.mark.parametrize("error_ms", [-60_000, 60_000])
def test_c090_skew_has_a_metric_of_its_own(gateway_factory, upstream, error_ms):
    gateway = gateway_factory(upstream=upstream)
    sent = now_ms() + error_ms
    assert gateway.fetch(headers={"x-deadline-ms": sent + 1000,
                                  "x-deadline-sent-ms": sent}).status == 200
    metrics = assert_no_strange_numbers(gateway)
    assert metrics.value("prazo_clock_skew_total") == 1


# ---- what is counted where ----

def test_every_request_is_counted_once(gateway_factory, upstream, upstream_factory):
    nobody = free_address()
    stuck = upstream_factory(lambda conn, _: conn.wait_for_close() and None)
    gateway = gateway_factory(
        upstreams={"app": upstream, "none": nobody, "stuck": stuck},
        routes=[{"path": "/app/*", "upstream": "app"}, {"path": "/none", "upstream": "none"},
                {"path": "/stuck", "upstream": "stuck"}])
    for status in (200, 204, 302, 404, 500, 503):
        upstream.handler = (status, b"")
        assert gateway.fetch("/app/x").status == status
    assert gateway.fetch("/none").status == 502
    assert gateway.fetch("/nowhere").status == 404
    assert gateway.fetch("/stuck", headers=deadline_headers(50)).status == 504
    client = gateway.client()
    client.request("GET", "/stuck", deadline_headers(5000))
    stuck.wait_for_requests(2)
    client.close()
    gateway.wait_metric("prazo_requests_total", 1, code="gone")
    gateway.wait_metric("prazo_in_flight", 0)
    metrics = gateway.metrics()
    for route, code, count in (
            ("/app/*", "2xx", 2), ("/app/*", "3xx", 1), ("/app/*", "4xx", 1), ("/app/*", "5xx", 2),
            ("/none", "5xx", 1), ("unmatched", "4xx", 1), ("/stuck", "5xx", 1),
            ("/stuck", "gone", 1)):
        assert metrics.value("prazo_requests_total", route=route, code=code) == count, (route, code)
    assert metrics.value("prazo_requests_total") == 10
    for result, count in (("ok", 4), ("error", 4), ("expired", 1), ("abandoned", 1), ("shed", 0)):
        found = metrics.value("prazo_request_seconds_count", result=result)
        assert found == count, (result, found)
    assert metrics.value("prazo_upstream_requests_total", upstream="app") == 6
    assert metrics.value("prazo_upstream_requests_total", upstream="none") == 0
    assert metrics.value("prazo_attempts_total", upstream="app", result="ok") == 4
    assert metrics.value("prazo_attempts_total", upstream="app", result="error") == 2
    assert metrics.value("prazo_attempts_total", upstream="stuck", result="cut") == 2
    release_address(nobody)


@pytest.mark.parametrize("answer, result, problem", [
    (b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n", "invalid", "upstream-invalid-response"),
    (b"hello\r\n\r\n", "invalid", "upstream-invalid-response"),
    (b"", "reset", "upstream-reset")])
def test_bad_answers_are_told_apart(gateway_factory, upstream, answer, result, problem):
    gateway = gateway_factory(upstream=upstream)

    def handler(conn, _request):
        conn.send(answer)
        conn.close()
    upstream.handler = handler
    assert gateway.fetch().problem == problem
    metrics = gateway.metrics()
    assert metrics.value("prazo_attempts_total", result=result) == 1
    assert metrics.value("prazo_attempts_total") == 1


def test_amplification_is_one_when_nothing_is_repeated(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    assert gateway.metric("prazo_amplification_ratio", upstream="app") == 1
    for _ in range(10):
        gateway.fetch()
    assert gateway.metric("prazo_amplification_ratio", upstream="app") == 1


def test_gauges_show_what_is_going_on(gateway_factory, upstream):
    let_go = threading.Event()
    gateway = gateway_factory(upstream=upstream, listen=[{"name": "front"}])
    upstream.handler = lambda conn, _: conn.hold(let_go) and conn.respond(200)
    clients = [gateway.client().request() for _ in range(3)]
    upstream.wait_for_requests(3)
    metrics = gateway.metrics()
    assert metrics.value("prazo_in_flight", upstream="app") == 3
    assert metrics.value("prazo_connections", listener="front") == 3
    assert metrics.value("prazo_upstream_connections", state="active") == 3
    assert metrics.value("prazo_upstream_connections", state="idle") == 0
    let_go.set()
    for client in clients:
        assert client.read_response().status == 200
    gateway.wait_metric("prazo_upstream_connections", 3, state="idle")
    assert gateway.metric("prazo_in_flight") == 0
    for client in clients:
        client.close()
    gateway.wait_metric("prazo_connections", 0)


def test_durations_are_in_the_right_buckets(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)

    def handler(conn, _request):
        with contextlib.suppress(AssertionError):
            conn.wait_for_close(0.12)
        conn.respond(200)
    upstream.handler = handler
    gateway.fetch(headers=deadline_headers(3000))
    metrics = gateway.metrics()
    for name, le_below, le_above in (("prazo_request_seconds", "0.1", "10.0"),
                                     ("prazo_attempt_seconds", "0.1", "10.0"),
                                     ("prazo_budget_left_seconds", "2.0", "5.0")):
        assert metrics.value(f"{name}_bucket", le=le_below) == 0, name
        assert metrics.value(f"{name}_bucket", le=le_above) == 1, name
        assert metrics.value(f"{name}_count") == 1, name
    assert 0.1 <= metrics.value("prazo_request_seconds_sum") <= 3
    bounds = {float(labels["le"]) for labels in metrics.labels("prazo_request_seconds_bucket")}
    assert sorted(bounds) == [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2,
                              5, 10, 20, 50, math.inf]


def test_ready_whatever_the_upstream_does(gateway_factory):
    nobody = free_address()
    gateway = gateway_factory(upstream=nobody, app={"connections": {"max": 1}})
    for _ in range(20):
        assert gateway.fetch().status == 502
    assert gateway.admin("/readyz").status == 200
    assert gateway.admin("/healthz").status == 200
    release_address(nobody)


def test_process_metrics(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    metrics = gateway.metrics()
    assert abs(metrics.value("process_resident_memory_bytes") - gateway.rss()) < 4 << 20
    assert abs(metrics.value("process_open_fds") - gateway.fds()) <= 2
    assert metrics.value("process_threads") == gateway.threads()
    assert abs(metrics.value("process_start_time_seconds") - now_ms() / 1000) < 20
    wait_until(lambda: fetch(gateway.admin_address, "/healthz",
                             headers={"host": "localhost"}).status == 200)
