# SPDX-License-Identifier: MIT
"""What happens when the client leaves, in each state of a request (contract 6)."""

import contextlib
import os
import random
import re
import threading
import time

import pytest

from support import (SLACK, RawClient, Stopwatch, deadline_headers, fetch, wait_until)

PROMPTLY = 0.2
# C014 in its full size: 20 rounds whose clients leave within 500 ms.
ROUNDS = int(os.environ.get("PRAZO_TEST_CANCEL_ROUNDS", "6"))
LEAVE_WITHIN = 0.5 if ROUNDS >= 20 else 0.15


def hold(conn, _request):
    """An upstream that watches its peer while it works."""
    conn.wait_for_close()


LEAVE = [RawClient.close, RawClient.reset, RawClient.half_close]
leaving = pytest.mark.parametrize("leave", LEAVE, ids=["close", "reset", "half_close"])


# ---- waiting for the answer ----

# C011
@leaving
def test_c011_client_leaves_while_the_upstream_works(gateway_factory, upstream, leave):
    gateway = gateway_factory(upstream=upstream)
    upstream.handler = hold
    client = gateway.client()
    client.request("GET", "/slow", deadline_headers(5000))
    upstream.wait_for_requests(1)
    leave(client)
    upstream.connections[0].wait_for_close(PROMPTLY)
    client.close()
    assert gateway.wait_log(msg="request", path="/slow")["cause"] == "client-gone"
    gateway.wait_metric("prazo_client_gone_total", 1, state="sent")
    gateway.wait_metric("prazo_in_flight", 0)
    metrics = gateway.metrics()
    assert metrics.value("prazo_requests_total", code="gone") == 1
    assert metrics.value("prazo_cancelled_total", cause="client-gone") == 1
    assert metrics.value("prazo_orphan_answers_total") == 0
    assert metrics.value("prazo_upstream_connections", state="idle") == 0
    upstream.handler = 200
    assert gateway.fetch().status == 200
    assert len(upstream.connections) == 2  # the one before was not used again


def test_only_the_attempt_of_who_left_is_ended(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    let_go = threading.Event()
    upstream.handler = lambda conn, _: conn.hold(let_go) and conn.respond(200)
    with gateway.client() as stays, gateway.client() as leaves:
        leaves.request("GET", "/leaves")
        upstream.wait_for_requests(1)
        stays.request("GET", "/stays")
        upstream.wait_for_requests(2)
        left_at = time.monotonic()
        leaves.close()
        upstream.connections[0].wait_for_close(PROMPTLY)
        assert upstream.connections[0].ended_at >= left_at
        assert upstream.connections[1].ended_at is None
        let_go.set()
        assert stays.read_response().status == 200


def test_half_closed_clients_can_be_waited_for(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream, listen={"half_close": "wait"})
    let_go = threading.Event()
    upstream.handler = lambda conn, _: conn.hold(let_go) and conn.respond(200, b"after the FIN")
    with gateway.client() as client:
        client.request().half_close()
        upstream.wait_for_requests(1)
        client.expect_silence(0.05)
        let_go.set()
        assert client.read_response().body == b"after the FIN"
        assert client.recv_end() == "fin"
    assert gateway.metric("prazo_client_gone_total") == 0


def test_half_closed_clients_that_reset_are_gone(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream, listen={"half_close": "wait"})
    upstream.handler = hold
    client = gateway.client()
    client.request().half_close()
    upstream.wait_for_requests(1)
    client.reset()
    upstream.connections[0].wait_for_close(PROMPTLY)
    gateway.wait_metric("prazo_client_gone_total", 1, state="sent")


# ---- the other states ----

@leaving
def test_client_leaves_in_the_middle_of_its_head(gateway_factory, upstream, leave):
    gateway = gateway_factory(upstream=upstream)
    client = gateway.client()
    client.send("GET / HTTP/1.1\r\nhost: a\r\n")
    gateway.wait_metric("prazo_connections", 1)
    leave(client)
    gateway.wait_metric("prazo_client_gone_total", 1, state="reading")
    gateway.wait_metric("prazo_connections", 0)
    client.close()
    assert upstream.connections == []


def test_client_that_leaves_between_requests_is_not_missed(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    for leave in LEAVE:
        client = gateway.client()
        client.request().read_response()
        leave(client)
        client.close()
    gateway.client().close()
    gateway.wait_metric("prazo_connections", 0)
    assert gateway.metric("prazo_client_gone_total") == 0


@leaving
@pytest.mark.parametrize("body_left", [0, 50])
def test_client_leaves_while_connecting(gateway_factory, blackhole, leave, body_left):
    gateway = gateway_factory(upstream=blackhole, app={"connect_timeout": "5s"})
    client = gateway.client()
    client.request("POST", "/", {"content-length": 50 + body_left}, b"x" * 50)
    gateway.wait_metric("prazo_upstream_connections", 1, state="active")
    leave(client)
    gateway.wait_metric("prazo_client_gone_total", 1, timeout=PROMPTLY * 2, state="connecting")
    client.close()
    gateway.wait_metric("prazo_upstream_connections", 0, state="active")
    metrics = gateway.metrics()
    assert metrics.value("prazo_upstream_requests_total") == 0
    assert metrics.value("prazo_orphan_answers_total") == 0


@leaving
def test_client_leaves_during_its_upload(gateway_factory, upstream_factory, leave):
    upstream = upstream_factory(early=True, handler=lambda conn, request: conn.read_body(request))
    gateway = gateway_factory(upstream=upstream)
    client = gateway.client()
    client.request("POST", "/", {"content-length": 1000}, b"x" * 500)
    upstream.wait_for_requests(1)
    upstream.connections[0].wait_for_bytes(500)
    leave(client)
    upstream.connections[0].wait_for_close(PROMPTLY)
    client.close()
    gateway.wait_metric("prazo_client_gone_total", 1, state="sent")
    gateway.wait_metric("prazo_in_flight", 0)


def lies_unread(gateway, client):
    """True if the client's bytes are in the gateway's machine and nobody takes them for a while."""
    ports = (int(gateway.address.rsplit(":", 1)[1]), client.sock.getsockname()[1])
    line = re.compile(r"0100007F:%04X 0100007F:%04X 01 \w+:(\w+)" % ports)

    def unread():
        with open("/proc/net/tcp", encoding="ascii") as table:
            found = line.search(table.read())
        return int(found[1], 16) if found else 0
    first = unread()
    end = time.monotonic() + 0.1
    while time.monotonic() < end:
        if first == 0 or unread() != first:
            return False
        time.sleep(0.01)
    return True


@pytest.mark.parametrize("leave", [RawClient.close, RawClient.reset], ids=["close", "reset"])
def test_client_leaves_while_its_upload_is_held_up(gateway_factory, upstream_factory, leave):
    """prazo has stopped reading from the client because the upstream takes nothing; unread bytes
    do not hide the close. The upstream hears of it behind the bytes it has not read yet."""
    go_on = threading.Event()

    def handler(conn, _request):
        conn.pause_reading()
        go_on.wait(20)
        conn.resume_reading()
        conn.wait_for_close()
        conn.close()
    # A Unix socket holds little; TCP would take megabytes before it says stop.
    upstream = upstream_factory(early=True, handler=handler, family="unix")
    gateway = gateway_factory(upstream=upstream, deadline="60s")
    client = gateway.client()
    client.request("POST", "/", {"content-length": 1 << 30})
    upstream.wait_for_requests(1)
    while not lies_unread(gateway, client):
        client.send(b"x" * 65536)
    leave(client)
    gateway.wait_metric("prazo_client_gone_total", 1, timeout=PROMPTLY, state="sent")
    go_on.set()
    upstream.connections[0].wait_for_close(2)
    gateway.wait_metric("prazo_in_flight", 0)
    assert len(upstream.connections[0].received) < 16 << 20


@leaving
def test_client_leaves_in_the_middle_of_the_answer(gateway_factory, upstream, leave):
    gateway = gateway_factory(upstream=upstream)

    def handler(conn, _request):
        conn.respond_chunked([b"some"], end=False)
        conn.wait_for_close()
    upstream.handler = handler
    client = gateway.client()
    client.request().read_head()
    leave(client)
    upstream.connections[0].wait_for_close(PROMPTLY)
    client.close()
    gateway.wait_metric("prazo_client_gone_total", 1, state="streaming")
    gateway.wait_metric("prazo_in_flight", 0)
    assert gateway.metric("prazo_orphan_answers_total") == 0
    assert gateway.metric("prazo_requests_total", code="gone") == 1


@pytest.mark.parametrize("leave", [RawClient.close, RawClient.reset], ids=["close", "reset"])
def test_client_leaves_that_does_not_read_its_answer(gateway_factory, upstream, leave):
    """The answer is held up by the client, so that neither side moves a byte."""
    gateway = gateway_factory(upstream=upstream, limits={"answer_buffer": "64KiB"})
    stuck = threading.Event()

    def handler(conn, _request):
        conn.sock.settimeout(0.2)
        conn.respond_chunked([], end=False)
        try:
            while True:
                conn.send_chunk(b"x" * 65536)
        except TimeoutError:
            stuck.set()
        conn.sock.settimeout(None)
        with contextlib.suppress(ConnectionError):
            conn.send(b"x")
        conn.wait_for_close()
    upstream.handler = handler
    client = gateway.client(rcvbuf=4096)
    client.request().read_head()
    assert stuck.wait(5)
    leave(client)
    upstream.connections[0].wait_for_close(PROMPTLY)
    gateway.wait_metric("prazo_client_gone_total", 1, state="streaming")
    gateway.wait_metric("prazo_in_flight", 0)


# ---- in the queue ----

# C012
@leaving
def test_c012_client_gone_before_its_queued_request_started(gateway_factory, upstream, leave):
    gateway = gateway_factory(upstream=upstream, app={"connections": {"max": 1}})
    let_go = threading.Event()
    upstream.handler = lambda conn, _: conn.hold(let_go) and conn.respond(200)
    with gateway.client() as first:
        first.request("GET", "/first")
        upstream.wait_for_requests(1)
        client = gateway.client()
        client.request("GET", "/queued")
        gateway.wait_metric("prazo_queue_depth", 1, upstream="app")
        leave(client)
        gateway.wait_metric("prazo_queue_depth", 0, timeout=PROMPTLY * 2, upstream="app")
        client.close()
        let_go.set()
        assert first.read_response().status == 200
        assert first.request("GET", "/last").read_response().status == 200
    assert [request.target for request in upstream.requests] == ["/first", "/last"]
    metrics = gateway.metrics()
    assert metrics.value("prazo_client_gone_total", state="queued") == 1
    assert metrics.value("prazo_queue_dropped_total", reason="abandoned") == 1
    assert metrics.value("prazo_cancelled_total") == 0


def test_queued_request_is_answered_the_moment_it_expires(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream, app={"connections": {"max": 1}})
    upstream.handler = hold
    with gateway.client() as first, gateway.client() as second:
        first.request("GET", "/first", deadline_headers(5000))
        upstream.wait_for_requests(1)
        with Stopwatch() as watch:
            second.request("POST", "/second", deadline_headers(300), b"x")
            answer = second.read_response()
        watch.assert_between(280, 360)
        assert (answer.status, answer.problem) == (504, "deadline-exceeded")
        assert (answer.json["outcome"], answer.json["retry"]) == ("none", "same-key")
        metrics = gateway.metrics()
        assert metrics.value("prazo_queue_dropped_total", reason="expired") == 1
        assert metrics.value("prazo_queue_depth") == 0
    assert len(upstream.requests) == 1


# ---- work that must not be cancelled ----

# C013
def test_c013_marked_route_finishes_the_other_is_cancelled(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream, routes=[
        {"path": "/write", "on_abandon": "finish"}, {"path": "/*"}])
    let_go = threading.Event()
    upstream.handler = lambda conn, _: conn.hold(let_go) and conn.respond(201)
    conns = {}
    for path in ("/read", "/write"):
        client = gateway.client()
        client.request("POST", path, body=b"x")
        upstream.wait_for_requests(len(conns) + 1)
        conns[path] = upstream.connections[-1]
        client.close()
        gateway.wait_metric("prazo_client_gone_total", len(conns), state="sent")
    conns["/read"].wait_for_close(PROMPTLY)
    assert gateway.metric("prazo_in_flight") == 1
    assert conns["/write"].ended_at is None
    let_go.set()
    gateway.wait_metric("prazo_in_flight", 0)
    assert conns["/write"].ended_at is None
    upstream.handler = 200
    assert gateway.fetch("/read").status == 200
    assert len(upstream.connections) == 2  # it was used again, for it is in good order


# C013
def test_c013_marked_route_runs_within_a_limit(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream,
                              app={"on_abandon": "finish", "finish_timeout": "300ms"})
    upstream.handler = hold
    client = gateway.client()
    client.request("POST", body=b"x")
    upstream.wait_for_requests(1)
    with Stopwatch() as watch:
        client.close()
        upstream.connections[0].wait_for_close(2)
    watch.assert_between(290, 400)
    gateway.wait_metric("prazo_in_flight", 0)


# C013
def test_c013_half_an_upload_cannot_be_finished(gateway_factory, upstream_factory):
    upstream = upstream_factory(early=True, handler=lambda conn, request: conn.read_body(request))
    gateway = gateway_factory(upstream=upstream, app={"on_abandon": "finish"})
    client = gateway.client()
    client.request("POST", "/", {"content-length": 1000}, b"x" * 500)
    upstream.wait_for_requests(1)
    client.close()
    upstream.connections[0].wait_for_close(PROMPTLY)


def test_route_may_cancel_what_its_upstream_finishes(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream, app={"on_abandon": "finish"},
                              routes=[{"path": "/*", "on_abandon": "close"}])
    upstream.handler = hold
    client = gateway.client()
    client.request()
    upstream.wait_for_requests(1)
    client.close()
    upstream.connections[0].wait_for_close(PROMPTLY)


# ---- many at once ----

def leave_at_random(gateway, draw, count):
    """count requests started together, whose clients leave within LEAVE_WITHIN."""
    clients = [gateway.client().request("GET", "/", deadline_headers(5000)) for _ in range(count)]
    leaving = sorted((draw.uniform(0, LEAVE_WITHIN), index) for index in range(count))
    began = time.monotonic()
    for at, index in leaving:
        wait_until(lambda: time.monotonic() - began >= at, LEAVE_WITHIN * 4)
        draw.choice((RawClient.close, RawClient.reset))(clients[index])


# C014
def test_c014_mass_cancellation_does_not_eat_the_pool(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream, app={"connections": {"max": 2}})
    draw = random.Random(14)

    def handler(conn, _request):
        try:
            conn.wait_for_close(draw.choice((0.01, 0.03, 10)) / SLACK)
        except AssertionError:
            conn.respond(200)
    upstream.handler = handler
    for _ in range(ROUNDS):
        leave_at_random(gateway, draw, 50)
        gateway.wait_metric("prazo_in_flight", 0)
        gateway.wait_metric("prazo_queue_depth", 0)
        gateway.wait_metric("prazo_upstream_connections", 0, state="active")
    upstream.handler = 200
    for _ in range(2):
        with Stopwatch() as watch:
            assert gateway.fetch().status == 200
        watch.assert_between(0, 100)
    assert gateway.metric("prazo_upstream_connections") <= 2
    gone = gateway.metric("prazo_client_gone_total")
    answered = gateway.metric("prazo_requests_total", code="2xx")
    assert gone + answered == ROUNDS * 50 + 2


# ---- pipelined requests ----

# C015
def test_c015_watching_does_not_swallow_the_next_request(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    let_go = threading.Event()
    upstream.script(lambda conn, request: conn.hold(let_go) and conn.respond(200, request.target),
                    lambda conn, request: conn.respond(200, request.target))
    with gateway.client() as client:
        client.request("GET", "/a")
        upstream.wait_for_requests(1)
        client.request("GET", "/b")
        client.expect_silence(0.05)
        assert len(upstream.requests) == 1  # not before its predecessor is answered
        let_go.set()
        assert [client.read_response().text for _ in range(2)] == ["/a", "/b"]


# C015
def test_c015_next_request_may_come_in_any_pieces(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    second = b"POST /b HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nxyz"
    for cut in (0, 1, 20, len(second) - 2, len(second)):
        let_go = threading.Event()
        upstream.script(lambda conn, _, go=let_go: conn.hold(go) and conn.respond(200),
                        lambda conn, request: conn.respond(200, request.body))
        before = len(upstream.requests)
        with gateway.client() as client:
            client.send(b"GET /a HTTP/1.1\r\nhost: a\r\n\r\n" + second[:cut])
            upstream.wait_for_requests(before + 1)
            client.send(second[cut:-1])
            let_go.set()
            client.read_response()
            client.send(second[-1:] if cut < len(second) else b"")
            assert client.read_response().body == b"xyz"


@leaving
def test_pipelined_request_does_not_hide_that_the_client_left(gateway_factory, upstream, leave):
    gateway = gateway_factory(upstream=upstream)
    upstream.handler = hold
    client = gateway.client()
    client.request("GET", "/a")
    upstream.wait_for_requests(1)
    client.send(b"GET /b HTTP/1.1\r\nhost: a\r\n\r\n" * 2000)
    leave(client)
    upstream.connections[0].wait_for_close(PROMPTLY)
    client.close()
    gateway.wait_metric("prazo_connections", 0)
    upstream.handler = 200
    fetch(gateway, "/c")
    assert [request.target for request in upstream.requests] == ["/a", "/c"]
