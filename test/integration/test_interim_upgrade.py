# SPDX-License-Identifier: MIT
"""1xx answers, Expect, answers that come before the upload's end, and switched protocols."""

import os
import threading

import pytest

from support import (ConnectionEnded, Stopwatch, Truncated, chunk, deadline_headers,
                     wait_until)

HINTS = (b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"
         b"HTTP/1.1 103 Early Hints\r\nlink: </b>\r\n\r\n")
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


# ---- informational answers ----

# C075
def test_c075_hints_before_the_final_answer(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    upstream.script(HINTS + OK)
    upstream.handler = "second"
    with gateway.client() as client:
        first = client.request("GET", "/1").read_response()
        assert [early.header("link") for early in first.informational] == ["</a>", "</b>"]
        assert [early.status for early in first.informational] == [103, 103]
        assert (first.status, first.body) == (200, b"ok")
        second = client.request("GET", "/2").read_response()
        assert (second.informational, second.body) == ([], b"second")
    assert len(upstream.connections) == 1


# C075
def test_c075_hints_are_forwarded_as_they_come(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    was_seen = threading.Event()

    def handler(conn, _request):
        conn.send(HINTS)
        assert conn.hold(was_seen)
        conn.send(OK)
    upstream.handler = handler
    with gateway.client() as client:
        client.request()
        assert client.read_informational().header("link") == "</a>"
        assert client.read_informational().header("link") == "</b>"
        was_seen.set()
        assert client.read_response().body == b"ok"


# C075
def test_c075_hints_are_dropped_for_http_1_0(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    upstream.handler = HINTS + OK
    with gateway.client() as client:
        client.send("GET / HTTP/1.0\r\nHost: h\r\nExpect: 100-continue\r\n\r\n")
        answer = client.read_response()
        assert (answer.status, answer.informational) == (200, [])
    assert upstream.requests[0].header("expect") is None  # RFC 9110 10.1.1: 1.0 cannot expect


def test_sixteen_interim_answers_pass_and_no_more(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    hint = b"HTTP/1.1 103 Early Hints\r\n\r\n"
    upstream.script(hint * 16 + OK, hint * 17 + OK)
    assert len(gateway.fetch().informational) == 16
    answer = gateway.fetch()
    assert (answer.status, answer.problem) == (502, "upstream-invalid-response")


# ---- Expect ----

BODY = os.urandom(1_000_000)


def expecting(client, length=len(BODY), headers=None):
    client.request("POST", "/upload", {"expect": "100-continue", "content-length": length,
                                       **(headers or {})})
    return client


# C076
def test_c076_continue_is_relayed(gateway_factory, upstream_factory):
    def handler(conn, request):
        assert request.header("expect") == "100-continue"
        conn.send(CONTINUE)
        conn.read_body(request)
        conn.respond(200, b"done")
    upstream = upstream_factory(handler, early=True)
    gateway = gateway_factory(upstream=upstream)
    with gateway.client() as client:
        expecting(client)
        assert client.read_informational().status == 100
        client.send(BODY)
        assert client.read_response().body == b"done"
    assert upstream.requests[0].body == BODY


# C076
def test_c076_early_refusal_reaches_the_client(gateway_factory, upstream_factory):
    upstream = upstream_factory(lambda conn, request: conn.respond(401, b"who are you?"),
                                early=True)
    gateway = gateway_factory(upstream=upstream)
    with gateway.client() as client:
        with Stopwatch() as watch:
            answer = expecting(client).read_response()
        watch.assert_between(0, 1000)
        assert (answer.status, answer.body) == (401, b"who are you?")
        assert answer.informational == []
        client.half_close()
    assert upstream.requests[0].body == b""


# C076
def test_c076_a_silent_upstream_does_not_lock_up(gateway_factory, upstream_factory):
    """The client goes on by itself; the upstream reads in the end."""
    may_read = threading.Event()

    def handler(conn, request):
        assert conn.hold(may_read)
        conn.read_body(request)
        conn.respond(200, b"done")
    upstream = upstream_factory(handler, early=True)
    gateway = gateway_factory(upstream=upstream)
    with gateway.client() as client:
        expecting(client)
        upstream.wait_for_requests(1)
        client.expect_silence(0.3)
        sender = threading.Thread(target=client.send, args=(BODY,))
        sender.start()
        may_read.set()
        assert client.read_response().body == b"done"
        sender.join()
    assert upstream.requests[0].body == BODY


# C076
def test_c076_the_deadline_holds_while_waiting_for_the_body(gateway_factory, upstream_factory):
    upstream = upstream_factory(lambda conn, request: conn.wait_for_close(), early=True)
    gateway = gateway_factory(upstream=upstream)
    with gateway.client() as client, Stopwatch() as watch:
        answer = expecting(client, headers=deadline_headers(400)).read_response()
        assert (answer.status, answer.problem) == (504, "deadline-exceeded")
        watch.assert_between(300, 700)


def test_unknown_expectations_fail(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    for value in ("the-unexpected", "100-continue, more"):
        answer = gateway.fetch(method="POST", headers={"expect": value}, body=b"x")
        assert (answer.status, answer.problem) == (417, "expectation-failed")
    assert upstream.requests == []


# ---- an answer before the upload's end ----

# C077
def test_c077_early_413_while_the_upload_runs(gateway_factory, upstream_factory):
    may_close = threading.Event()

    def handler(conn, _request):
        conn.wait_for_bytes(1000)
        conn.pause_reading()
        conn.respond(413, b"too much", {"connection": "close"})
        conn.hold(may_close)
        conn.close()
    upstream = upstream_factory(handler, early=True, rcvbuf=65536)
    gateway = gateway_factory(upstream=upstream)
    with gateway.client() as client:
        client.request("POST", headers={"content-length": 50 << 20})
        try:
            for _ in range(50):
                client.send(bytes(1 << 20))
        except ConnectionError:
            pass  # nobody reads it any more
        answer = client.read_response()
        assert (answer.status, answer.body) == (413, b"too much")
        assert answer.header("connection") == "close"
        # sending has stopped and nothing waits for the upstream, which has not closed yet
        gateway.wait_metric("prazo_in_flight", 0, upstream="app")
        gateway.wait_metric("prazo_upstream_connections", 0, upstream="app")
        may_close.set()
    gateway.wait_metric("prazo_requests_total", 1, code="4xx")
    assert gateway.metric("prazo_requests_total", code="5xx") == 0


# C077
def test_c077_the_connection_ends_in_stages(gateway_factory, upstream_factory):
    """After the answer FIN; what still comes is discarded, so that no RST eats the answer."""
    upstream = upstream_factory(lambda conn, request: conn.respond(413, b"no", close=True),
                                early=True)
    gateway = gateway_factory(upstream=upstream)
    with gateway.client() as client:
        client.request("POST", headers={"content-length": 200_000})
        upstream.wait_for_requests(1)
        answer = client.read_response()
        assert (answer.status, answer.header("connection")) == (413, "close")
        assert client.recv_end() == "fin"
        client.send(bytes(100_000))  # below what is discarded: no RST
        client.half_close()
        assert client.recv_end() == "fin"


# C077
def test_c077_an_early_answer_to_chunks(gateway_factory, upstream_factory):
    upstream = upstream_factory(lambda conn, request: conn.respond(403, b"no", close=True),
                                early=True)
    gateway = gateway_factory(upstream=upstream)
    with gateway.client() as client:
        client.request("POST", headers={"transfer-encoding": "chunked"})
        client.send(chunk(b"hello"))
        answer = client.read_response()
        assert (answer.status, answer.body) == (403, b"no")
        assert client.recv_end() == "fin"


# ---- switched protocols ----

UPGRADE = {"connection": "Upgrade", "upgrade": "websocket", "sec-websocket-key": "a"}
SWITCH = (b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
          b"sec-websocket-accept: b\r\n\r\n")


def websocket_gateway(gateway_factory, upstream, **route):
    return gateway_factory(upstream=upstream,
                           routes=[{"path": "/ws", "upgrade": ["websocket"], **route},
                                   {"path": "/*"}])


def echo(conn, _request):
    """Switches and sends back whatever comes, until the peer's FIN."""
    seen = len(conn.received)
    conn.send(SWITCH)
    while True:
        wait_until(lambda: len(conn.received) > seen or conn.ended_at, 10)
        data = bytes(conn.received[seen:])
        seen += len(data)
        if not data:
            break
        conn.send(data)
    conn.close()


def switch(client, headers=None):
    client.request("GET", "/ws", {**UPGRADE, **(headers or {})})
    answer = client.read_head()
    assert answer.status == 101, answer
    assert answer.header("upgrade") == "websocket"
    assert answer.header("connection").lower() == "upgrade"
    assert answer.header("sec-websocket-accept") == "b"
    return answer


# C078
def test_c078_the_deadline_ends_with_the_switch(gateway_factory, upstream):
    def handler(conn, request):
        conn.work(0.1)
        echo(conn, request)
    upstream.handler = handler
    gateway = websocket_gateway(gateway_factory, upstream)
    with gateway.client() as client:
        switch(client, deadline_headers(500))
        client.expect_silence(1.2)
        client.send(b"hello")
        assert client.recv_exactly(5) == b"hello"
        assert gateway.metric("prazo_in_flight", upstream="app") == 1
    request = upstream.requests[0]
    assert request.header("upgrade") == "websocket"
    assert request.header("connection").lower() == "upgrade"
    assert request.header("sec-websocket-key") == "a"
    upstream.connections[0].wait_for_close()
    gateway.wait_metric("prazo_in_flight", 0, upstream="app")


# C078
def test_c078_an_unanswered_upgrade_meets_the_deadline(gateway_factory, upstream):
    upstream.handler = lambda conn, request: conn.wait_for_close()
    gateway = websocket_gateway(gateway_factory, upstream)
    with gateway.client() as client, Stopwatch() as watch:
        answer = client.request("GET", "/ws", {**UPGRADE, **deadline_headers(500)}).read_response()
        assert (answer.status, answer.problem) == (504, "deadline-exceeded")
        watch.assert_between(400, 800)


# C078
def test_c078_a_refused_upgrade_stays_http(gateway_factory, upstream):
    upstream.handler = (403, b"not you")
    gateway = websocket_gateway(gateway_factory, upstream)
    with gateway.client() as client:
        answer = client.request("GET", "/ws", UPGRADE).read_response()
        assert (answer.status, answer.body) == (403, b"not you")
        upstream.handler = "still HTTP"
        assert client.request("GET", "/other").read_response().body == b"still HTTP"


# C078
def test_c078_an_idle_tunnel_ends(gateway_factory, upstream):
    upstream.handler = echo
    gateway = websocket_gateway(gateway_factory, upstream, stream={"idle": "300ms", "max": "1h"})
    with gateway.client() as client:
        switch(client)
        for _ in range(3):  # each byte starts the time again
            client.expect_silence(0.15)
            client.send(b"x")
            assert client.recv_exactly(1) == b"x"
        with Stopwatch() as watch:
            with pytest.raises(ConnectionEnded):
                client.recv_exactly(1)
        watch.assert_between(250, 900)
    upstream.connections[0].wait_for_close()


# C078
def test_c078_a_tunnel_has_a_longest_life(gateway_factory, upstream):
    upstream.handler = echo
    gateway = websocket_gateway(gateway_factory, upstream, stream={"idle": "10s", "max": "400ms"})
    with gateway.client() as client, Stopwatch() as watch:
        switch(client)
        with pytest.raises(ConnectionEnded):
            while True:
                client.send(b"x")
                client.recv_exactly(1)
        watch.assert_between(350, 1200)
    upstream.connections[0].wait_for_close()


def test_tunnels_carry_any_bytes_both_ways(gateway_factory, upstream):
    """Also those in the same segment as the head that switches, and more than any buffer."""
    early, data = b"server first", os.urandom(3 << 20)
    received = []

    def handler(conn, _request):
        seen = len(conn.received)
        conn.send(SWITCH + early)
        conn.wait_for_bytes(seen + len(data))
        received.append(bytes(conn.received[seen:]))
        conn.send(data)
        conn.wait_for_close()
        conn.close()
    upstream.handler = handler
    gateway = websocket_gateway(gateway_factory, upstream)
    with gateway.client() as client:
        switch(client)
        assert client.recv_exactly(len(early)) == early
        client.send(data)
        assert client.recv_exactly(len(data)) == data
    assert received == [data]


def test_tunnels_close_by_halves(gateway_factory, upstream):
    """A FIN of one side is passed on and the other side may finish."""
    def handler(conn, _request):
        conn.send(SWITCH)
        assert conn.wait_for_close() == "fin"
        conn.send(b"goodbye")
        conn.close()
    upstream.handler = handler
    gateway = websocket_gateway(gateway_factory, upstream)
    with gateway.client() as client:
        switch(client)
        client.half_close()
        assert client.recv_all() == b"goodbye"
    gateway.wait_metric("prazo_in_flight", 0, upstream="app")


def test_tunnels_end_from_the_upstream(gateway_factory, upstream):
    def handler(conn, _request):
        conn.send(SWITCH + b"bye")
        conn.close()
    upstream.handler = handler
    gateway = websocket_gateway(gateway_factory, upstream)
    with gateway.client() as client:
        switch(client)
        assert client.recv_all() == b"bye"
    gateway.wait_metric("prazo_in_flight", 0, upstream="app")


def test_a_reset_ends_the_tunnel_on_the_other_side(gateway_factory, upstream):
    upstream.handler = echo
    gateway = websocket_gateway(gateway_factory, upstream)
    with gateway.client() as client:
        switch(client)
        client.reset()
        upstream.connections[0].wait_for_close()
    gateway.wait_metric("prazo_in_flight", 0, upstream="app")


# C079
@pytest.mark.parametrize("headers", [
    {"connection": "Upgrade, HTTP2-Settings", "upgrade": "h2c", "http2-settings": "AAMAAABk"},
    {"connection": "upgrade,http2-settings", "upgrade": "websocket, h2c",
     "http2-settings": "AAMAAABk"},
    {"connection": "Upgrade", "upgrade": "websocket"},
    {"upgrade": "websocket"},
])
@pytest.mark.parametrize("path", ["/plain", "/ws"])
def test_c079_only_listed_protocols_pass(gateway_factory, upstream, headers, path):
    gateway = websocket_gateway(gateway_factory, upstream)
    is_listed = path == "/ws" and headers["upgrade"] == "websocket" and "connection" in headers
    with gateway.client() as client:
        answer = client.request("GET", path, headers).read_response()
        assert (answer.status, answer.body) == (200, b"ok\n")
    request = upstream.requests[0]
    sent = {name for name, _ in request.headers} & {"connection", "upgrade", "http2-settings"}
    assert sent == ({"connection", "upgrade"} if is_listed else set())


# C079
def test_c079_a_101_nobody_asked_for_is_invalid(gateway_factory, upstream):
    gateway = websocket_gateway(gateway_factory, upstream)
    upstream.handler = SWITCH
    for path, headers in (("/ws", {}), ("/plain", UPGRADE)):
        answer = gateway.fetch(path, headers=headers)
        assert (answer.status, answer.problem) == (502, "upstream-invalid-response")


def test_event_streams_outlive_the_deadline(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    is_late = threading.Event()

    def handler(conn, _request):
        conn.respond_chunked([b"data: 1\n\n"], headers={"content-type": "text/event-stream"},
                             end=False)
        assert conn.hold(is_late)
        conn.send_chunk(b"data: 2\n\n")
        conn.send_last_chunk()
    upstream.handler = handler
    with gateway.client() as client:
        answer = client.request(headers=deadline_headers(300)).read_head()
        client.recv_until(b"data: 1\n\n\r\n")
        client.expect_silence(0.6)
        is_late.set()
        client.read_body(answer)
        assert answer.body == b"data: 2\n\n"


def test_other_answers_end_visibly_at_the_deadline(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)

    def handler(conn, _request):
        conn.respond_chunked([b"abc"], end=False)
        conn.wait_for_close()
    upstream.handler = handler
    with gateway.client() as client, Stopwatch() as watch:
        with pytest.raises(Truncated) as cut:
            client.request(headers=deadline_headers(400)).read_response()
        watch.assert_between(300, 800)
        assert cut.value.message.body == b"abc"
