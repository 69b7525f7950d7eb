# SPDX-License-Identifier: MIT
"""Abandoned attempts: how they end, what is counted, what is held until then (contract 6)."""

import contextlib
import threading

import pytest

from support import RawClient, Stopwatch, deadline_headers


def abandon(gateway, upstream, method="GET"):
    """A request whose client leaves when the upstream has it. Returns its upstream connection."""
    before = len(upstream.requests)
    client = gateway.client()
    client.request(method, "/abandoned", body=b"x" if method == "POST" else None)
    upstream.wait_for_requests(before + 1)
    client.close()
    gateway.wait_metric("prazo_cancelled_total", lambda n: n >= 1, cause="client-gone")
    return upstream.connections[-1]


def hold(conn, _request):
    """An upstream that watches its peer while it works."""
    conn.wait_for_close()


def deaf(seconds=0.4):
    """An upstream that works on whatever its peer does, and answers."""
    def handler(conn, _request):
        conn.work(seconds)
        with contextlib.suppress(ConnectionError):
            conn.respond(200, b"late")
    return handler


@pytest.mark.parametrize("by_deadline", [False, True])
def test_answer_for_nobody_is_an_orphan(gateway_factory, upstream, by_deadline):
    gateway = gateway_factory(upstream=upstream)
    upstream.handler = deaf(0.5)
    if by_deadline:
        assert gateway.fetch(headers=deadline_headers(100)).status == 504
    else:
        abandon(gateway, upstream)
    upstream.connections[0].wait_for_close(0.2)  # it was told at once
    assert gateway.metric("prazo_in_flight", upstream="app") == 1
    gateway.wait_metric("prazo_orphan_answers_total", 1, upstream="app")
    low = 0.2 if by_deadline else 0.3
    assert low <= gateway.metric("prazo_orphan_seconds_total", upstream="app") <= 2
    gateway.wait_metric("prazo_in_flight", 0, upstream="app")
    metrics = gateway.metrics()
    assert metrics.value("prazo_upstream_connections") == 0
    assert metrics.value("prazo_abandon_unknown_total") == 0
    assert metrics.value("prazo_attempts_total", result="cut") == 1


def test_server_that_listens_is_free_at_once(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    upstream.handler = hold
    abandon(gateway, upstream)
    gateway.wait_metric("prazo_in_flight", 0, timeout=0.5)
    metrics = gateway.metrics()
    assert metrics.value("prazo_orphan_answers_total") == 0
    assert metrics.value("prazo_abandon_unknown_total") == 0
    assert metrics.value("prazo_upstream_connections") == 0


def test_server_that_resets_on_hang_up_is_free_at_once(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream, app={"eject": {"after": 1}})

    def handler(conn, _request):
        conn.wait_for_close()
        conn.reset()
    upstream.handler = handler
    abandon(gateway, upstream)
    gateway.wait_metric("prazo_in_flight", 0, timeout=0.5)
    assert gateway.metric("prazo_attempts_total", result="reset") == 0


def test_end_that_is_not_seen_in_time_is_unknown(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream, app={"abandon_wait": "200ms"})
    upstream.handler = deaf(5)
    with Stopwatch() as watch:
        abandon(gateway, upstream)
        gateway.wait_metric("prazo_abandon_unknown_total", 1, upstream="app")
    watch.assert_between(190, 400)
    metrics = gateway.metrics()
    assert metrics.value("prazo_in_flight") == 0
    assert metrics.value("prazo_upstream_connections") == 0
    assert metrics.value("prazo_orphan_answers_total") == 0


def test_half_an_answers_head_is_no_end(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream, app={"abandon_wait": "300ms"})

    def handler(conn, _request):
        conn.wait_for_close()
        conn.send(b"HTTP/1.1 200 OK\r\ncontent-le")
        conn.work(5)
    upstream.handler = handler
    abandon(gateway, upstream)
    gateway.wait_metric("prazo_abandon_unknown_total", 1)
    gateway.wait_metric("prazo_in_flight", 0)


def test_abandoned_in_the_middle_of_an_answer_is_no_orphan(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)

    def handler(conn, _request):
        conn.respond_chunked([b"some"], end=False)
        conn.work(1)
        with contextlib.suppress(ConnectionError):
            conn.send_last_chunk()
    upstream.handler = handler
    client = gateway.client()
    client.request().read_head()
    client.close()
    upstream.connections[0].wait_for_close(0.2)
    gateway.wait_metric("prazo_in_flight", 0, timeout=0.5)  # before the upstream has finished
    assert gateway.metric("prazo_orphan_answers_total") == 0
    assert gateway.metric("prazo_orphan_seconds_total") == 0


def test_connection_is_held_until_the_work_has_ended(gateway_factory, upstream):
    """One that gives it back earlier would send more work to a server that is still busy."""
    gateway = gateway_factory(upstream=upstream, app={"connections": {"max": 1}})
    upstream.handler = deaf(0.5)
    abandon(gateway, upstream)
    upstream.handler = 200
    with gateway.client() as client:
        client.request("GET", "/next")
        gateway.wait_metric("prazo_queue_depth", 1)
        assert len(upstream.requests) == 1
        assert client.read_response().status == 200
    assert gateway.metric("prazo_orphan_answers_total") == 1
    assert len(upstream.connections) == 2


def test_drained_connection_is_used_again(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream, app={"on_abandon": "drain"})
    let_go = threading.Event()
    upstream.handler = lambda conn, _: conn.hold(let_go) and conn.respond(200, b"x" * 100_000)
    conn = abandon(gateway, upstream)
    assert gateway.metric("prazo_in_flight") == 1
    assert conn.ended_at is None
    let_go.set()
    gateway.wait_metric("prazo_orphan_answers_total", 1)
    gateway.wait_metric("prazo_in_flight", 0)
    upstream.handler = 200
    assert gateway.fetch().status == 200
    assert len(upstream.connections) == 1


def test_drain_does_not_wait_longer_than_abandon_wait(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream,
                              app={"on_abandon": "drain", "abandon_wait": "200ms"})
    upstream.handler = hold
    conn = abandon(gateway, upstream)
    assert conn.ended_at is None
    conn.wait_for_close(0.5)
    gateway.wait_metric("prazo_abandon_unknown_total", 1)
    gateway.wait_metric("prazo_in_flight", 0)


def test_finished_work_is_read_to_its_end(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream, app={"on_abandon": "finish"})
    let_go = threading.Event()
    sent = threading.Event()

    def handler(conn, _request):
        if conn.hold(let_go):
            conn.respond(200, b"x" * (8 << 20))
            sent.set()
    upstream.handler = handler
    abandon(gateway, upstream, method="POST")
    let_go.set()
    assert sent.wait(5)
    gateway.wait_metric("prazo_in_flight", 0)
    gateway.wait_metric("prazo_upstream_connections", 1, state="idle")


def test_orphans_of_one_upstream_are_not_anothers(gateway_factory, upstream_factory):
    slow, quick = upstream_factory(deaf(0.2)), upstream_factory()
    gateway = gateway_factory(upstreams={"slow": slow, "quick": quick}, routes=[
        {"path": "/abandoned", "upstream": "slow"}, {"path": "/*", "upstream": "quick"}])
    abandon(gateway, slow)
    with RawClient(gateway) as client:
        assert client.request("GET", "/q").read_response().status == 200
    gateway.wait_metric("prazo_orphan_answers_total", 1, upstream="slow")
    assert gateway.metric("prazo_orphan_answers_total", upstream="quick") == 0
