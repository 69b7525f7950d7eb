# SPDX-License-Identifier: MIT
"""Connections that are used again, on both sides: stale ones are replaced where that is safe, idle
ones are retired before the other side does it."""

import threading

import pytest

from support import Stopwatch, wait_until

ROUNDS = 40


class Killer:
    """Connection script: answers one request, then ends the connection the moment the first byte of
    the next one comes. So every second use of a connection is the race that idle limits lose."""

    def __init__(self, end):
        self.end = end
        self.served = []  # x-n of the requests that were answered

    def __call__(self, conn):
        request = conn.read_request()
        self.served.append(request.header("x-n"))
        conn.respond(200, b"ok")
        seen = len(request.raw_head) + len(request.body)
        wait_until(lambda: len(conn.received) > seen or conn.ended_at, 30)
        getattr(conn, self.end)()


def sent_of(upstream, n):
    """How many connections saw a byte of request n."""
    line = f"x-n: {n}\r\n".encode()
    return sum(line in conn.received for conn in upstream.connections)


def run_rounds(gateway, method, headers=None, body=None):
    answers = []
    with gateway.client() as client:
        for n in range(ROUNDS):
            client.request(method, "/", {**(headers or {}), "x-n": n}, body)
            answers.append(client.read_response())
    return answers


# C080
@pytest.mark.parametrize("end", ["close", "reset"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"])
def test_c080_stale_connections_are_replaced(gateway_factory, upstream_factory, end, method):
    body = b"x" * 5000 if method == "PUT" else None
    killer = Killer(end)
    upstream = upstream_factory(on_connection=killer)
    gateway = gateway_factory(upstream=upstream)
    answers = run_rounds(gateway, method, body=body)
    assert {answer.status for answer in answers} == {200}
    assert killer.served == [str(n) for n in range(ROUNDS)]  # each served once
    assert len(upstream.connections) == ROUNDS
    assert gateway.metric("prazo_attempts_total", kind="stale") == ROUNDS - 1
    assert gateway.metric("prazo_attempts_total", kind="first") == ROUNDS
    assert gateway.metric("prazo_upstream_requests_total", upstream="app") == ROUNDS


# C080
@pytest.mark.parametrize("end", ["close", "reset"])
@pytest.mark.parametrize("headers", [{}, {"idempotency-key": "abc"}])
@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_c080_unsafe_requests_are_not_repeated(gateway_factory, upstream_factory, end, headers,
                                               method):
    """A key alone proves nothing about the upstream."""
    upstream = upstream_factory(on_connection=Killer(end))
    gateway = gateway_factory(upstream=upstream)
    answers = run_rounds(gateway, method, headers, b"x" * 1000)
    assert [answer.status for answer in answers] == [200, 502] * (ROUNDS // 2)
    for answer in answers[1::2]:
        assert answer.problem == "upstream-reset"
        assert (answer.json["outcome"], answer.json["retry"]) == ("unknown", "no")
    assert gateway.metric("prazo_attempts_total", kind="stale") == 0
    assert len(upstream.connections) == ROUNDS // 2
    assert all(sent_of(upstream, n) <= 1 for n in range(ROUNDS))


# C080
def test_c080_a_fresh_connection_is_not_replaced(gateway_factory, upstream_factory):
    upstream = upstream_factory(lambda conn, request: conn.reset())
    gateway = gateway_factory(upstream=upstream)
    answer = gateway.fetch()
    assert (answer.status, answer.problem) == (502, "upstream-reset")
    assert (answer.json["outcome"], answer.json["retry"]) == ("none", "same-key")
    assert len(upstream.connections) == 1


# C080
def test_c080_replaced_at_most_once(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    gateway.fetch()
    upstream.handler = lambda conn, request: conn.reset()
    answer = gateway.fetch()
    assert (answer.status, answer.problem) == (502, "upstream-reset")
    assert len(upstream.connections) == 2
    assert len(upstream.requests) == 3


# C080
def test_c080_not_after_a_byte_of_the_answer(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    gateway.fetch()

    def handler(conn, _request):
        conn.send(b"HTTP/1.1 2")
        conn.close()
    upstream.handler = handler
    answer = gateway.fetch()
    assert (answer.status, answer.problem) == (502, "upstream-reset")
    assert len(upstream.connections) == 1


# C080
def test_c080_a_connection_seen_to_be_closed_is_never_used(gateway_factory, upstream):
    """POST too: the end has come before the next request, so nothing is lost."""
    gateway = gateway_factory(upstream=upstream)
    for n in range(10):
        assert gateway.fetch(method="POST", body=b"x").status == 200
        upstream.connections[n].half_close()
        assert upstream.connections[n].wait_for_close() == "fin"
    assert len(upstream.connections) == 10
    assert gateway.metric("prazo_attempts_total", kind="stale") == 0


# ---- idle connections to the upstream ----

def test_connections_are_reused_and_say_nothing_about_it(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    for _ in range(5):  # each from a client of its own
        assert gateway.fetch().status == 200
    assert len(upstream.connections) == 1
    for request in upstream.requests:
        assert request.header("connection") is None
        assert request.header("keep-alive") is None
    gateway.wait_metric("prazo_upstream_connections", 1, upstream="app", state="idle")


# C081
@pytest.mark.parametrize("keep_alive,idle_timeout,low_ms,high_ms", [
    (None, "300ms", 250, 900),           # as configured
    ("timeout=1", "10s", 100, 990),      # before what the server has announced
    ("max=5, timeout=1", "10s", 100, 990),
    ("timeout=60", "300ms", 250, 900),   # the shorter of both
    ("timeout=x", "300ms", 250, 900),
    ("timeout=-1", "300ms", 250, 900),
])
def test_c081_idle_connections_are_retired_in_time(gateway_factory, upstream, keep_alive,
                                                   idle_timeout, low_ms, high_ms):
    gateway = gateway_factory(upstream=upstream,
                              app={"connections": {"idle_timeout": idle_timeout}})
    upstream.handler = (200, b"ok", {"keep-alive": keep_alive} if keep_alive else {})
    with Stopwatch() as watch:
        assert gateway.fetch(method="POST", body=b"x").status == 200
        assert upstream.connections[0].wait_for_close() == "fin"
    watch.assert_between(low_ms, high_ms)
    gateway.wait_metric("prazo_upstream_connections", 0, upstream="app")


# C081
@pytest.mark.parametrize("keep_alive", ["timeout=0", None])
def test_c081_what_is_about_to_be_closed_is_not_pooled(gateway_factory, upstream, keep_alive):
    gateway = gateway_factory(upstream=upstream)
    headers = {"keep-alive": keep_alive} if keep_alive else {"connection": "close"}
    upstream.handler = (200, b"ok", headers)
    for n in range(3):
        assert gateway.fetch(method="POST", body=b"x").status == 200
        assert upstream.connections[n].wait_for_close() == "fin"
    assert len(upstream.connections) == 3


# C081
def test_c081_a_server_with_an_idle_limit_and_posts_only(gateway_factory, upstream_factory):
    """Requests whose pauses lie around the limit: none is lost."""
    def idle_limited(conn):
        while True:
            try:
                conn.wait_for_bytes(conn.local.get("seen", 0) + 1, timeout=1.0)
            except AssertionError:
                return  # idle for 1 s: closed, as announced
            request = conn.read_request()
            conn.local["seen"] = len(conn.received)
            conn.respond(200, request.body, {"keep-alive": "timeout=1"})
    upstream = upstream_factory(on_connection=idle_limited)
    gateway = gateway_factory(upstream=upstream)
    pauses = [0.0, 0.1, 0.4, 0.48, 0.5, 0.52, 0.6, 0.9, 0.97, 0.99, 1.0, 1.01, 1.03, 1.1]
    statuses = []

    def run(pause):
        with gateway.client() as client:
            for _ in range(3):
                answer = client.request("POST", body=b"x").read_response()
                statuses.append(answer.status)
                client.expect_silence(pause)
    threads = [threading.Thread(target=run, args=(pause,)) for pause in pauses]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [200] * 3 * len(pauses)
    assert gateway.metric("prazo_attempts_total", result="reset") == 0


def test_the_pool_keeps_as_many_as_configured(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream, app={"connections": {"idle": 2}})
    all_in = threading.Event()
    upstream.handler = lambda conn, request: conn.hold(all_in) and conn.respond(200, b"ok")
    clients = [gateway.client() for _ in range(6)]
    for client in clients:
        client.request()
    upstream.wait_for_requests(6)
    all_in.set()
    for client in clients:
        assert client.read_response().status == 200
        client.close()
    gateway.wait_metric("prazo_upstream_connections", 2, upstream="app")
    wait_until(lambda: len([c for c in upstream.connections if c.fin_at]) == 4)


# ---- the client's connection ----

# C081
def test_c081_towards_clients_the_idle_time_is_kept(gateway_factory, upstream):
    """What is announced, if anything is, is not more than what is granted."""
    gateway = gateway_factory(upstream=upstream, limits={"idle": "400ms"})
    with gateway.client() as client:
        answer = client.request().read_response()
        announced = answer.header("keep-alive")
        assert announced is None or announced == "timeout=0"
        with Stopwatch() as watch:
            assert client.recv_end() == "fin"
        watch.assert_between(350, 1000)


# C081
def test_c081_a_request_under_way_is_not_idle(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream, limits={"idle": "200ms"})

    def handler(conn, _request):
        conn.work(0.6)
        conn.respond(200, b"late")
    upstream.handler = handler
    with gateway.client() as client:
        assert client.request().read_response().body == b"late"
        client.request("POST", headers={"content-length": 1})  # nor is an upload that pauses
        client.expect_silence(0.4)
        client.send(b"x")
        assert client.read_response().body == b"late"


def test_new_connections_without_a_byte_are_idle(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream, limits={"idle": "300ms"})
    with gateway.client() as client, Stopwatch() as watch:
        assert client.recv_end() == "fin"
        watch.assert_between(250, 900)


def test_the_client_s_close_is_honoured(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    with gateway.client() as client:
        answer = client.request(headers={"connection": "close"}).read_response()
        assert answer.header("connection") == "close"
        assert client.recv_end() == "fin"
    gateway.fetch()
    assert len(upstream.connections) == 1  # which is nothing to the upstream's


def test_many_requests_on_one_connection(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    with gateway.client() as client:
        fds = None
        for n in range(300):
            assert client.request("GET", f"/{n}").read_response().body == b"ok\n"
            fds = fds or gateway.fds()
        assert gateway.fds() == fds
    assert len(upstream.connections) == 1
