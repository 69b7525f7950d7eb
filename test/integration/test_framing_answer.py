# SPDX-License-Identifier: MIT
"""Answers as they come from an upstream and as they reach the client: framing, faults, ends."""

import json
import os
import threading

import pytest

from support import (IS_SANITIZED, ConnectionEnded, Stopwatch, Truncated, chunk, deadline_headers,
                     wait_until)


def until_close(data):
    """Answers with these bytes and the end of the connection."""
    def handler(conn, _request):
        conn.send(data)
        conn.close()
    return handler


def head(*lines, status="200 OK", version="1.1"):
    return "\r\n".join([f"HTTP/{version} {status}", *lines, "", ""]).encode("latin-1")


# ---- the upstream's own errors ----

# C061
@pytest.mark.parametrize("status,kind,body", [
    (422, "application/json", json.dumps({"error": "too small"}).encode()),
    (404, "application/problem+json", b'{"type":"https://shop.example/unknown","status":404}'),
    (500, "text/html", b"<h1>boom</h1>"), (503, "text/plain", b"later"),
    (429, "text/plain", b"slow"),
    (502, "application/problem+json", b'{"type":"about:blank"}'), (504, "text/plain", b""),
    (400, "text/plain", b"bad"), (599, "text/plain", b"own"),
])
def test_c061_errors_of_the_upstream_pass(gateway_factory, upstream, status, kind, body):
    gateway = gateway_factory(upstream=upstream)
    upstream.handler = (status, body, {"content-type": kind, "x-own": "1", "retry-after": "7"})
    for method in ("GET", "POST"):
        answer = gateway.fetch(method=method, body=b"x" if method == "POST" else None)
        assert (answer.status, answer.reason, answer.body) == (status, "Reason", body)
        assert answer.header("content-type") == kind
        assert (answer.header("x-own"), answer.header("retry-after")) == ("1", "7")
        assert answer.header("x-request-id")


# C061
def test_c061_large_errors_are_streamed(gateway_factory, upstream):
    body = os.urandom(1 << 20) * 5
    first_seen = threading.Event()

    def handler(conn, _request):
        conn.send(head(f"content-length: {len(body)}", status="503 Busy"))
        conn.send(body[:1000])
        assert conn.hold(first_seen)
        conn.send(body[1000:])
    upstream.handler = handler
    gateway = gateway_factory(upstream=upstream)
    with gateway.client() as client:
        answer = client.request().read_head()
        assert answer.status == 503
        assert client.recv_exactly(1000) == body[:1000]
        first_seen.set()
        assert client.recv_exactly(len(body) - 1000) == body[1000:]


# ---- malformed answers ----

MALFORMED = {
    "both framings": head("content-length: 2", "transfer-encoding: chunked") + b"0\r\n\r\n",
    "both framings, turned": head("transfer-encoding: chunked", "content-length: 2") + b"0\r\n\r\n",
    "length +5": head("content-length: +5") + b"hello",
    "length -0": head("content-length: -0"),
    "length 5 5": head("content-length: 5 5") + b"hello",
    "length 0x5": head("content-length: 0x5") + b"hello",
    "length 5_0": head("content-length: 5_0") + b"hello",
    "length 5.0": head("content-length: 5.0") + b"hello",
    "length empty": head("content-length:") + b"hello",
    "length of 30 digits": head("content-length: " + "1" * 30) + b"hello",
    "length 5, 6": head("content-length: 5, 6") + b"hello",
    "lengths 5 and 6": head("content-length: 5", "content-length: 6") + b"hello!",
    "gzip": head("transfer-encoding: gzip") + b"x",
    "chunks in 1.0": head("transfer-encoding: chunked", version="1.0") + b"0\r\n\r\n",
    "bare LF": b"HTTP/1.1 200 OK\ncontent-length: 0\n\n",
    "bare LF in a field": b"HTTP/1.1 200 OK\r\nx: a\ny: b\r\ncontent-length: 0\r\n\r\n",
    "bare CR": head("x: a\rb", "content-length: 0"),
    "NUL": head("x: a\0b", "content-length: 0"),
    "blank before the colon": head("content-length : 0"),
    "first line a blank": head(" x: y", "content-length: 0"),
    "folded": head("x: a", " b", "content-length: 0"),
    "empty name": head(": a", "content-length: 0"),
    "no colon": head("nocolon", "content-length: 0"),
    "version 2": head("content-length: 0", version="2.0"),
    "version 1.2": head("content-length: 0", version="1.2"),
    "two digits": head("content-length: 0", status="20 OK"),
    "four digits": head("content-length: 0", status="2000 OK"),
    "status 099": head("content-length: 0", status="099 OK"),
    "no HTTP": b"SSH-2.0-OpenSSH_9.2\r\n",
    "a request": b"GET / HTTP/1.1\r\nHost: h\r\n\r\n",
    "an empty line first": b"\r\n" + head("content-length: 0"),
    "a 101 nobody asked for": head("connection: upgrade", "upgrade: x", status="101 Switching"),
}


@pytest.mark.parametrize("answer", MALFORMED.values(), ids=MALFORMED.keys())
def test_c063_malformed_answers_are_502(gateway_factory, upstream, answer):
    """C063 from the upstream, and every other fault that a request would be refused for."""
    gateway = gateway_factory(upstream=upstream)
    upstream.handler = answer
    with gateway.client() as client:
        got = client.request("POST", body=b"x").read_response()
        assert (got.status, got.problem) == (502, "upstream-invalid-response"), got
        assert (got.json["outcome"], got.json["retry"]) == ("unknown", "no")
        upstream.connections[0].wait_for_close()
        upstream.handler = "fine"  # the client's connection is none the worse for it
        assert client.request().read_response().body == b"fine"
    assert len(upstream.connections) == 2
    assert len(upstream.requests) == 2
    assert gateway.metric("prazo_attempts_total", result="invalid") == 1


# C063
def test_c063_equal_lengths_become_one(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    upstream.handler = head("content-length: 5", "content-length: 5") + b"hello"
    answer = gateway.fetch()
    assert (answer.header("content-length"), answer.body) == ("5", b"hello")


# C064
@pytest.mark.parametrize("body", [b"5\nhello\r\n0\r\n\r\n", b"+5\r\nhello\r\n0\r\n\r\n",
                                  b"0x5\r\nhello\r\n0\r\n\r\n", b"5\r\nhello!\r\n0\r\n\r\n",
                                  b"5\r\nhello\r\n0\r\nX : y\r\n\r\n", b"5 \r\nhello\r\n0\r\n\r\n"])
def test_c064_bad_chunks_from_the_upstream_end_visibly(gateway_factory, upstream, body):
    """The head has gone on: what is left is to cut."""
    gateway = gateway_factory(upstream=upstream)
    upstream.handler = head("transfer-encoding: chunked") + body
    with gateway.client() as client:
        with pytest.raises(Truncated) as cut:
            client.request().read_response()
        assert cut.value.message.body in (b"", b"hello")
        assert b"0\r\n" not in cut.value.got
    upstream.connections[0].wait_for_close()


# C068
def test_c068_header_flood_from_the_upstream(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    gateway.fetch()
    before = gateway.rss()

    def flood(conn, _request):
        try:
            conn.send(b"HTTP/1.1 200 OK\r\n" + b"X-Flood: 0123456789\r\n" * 50_000)
        except ConnectionError:
            pass  # nobody wants all of it
        conn.wait_for_close()
    upstream.handler = flood
    for _ in range(5):
        answer = gateway.fetch()
        assert (answer.status, answer.problem) == (502, "upstream-invalid-response")
    for conn in upstream.connections[1:]:
        conn.wait_for_close()
    assert gateway.rss() - before < (4 << 20) * (16 if IS_SANITIZED else 1)


# ---- framing towards the client ----

def test_bodies_pass_in_every_framing(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    body = os.urandom(300_000)
    upstream.script(lambda conn, request: conn.respond(200, body),
                    lambda conn, request: conn.respond_chunked(
                        [body[at:at + 7001] for at in range(0, len(body), 7001)]),
                    until_close(head() + body), until_close(head(version="1.0") + body))
    with gateway.client() as client:
        answers = [client.request().read_response() for _ in range(4)]
    assert [answer.body == body for answer in answers] == [True] * 4
    assert answers[0].header("content-length") == str(len(body))
    for answer in answers[1:]:
        assert answer.header("transfer-encoding") == "chunked"
        assert answer.header("content-length") is None
    assert {answer.version for answer in answers} == {"1.1"}


def test_chunk_extensions_stay_behind(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    upstream.handler = head("transfer-encoding: chunked") + b"5;a=b\r\nhello\r\n000;c\r\n\r\n"
    assert gateway.fetch().body == b"hello"


# C070
def test_c070_http_1_0_client_gets_no_chunks(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)

    def handler(conn, _request):
        conn.send(b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n")
        conn.respond_chunked([b"hello ", b"world"], headers={"trailer": "x-sum"},
                             trailers={"x-sum": "9"})
    upstream.handler = handler
    with gateway.client() as client:
        client.send("GET / HTTP/1.0\r\nHost: h\r\n\r\n")
        answer = client.read_head()
        assert answer.status == 200
        assert answer.informational == []
        assert answer.header("transfer-encoding") is None
        assert answer.header("content-length") is None
        assert answer.header("x-sum") is None
        assert answer.header("connection") == "close"
        assert client.recv_all() == b"hello world"


# C070
def test_c070_http_1_0_keep_alive_with_a_length(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    with gateway.client() as client:
        for _ in range(2):
            client.send("GET / HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\n\r\n")
            answer = client.read_response()
            assert (answer.header("content-length"), answer.body) == ("3", b"ok\n")
            assert answer.header("connection") == "keep-alive"
        client.send("GET / HTTP/1.0\r\nHost: h\r\n\r\n")
        assert client.read_response().header("connection") == "close"
        assert client.recv_end() == "fin"


NO_BODY = {
    "HEAD with a length": ("HEAD", head("content-length: 1234")),
    "HEAD with chunks": ("HEAD", head("transfer-encoding: chunked")),
    "HEAD with nothing": ("HEAD", head()),
    "304 with a length": ("GET", head("content-length: 5", "etag: x", status="304 Not Modified")),
    "204 with a length": ("GET", head("content-length: 5", status="204 No Content")),
    "204 with chunks": ("GET", head("transfer-encoding: chunked", status="204 No Content")),
}


# C071
@pytest.mark.parametrize("method,answer", NO_BODY.values(), ids=NO_BODY.keys())
def test_c071_answers_that_never_have_a_body(gateway_factory, upstream, method, answer):
    gateway = gateway_factory(upstream=upstream)
    upstream.handler = answer
    with gateway.client() as client:
        for _ in range(3):
            with Stopwatch() as watch:
                got = client.request(method).read_response()
            watch.assert_between(0, 200)
            assert got.body == b""
            if got.status == 204:
                assert not got.header("content-length") and not got.header("transfer-encoding")
            if answer.startswith(head("content-length: 1234")):
                assert got.header("content-length") == "1234"
        upstream.handler = "fine"
        assert client.request().read_response().body == b"fine"
    assert len(upstream.connections) == 1  # reused


def test_empty_bodies(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    upstream.script(head("content-length: 0"), head("transfer-encoding: chunked") + b"0\r\n\r\n",
                    until_close(head()))
    with gateway.client() as client:
        for _ in range(3):
            assert client.request().read_response().body == b""


def test_answers_arrive_byte_by_byte(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)

    def handler(conn, _request):
        body = b"5\r\nhello\r\n1\r\n!\r\n0\r\nx: y\r\n\r\n"
        for byte in head("transfer-encoding: chunked") + body:
            conn.send(bytes([byte]))
    upstream.handler = handler
    with gateway.client() as client:
        for _ in range(2):
            assert client.request().read_response().body == b"hello!"
    assert len(upstream.connections) == 1


@pytest.mark.parametrize("answer", [
    head("content-length: 2") + b"ok" + head("content-length: 4") + b"evil",
    head("transfer-encoding: chunked") + b"2\r\nok\r\n0\r\n\r\n" + b"junk",
])
def test_bytes_behind_an_answer_end_the_connection(gateway_factory, upstream, answer):
    gateway = gateway_factory(upstream=upstream)
    upstream.script(answer)
    upstream.handler = "second"
    with gateway.client() as client:
        assert client.request().read_response().body == b"ok"
        upstream.connections[0].wait_for_close()
        assert client.request().read_response().body == b"second"
    assert len(upstream.connections) == 2


def test_bytes_on_an_idle_connection_end_it(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    with gateway.client() as client:
        assert client.request().read_response().body == b"ok\n"
        upstream.connections[0].send(head("content-length: 4") + b"evil")
        upstream.connections[0].wait_for_close()
        assert client.request().read_response().body == b"ok\n"


# ---- answers cut short ----

CUT = {
    "chunks without the last": (head("transfer-encoding: chunked") + chunk(b"abc") + chunk(b"de"),
                                b"abcde"),
    "in the middle of a chunk": (head("transfer-encoding: chunked") + b"a\r\nabc", b"abc"),
    "without the final line": (head("transfer-encoding: chunked") + chunk(b"abc") + b"0\r\n",
                               b"abc"),
    "40 of 100 bytes": (head("content-length: 100") + b"x" * 40, b"x" * 40),
    "head only": (head("content-length: 5"), b""),
}


# C074
@pytest.mark.parametrize("data,body", CUT.values(), ids=CUT.keys())
def test_c074_truncated_answers_end_visibly(gateway_factory, upstream, data, body):
    gateway = gateway_factory(upstream=upstream)
    upstream.handler = until_close(data)
    with gateway.client() as client:
        client.request("GET", headers=deadline_headers(5000))
        with Stopwatch() as watch:
            try:
                answer = client.read_response()
                assert (answer.status, answer.problem, body) == (502, "upstream-reset", b"")
            except Truncated as cut:
                assert (cut.message.status, cut.message.body) == (200, body)
                assert b"0\r\n" not in cut.got
        watch.assert_between(0, 1000)
    upstream.handler = "fine"
    assert gateway.fetch().body == b"fine"
    assert len(upstream.connections) == 2


# C074
@pytest.mark.parametrize("data,body", CUT.values(), ids=CUT.keys())
def test_c074_for_http_1_0_the_end_is_a_reset(gateway_factory, upstream, data, body):
    """Without a length a FIN would look like the end of the body."""
    gateway = gateway_factory(upstream=upstream)
    upstream.handler = until_close(data)
    with gateway.client() as client:
        client.send("GET / HTTP/1.0\r\nHost: h\r\n\r\n")
        try:
            answer = client.read_response()
        except ConnectionEnded as ended:
            assert ended.how == "rst" or b"content-length: " in data
        else:
            assert answer.status == 502 and body == b""


# C074
def test_c074_a_reset_in_the_middle_ends_visibly(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    was_seen = threading.Event()

    def handler(conn, _request):
        conn.send(head() + b"abc")  # until the end of the connection
        assert conn.hold(was_seen)
        conn.reset()
    upstream.handler = handler
    with gateway.client() as client:
        answer = client.request().read_head()
        assert answer.header("transfer-encoding") == "chunked"
        assert client.recv_until(b"abc\r\n") == b"3\r\nabc\r\n"
        was_seen.set()
        with pytest.raises(ConnectionEnded) as ended:
            client.recv_until(b"0\r\n\r\n")
        assert ended.value.got == b""


# C074
def test_c074_trickle_then_death_before_the_head_is_complete(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    upstream.handler = until_close(b"HTTP/1.1 200 OK\r\ncontent-le")
    answer = gateway.fetch(method="POST", body=b"x")
    assert (answer.status, answer.problem) == (502, "upstream-reset")
    assert (answer.json["outcome"], answer.json["retry"]) == ("unknown", "no")


# ---- back-pressure ----

def test_an_answer_larger_than_any_buffer_arrives_whole(gateway_factory, upstream):
    """A client that reads late gets every byte, and the gateway holds no more than its bound."""
    gateway = gateway_factory(upstream=upstream)
    part = os.urandom(1 << 20)

    def handler(conn, _request):
        conn.send(head("transfer-encoding: chunked"))
        for _ in range(24):
            conn.send_chunk(part)
        conn.send_last_chunk()
    upstream.handler = handler
    gateway.fetch("/warm")
    before = gateway.rss()
    with gateway.client(rcvbuf=65536) as client:
        answer = client.request().read_head()
        wait_until(lambda: gateway.cpu_share(0.1) < 0.01)  # everything is full, nobody moves
        assert gateway.rss() - before < (4 << 20) * (16 if IS_SANITIZED else 1)
        client.read_body(answer)
    assert answer.body == part * 24
