# SPDX-License-Identifier: MIT
"""SIGHUP: what a reload changes, and all that it must not touch (contract 7)."""

import contextlib
import os
import threading

import pytest

from support import (IS_SANITIZED, RawClient, Stopwatch, Truncated, deadline_headers, fetch,
                     free_address, is_listening, release_address, wait_until)


@pytest.fixture
def let_go():
    return threading.Event()


def held_until(event, body="done"):
    return lambda conn, _: conn.hold(event) and conn.respond(200, body)


def echo_socket(conn):
    """A connection script: switches protocols, then sends back what comes; else answers "ok"."""
    request = conn.read_request()
    if request.header("upgrade") is None:
        conn.respond(200, b"plain", close=True)
        return
    conn.send("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\n"
              f"upgrade: {request.header('upgrade')}\r\n\r\n")
    seen = len(request.raw_head)
    while True:
        with contextlib.suppress(AssertionError):  # the end of the connection
            conn.wait_for_bytes(seen + 1)
        if conn.ended_at is not None or conn.is_closed:
            return
        data = bytes(conn.received[seen:])
        seen += len(data)
        conn.send(data)


def open_socket(gateway, target="/a/ws"):
    client = gateway.client()
    client.request("GET", target, {"connection": "upgrade", "upgrade": "websocket",
                                   "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ=="})
    assert client.read_head().status == 101
    return client


def assert_echoes(client, data):
    client.send(data)
    assert client.recv_exactly(len(data)) == data


# C091
def test_c091_reloads_leave_running_exchanges_alone(gateway_factory, upstream_factory, let_go):
    sockets, slow = upstream_factory(on_connection=echo_socket), upstream_factory()
    slow.handler = held_until(let_go)
    other = upstream_factory(lambda conn, _: conn.respond(200, "of b"))
    upstreams = {"sockets": sockets, "slow": slow, "other": other}
    route_a = [{"path": "/a/ws", "upstream": "sockets", "upgrade": ["websocket"]},
               {"path": "/a/*", "upstream": "slow", "deadline": "10s"}]
    gateway = gateway_factory(upstreams=upstreams, routes=route_a)
    with open_socket(gateway) as web_socket, gateway.client() as get:
        assert_echoes(web_socket, b"before")
        get.request("GET", "/a/slow", deadline_headers(8000))
        slow.wait_for_requests(1)
        assert gateway.fetch("/b/x").problem == "no-route"

        assert gateway.reload(routes=[*route_a, {"path": "/b/*", "upstream": "other"}]) == "ok"
        assert gateway.fetch("/b/x").text == "of b"
        assert_echoes(web_socket, b"after B was added")

        changed = [{"path": "/a/*", "upstream": "other", "deadline": "50ms"}]
        assert gateway.reload(routes=changed) == "ok"
        assert gateway.fetch("/a/new").text == "of b"
        assert gateway.fetch("/b/x").problem == "no-route"
        assert_echoes(web_socket, b"after A was changed")

        assert gateway.reload(config="listen: {listen}\nroutes: [\n") == "error"
        assert gateway.fetch("/a/new").text == "of b"
        assert_echoes(web_socket, b"after a broken file")

        let_go.set()  # long after 50 ms: it keeps the deadline that it began with
        assert get.read_response().text == "done"
        assert get.request("GET", "/a/again").read_response().text == "of b"


def test_connections_to_unchanged_upstreams_are_kept(gateway_factory, upstream, upstream_factory):
    gateway = gateway_factory(upstreams={"app": upstream}, routes=[{"path": "/*"}])
    with gateway.client() as client:
        client.request().read_response()
        for count in range(3):
            other = upstream_factory()
            assert gateway.reload(upstreams={"app": upstream, f"more{count}": other}, routes=[
                {"path": f"/more{count}", "upstream": f"more{count}"},
                {"path": "/*", "upstream": "app"}]) == "ok"
            assert client.request().read_response().status == 200
            assert gateway.fetch(f"/more{count}").status == 200
            assert len(other.requests) == 1
    assert len(upstream.connections) == 1


def test_counters_go_on(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    for count in range(1, 4):
        gateway.fetch()
        gateway.reload(deadline=f"{count}s")
        assert gateway.metric("prazo_requests_total", code="2xx") == count
        assert gateway.metric("prazo_upstream_requests_total") == count
    assert gateway.metric("prazo_config_reloads_total", result="ok") == 3


def test_ejected_server_stays_ejected(gateway_factory, upstream_factory):
    bad, good = upstream_factory(lambda conn, _: conn.reset()), upstream_factory()
    gateway = gateway_factory(upstream=[bad, good], app={"eject": {"after": 2, "for": "60s"}})
    wait_until(lambda: gateway.fetch() and len(bad.requests) == 2)
    assert gateway.reload(routes=[{"path": "/*"}, {"path": "/more"}]) == "ok"
    for _ in range(30):
        assert gateway.fetch().status == 200
    assert len(bad.requests) == 2


def test_new_settings_hold_for_new_requests(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream, deadline="5s")
    upstream.handler = lambda conn, _: conn.wait_for_close() and None
    with gateway.client() as client:  # connected before the reload
        assert gateway.reload(deadline="200ms") == "ok"
        with Stopwatch() as watch:
            assert client.request().read_response().problem == "deadline-exceeded"
        watch.assert_between(180, 270)


def test_trust_changes_for_new_connections(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    headers = {"x-forwarded-for": "10.9.9.9"}
    gateway.fetch(headers=headers)
    assert gateway.reload(listen={"trust": "none"}) == "ok"
    gateway.fetch(headers=headers)
    assert [request.header("x-forwarded-for") for request in upstream.requests] == [
        "10.9.9.9, 127.0.0.1", "127.0.0.1"]


def test_connections_max_changes_at_once(gateway_factory, upstream, let_go):
    gateway = gateway_factory(upstream=upstream, app={"connections": {"max": 1}})
    upstream.handler = held_until(let_go)
    clients = [gateway.client().request() for _ in range(3)]
    gateway.wait_metric("prazo_queue_depth", 2)
    assert gateway.reload(app={"connections": {"max": 3}}) == "ok"
    upstream.wait_for_requests(3)
    assert gateway.metric("prazo_queue_depth") == 0
    let_go.set()
    assert [client.read_response().status for client in clients] == [200] * 3
    for client in clients:
        client.close()


def test_removed_upstream_finishes_its_work(gateway_factory, upstream_factory, let_go):
    old, new = upstream_factory(held_until(let_go, "old")), upstream_factory()
    gateway = gateway_factory(upstreams={"old": old})
    with gateway.client() as client:
        client.request("GET", "/", deadline_headers(8000))
        old.wait_for_requests(1)
        assert gateway.reload(upstreams={"new": new}) == "ok"
        assert gateway.fetch().text == "ok\n"
        let_go.set()
        assert client.read_response().text == "old"
        assert client.request().read_response().text == "ok\n"
    assert len(old.requests) == 1
    assert gateway.metric("prazo_upstream_requests_total", upstream="old") == 1


def test_answer_under_way_is_not_cut(gateway_factory, upstream, let_go):
    gateway = gateway_factory(upstream=upstream)

    def handler(conn, _request):
        conn.respond_chunked([b"first "], end=False)
        conn.hold(let_go)
        conn.send_chunk(b"last")
        conn.send_last_chunk()
    upstream.handler = handler
    with gateway.client() as client:
        head = client.request().read_head()
        gateway.reload(app={"read_timeout": "1ms"}, deadline="20ms")
        let_go.set()
        try:
            assert client.read_body(head) == b"first last"
        except Truncated as cut:
            raise AssertionError("the reload cut an answer") from cut


# ---- listeners ----

def test_listeners_come_and_go(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    more = free_address()
    both = [{"name": "main"}, {"name": "more", "address": more}]
    assert gateway.reload(listen=both) == "ok"
    assert fetch(more).status == 200
    with RawClient(more) as client:
        client.request().read_response()
        assert gateway.reload(listen=None) == "ok"
        wait_until(lambda: not is_listening(more), 2)
        assert client.request().read_response().status == 200  # an open connection goes on
    assert gateway.fetch().status == 200
    assert gateway.reload(listen=both) == "ok"
    assert fetch(more).status == 200
    release_address(more)


def test_address_in_use_refuses_the_whole_reload(gateway_factory, upstream, upstream_factory):
    taken = upstream_factory()
    gateway = gateway_factory(upstream=upstream)
    assert gateway.reload(listen=[{"name": "main"}, {"name": "more", "address": taken.address}],
                          deadline="1ms") == "error"
    assert gateway.fetch().status == 200
    assert any(taken.address in line["detail"] for line in gateway.logs(level="error"))


# ---- files that will not do ----

@pytest.mark.parametrize("text, place", [
    ("listen: {listen}\nupstream: 127.0.0.1:1\nlimits: {uri: 5}\n", ":3:15: error: limits.uri"),
    ("listen: {listen}\nupstraem: 127.0.0.1:1\n", ":2:1: error: upstraem"),
    ("listen: [\n", "error"),
])
def test_broken_file_is_refused_with_its_place(gateway_factory, upstream, text, place):
    gateway = gateway_factory(upstream=upstream)
    assert gateway.reload(config=text) == "error"
    assert gateway.fetch().status == 200
    wait_until(lambda: any(place in str(line) for line in gateway.logs(level="error")), 3)
    assert gateway.metric("prazo_config_reloads_total", result="ok") == 0
    assert gateway.reload() == "ok"
    assert gateway.fetch().status == 200


def test_missing_file_is_refused(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    os.rename(gateway.path, gateway.path + ".away")
    before = gateway.metric("prazo_config_reloads_total", result="error")
    gateway.signal(1)
    gateway.wait_metric("prazo_config_reloads_total", before + 1, result="error")
    assert gateway.fetch().status == 200


def test_many_reloads_under_load(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream, log={"requests": "errors"})
    over, errors = threading.Event(), []

    def load():
        try:
            while not over.is_set():
                with gateway.client() as client:
                    for _ in range(20):
                        answer = client.request().read_response()
                        assert answer.status == 200, answer
        except BaseException as error:
            errors.append(error)
    threads = [threading.Thread(target=load) for _ in range(4)]
    for thread in threads:
        thread.start()
    for count in range(10):
        gateway.reload(deadline=f"{count + 5}s")
    rss, fds = gateway.rss(), gateway.fds()
    for count in range(30):
        assert gateway.reload(routes=[{"path": f"/{count % 3}"}, {"path": "/*"}]) == "ok"
    over.set()
    for thread in threads:
        thread.join()
    assert not errors, errors[0]
    assert gateway.rss() - rss < (64 if IS_SANITIZED else 4) << 20
    assert gateway.fds() <= fds + 8
