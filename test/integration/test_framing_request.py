# SPDX-License-Identifier: MIT
"""Requests as they come in and as they go out: framing, lines, targets, limits (contract 13).
What is refused never reaches the upstream as a whole request, and its connection ends."""

import os

import pytest

from support import IS_SANITIZED, SLACK, ConnectionEnded, Stopwatch, chunk

HOST = "Host: h\r\n"


def refuse(gateway, data, status=400, problem="bad-request", method="GET"):
    """Sends these bytes; the answer is that problem and the connection ends in stages."""
    with gateway.client() as client:
        try:
            client.send(data)
        except ConnectionError:
            pass  # what was refused may be longer than what is still read; the answer counts
        answer = client.read_response(method)
        assert (answer.status, answer.problem) == (status, problem), answer
        assert answer.header("connection") == "close"
        try:
            assert client.recv_end() == "fin"
        except ConnectionEnded as ended:
            assert ended.got == b""


def assert_untouched(upstream):
    assert upstream.requests == []
    assert b"".join(bytes(conn.received) for conn in upstream.connections) == b""


def forwarded(gateway, upstream, data):
    """The request that the upstream gets for these bytes."""
    with gateway.client() as client:
        client.send(data)
        assert client.read_response().status == 200
    return upstream.requests[-1]


# ---- framing headers ----

# C062
@pytest.mark.parametrize("lines", [
    "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
    "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
    "Content-Length: 4\r\nX: y\r\ntransfer-encoding: CHUNKED\r\n",
])
def test_c062_length_and_chunks(gateway_factory, upstream, lines):
    gateway = gateway_factory(upstream=upstream)
    refuse(gateway, "POST /a HTTP/1.1\r\n" + HOST + lines + "\r\n1\r\nZ\r\n0\r\n\r\n"
           "GET /b HTTP/1.1\r\n" + HOST + "\r\n")
    assert_untouched(upstream)


# C062
def test_c062_chunks_in_http_1_0(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    refuse(gateway, "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
    assert_untouched(upstream)


# C063
@pytest.mark.parametrize("lines", [
    "Content-Length: +5\r\n", "Content-Length: -0\r\n", "Content-Length: 5 5\r\n",
    "Content-Length: 0x5\r\n", "Content-Length: 5_0\r\n", "Content-Length: 5.0\r\n",
    "Content-Length:\r\n", "Content-Length: " + "1" * 30 + "\r\n", "Content-Length: 5, 6\r\n",
    "Content-Length: 5, 5\r\n", "Content-Length: 5\r\nContent-Length: 6\r\n",
    "Content-Length: \xb2\r\n", "Content-Length: 9223372036854775808\r\n",
])
def test_c063_length_is_plain_digits(gateway_factory, upstream, lines):
    gateway = gateway_factory(upstream=upstream)
    refuse(gateway, "POST / HTTP/1.1\r\n" + HOST + lines + "\r\nhello")
    assert_untouched(upstream)


# C063
def test_c063_equal_lengths_become_one(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    request = forwarded(gateway, upstream, "POST / HTTP/1.1\r\n" + HOST +
                        "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello")
    assert request.header("content-length") == "5"
    assert request.body == b"hello"


@pytest.mark.parametrize("coding", ["gzip", "gzip, chunked", "chunked, chunked", "chunked, gzip",
                                    "xchunked", "identity", "chunked;q=1", ""])
def test_other_transfer_codings_are_not_implemented(gateway_factory, upstream, coding):
    gateway = gateway_factory(upstream=upstream)
    refuse(gateway, "POST / HTTP/1.1\r\n" + HOST + f"Transfer-Encoding: {coding}\r\n\r\n"
           "0\r\n\r\n", 501, "not-implemented")
    assert_untouched(upstream)


# C069
@pytest.mark.parametrize("method,lines", [
    ("GET", ""), ("DELETE", ""), ("POST", "Content-Length: 0\r\n"), ("POST", ""), ("PUT", ""),
])
def test_c069_no_body_stays_no_body(gateway_factory, upstream, method, lines):
    gateway = gateway_factory(upstream=upstream)
    request = forwarded(gateway, upstream, f"{method} / HTTP/1.1\r\n" + HOST + lines + "\r\n")
    assert request.header("transfer-encoding") is None
    if method in ("GET", "DELETE"):
        assert request.header("content-length") is None
    else:
        assert request.header("content-length") in (None, "0")
    assert request.body == b""


@pytest.mark.parametrize("method", ["GET", "DELETE", "POST", "PUT", "PATCH", "OPTIONS"])
def test_bodies_arrive_with_one_framing(gateway_factory, upstream, method):
    gateway = gateway_factory(upstream=upstream)
    body = os.urandom(200_000)
    with gateway.client() as client:
        client.request(method, "/length", body=body)
        assert client.read_response().status == 200
        client.request(method, "/chunks", headers={"transfer-encoding": "chunked"})
        for at in range(0, len(body), 7001):
            client.send_chunk(body[at:at + 7001])
        client.send_last_chunk()
        assert client.read_response().status == 200
    length, chunks = upstream.requests
    assert (length.body, chunks.body) == (body, body)
    assert length.header("content-length") == str(len(body))
    assert length.header("transfer-encoding") is None
    assert chunks.header("content-length") is None
    assert chunks.header("transfer-encoding") == "chunked"


def test_requests_arrive_byte_by_byte(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    data = (b"POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"5;x=y\r\nhello\r\n1\r\n!\r\n0\r\nX-End: 1\r\n\r\n")
    with gateway.client() as client:
        for at in range(len(data)):
            client.send(data[at:at + 1])
        assert client.read_response().status == 200
    request = upstream.requests[0]
    assert request.body == b"hello!"
    assert request.header("x-end") is None  # a trailer never becomes a header
    assert b";x" not in upstream.connections[0].received


# ---- chunks ----

# C064
@pytest.mark.parametrize("body", ["5\nhello\r\n0\r\n\r\n", "5;a=\nb\r\nhello\r\n0\r\n\r\n",
                                  "5\r\nhello\n0\r\n\r\n", "5\r\nhello\r\n0\n\r\n",
                                  "5\r\nhello\r\n0\r\n\n", "5\r\nhello\r\n0\r\nX: y\n\r\n",
                                  "5\rhello\r\n0\r\n\r\n", "5;a=\rb\r\nhello\r\n0\r\n\r\n"])
def test_c064_bare_lf_in_chunk_lines(gateway_factory, upstream, body):
    gateway = gateway_factory(upstream=upstream)
    refuse(gateway, "POST / HTTP/1.1\r\n" + HOST + "Transfer-Encoding: chunked\r\n\r\n" + body)
    for conn in upstream.connections:
        conn.wait_for_close()
    assert upstream.requests == []


# C064
@pytest.mark.parametrize("head", ["GET / HTTP/1.1\nHost: h\r\n\r\n", "GET / HTTP/1.1\nHost: h\n\n",
                                  "GET / HTTP/1.1\r\nHost: h\n\r\n",
                                  "GET / HTTP/1.1\r\nHost: h\r\n\n"])
def test_c064_bare_lf_in_the_head(gateway_factory, upstream, head):
    """The documented policy: refused, as everywhere else."""
    gateway = gateway_factory(upstream=upstream)
    refuse(gateway, head)
    assert_untouched(upstream)


# C065
@pytest.mark.parametrize("size", ["0x5", "+5", "-0", "\t5", " 5", "5 ", "0_5", "", "5g", "5,5",
                                  "00000000000000005", "fffffffffffffffff", "8000000000000000"])
def test_c065_decorated_chunk_sizes(gateway_factory, upstream, size):
    gateway = gateway_factory(upstream=upstream)
    refuse(gateway, "POST / HTTP/1.1\r\n" + HOST + "Transfer-Encoding: chunked\r\n\r\n"
           f"{size}\r\nhello\r\n0\r\n\r\n")
    for conn in upstream.connections:
        conn.wait_for_close()
    assert upstream.requests == []


# C065
def test_c065_bad_size_in_a_later_chunk(gateway_factory, upstream):
    """The first chunk may have gone on; the request never becomes whole."""
    gateway = gateway_factory(upstream=upstream)
    with gateway.client() as client:
        client.send("POST / HTTP/1.1\r\n" + HOST + "Transfer-Encoding: chunked\r\n\r\n")
        client.send(chunk(b"hello"))
        client.send("+5\r\nhello\r\n0\r\n\r\n")
        answer = client.read_response("POST")
        assert (answer.status, answer.problem) == (400, "bad-request")
        assert client.recv_end() == "fin"
    for conn in upstream.connections:
        conn.wait_for_close()
        assert not conn.received.endswith(b"0\r\n\r\n")
    assert upstream.requests == []


# ---- field lines ----

# C066
@pytest.mark.parametrize("lines", [
    "Host: h\r\nTransfer-Encoding : chunked\r\n",
    "Host: h\r\nContent-Length\t: 5\r\n",
    " Host: h\r\n",
    "\tX: y\r\nHost: h\r\n",
    "Host: h\r\nX: a\r\n b\r\n",
    "Host: h\r\nX: a\r\n\tb\r\n",
    "Host: h\r\nX:\r\n \r\n",
])
def test_c066_blanks_around_names(gateway_factory, upstream, lines):
    gateway = gateway_factory(upstream=upstream)
    refuse(gateway, "POST / HTTP/1.1\r\n" + lines + "\r\n5\r\nhello\r\n0\r\n\r\n")
    assert_untouched(upstream)


@pytest.mark.parametrize("lines", [
    ": a\r\n", "nocolon\r\n", "X(: a\r\n", "X\xe9: a\r\n", "X: a\0b\r\n", "X\0: a\r\n",
    "X: a\rb\r\n", "X: a\r\r\n", "X: \x01\r\n", "X: a\x7f\r\n", "X: a\nY: b\r\n",
])
def test_malformed_fields_are_refused(gateway_factory, upstream, lines):
    gateway = gateway_factory(upstream=upstream)
    refuse(gateway, "GET / HTTP/1.1\r\n" + HOST + lines + "\r\n")
    assert_untouched(upstream)


def test_fields_are_passed_on_as_they_are(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    request = forwarded(gateway, upstream, "GET / HTTP/1.1\r\n" + HOST +
                        "X-Twice: 1\r\nX-Twice: 2\r\nX-Empty:\r\nX-Text: \t a \xe9\t; \"b\" \r\n"
                        "Cookie: a=b\r\nAuthorization: x\r\n\r\n")
    assert request.header_all("x-twice") == ["1", "2"]
    assert request.header("x-empty") == ""
    assert request.header("x-text") == 'a \xe9\t; "b"'
    assert request.header("cookie") == "a=b"
    assert request.header("authorization") == "x"


# ---- request line, target and Host ----

@pytest.mark.parametrize("line", ["GET  / HTTP/1.1", "GET /  HTTP/1.1", "GET / HTTP/1.1 ",
                                  " GET / HTTP/1.1", "GET\t/ HTTP/1.1", "GET /", "GET",
                                  "G(T / HTTP/1.1",
                                  "GET /a b HTTP/1.1", "GET /a#b HTTP/1.1", "GET /\xe9 HTTP/1.1",
                                  "GET /\x01 HTTP/1.1", "GET x HTTP/1.1", "GET * HTTP/1.1",
                                  "GET / HTTP/1", "GET / http/1.1", "GET / HTTP/1.1\r"])
def test_malformed_request_lines_are_refused(gateway_factory, upstream, line):
    gateway = gateway_factory(upstream=upstream)
    refuse(gateway, line + "\r\n" + HOST + "\r\n")
    assert_untouched(upstream)


@pytest.mark.parametrize("version", ["2.0", "1.2", "0.9", "3.0"])
def test_other_versions_are_not_supported(gateway_factory, upstream, version):
    gateway = gateway_factory(upstream=upstream)
    refuse(gateway, f"GET / HTTP/{version}\r\n" + HOST + "\r\n", 505, "version-not-supported")
    assert_untouched(upstream)


def test_unknown_methods_are_not_implemented(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    refuse(gateway, "BREW / HTTP/1.1\r\n" + HOST + "\r\n", 501, "not-implemented")
    assert_untouched(upstream)


@pytest.mark.parametrize("first", [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"\x00\x00"])
def test_what_is_no_http_is_refused_at_once(gateway_factory, upstream, first):
    """A TLS hello has no empty line that one could wait for."""
    gateway = gateway_factory(upstream=upstream)
    with Stopwatch() as watch:
        refuse(gateway, first)
    watch.assert_between(0, 2000)
    assert_untouched(upstream)


# C067
def test_c067_absolute_form_wins(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    request = forwarded(gateway, upstream,
                        "GET http://a.example/x?y HTTP/1.1\r\nHost: b.example\r\n\r\n")
    assert (request.target, request.header("host")) == ("/x?y", "a.example")


# C067
@pytest.mark.parametrize("target,host,wanted", [
    ("http://a.example/x", "b.example", "a"), ("http://b.example/x", "a.example", "b"),
    ("/x", "a.example", "a"), ("/x", "A.EXAMPLE", "a"), ("/x", "b.example", "b"),
])
def test_c067_one_view_for_routing(gateway_factory, upstream_factory, target, host, wanted):
    upstreams = {"a": upstream_factory(), "b": upstream_factory()}
    gateway = gateway_factory(upstreams={"a": {"servers": [upstreams["a"]]},
                                         "b": {"servers": [upstreams["b"]]}},
                              routes=[{"path": "/*", "host": "a.example", "upstream": "a"},
                                      {"path": "/*", "upstream": "b"}])
    answer = gateway.fetch(target, headers={"host": host})
    assert answer.status == 200
    assert {name: len(up.requests) for name, up in upstreams.items()} == {
        name: int(name == wanted) for name in upstreams}
    gateway.wait_metric("prazo_upstream_requests_total", 1, upstream=wanted)


# C067
@pytest.mark.parametrize("head", [
    "GET / HTTP/1.1\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
    "GET / HTTP/1.1\r\nHost:\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n",
    "GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n",
    "GET http://u:p@a.example/x HTTP/1.1\r\nHost: a.example\r\n\r\n",
    "GET http:///x HTTP/1.1\r\nHost: a.example\r\n\r\n",
    "GET http://a.example/x HTTP/1.1\r\n\r\n",
    "GET http://a.example/x HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
])
def test_c067_host_is_exactly_one(gateway_factory, upstream, head):
    gateway = gateway_factory(upstream=upstream)
    refuse(gateway, head)
    assert_untouched(upstream)


@pytest.mark.parametrize("method,target", [("CONNECT", "a.example:443"), ("TRACE", "/")])
def test_connect_and_trace_are_not_allowed(gateway_factory, upstream, method, target):
    gateway = gateway_factory(upstream=upstream)
    answer = gateway.fetch(target, method)
    assert (answer.status, answer.problem) == (405, "method-not-allowed")
    assert not {"CONNECT", "TRACE"} & set(answer.header("allow").split(", "))
    assert_untouched(upstream)


def test_options_of_the_server_is_answered_here(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    with gateway.client() as client:
        answer = client.request("OPTIONS", "*").read_response()
        assert answer.status in (200, 204)
        assert_untouched(upstream)
        assert client.request("OPTIONS", "/a").read_response().status == 200
    assert [request.target for request in upstream.requests] == ["/a"]


AMBIGUOUS = ["/a%2fb", "/a%5Cb", "/a\\b", "/a%00", "//a", "/a//b", "/./a", "/a/../b", "/a/%2e%2e/b"]


@pytest.mark.parametrize("target", AMBIGUOUS)
def test_ambiguous_paths_are_refused_where_they_matter(gateway_factory, upstream, target):
    gateway = gateway_factory(upstream=upstream, routes=[{"path": "/*", "methods": ["GET"]}])
    answer = gateway.fetch(target)
    assert (answer.status, answer.problem) == (400, "bad-request")
    assert_untouched(upstream)


def test_targets_arrive_as_sent(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    targets = AMBIGUOUS + ["/%6frders/%31", "/a?b=%41&c=%zz", "/?", "/a%20b;c,d"]
    with gateway.client() as client:
        for target in targets:
            assert client.request("GET", target).read_response().status == 200
    assert [request.target for request in upstream.requests] == targets


def test_paths_are_matched_decoded(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream, routes=[{"path": "/orders/*"}])
    assert gateway.fetch("/%6Frders/%37").status == 200
    answer = gateway.fetch("/order%73")
    assert (answer.status, answer.problem) == (404, "no-route")
    assert [request.target for request in upstream.requests] == ["/%6Frders/%37"]


def test_http_1_0_requests_go_out_as_1_1(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    with gateway.client() as client:
        client.send("GET /a HTTP/1.0\r\nHost: a.example\r\n\r\n")
        assert client.read_response().status == 200
    request = upstream.requests[0]
    assert (request.version, request.header("host")) == ("1.1", "a.example")
    assert request.header("via").startswith("1.0 prazo-")


# ---- limits ----

FLOOD = [
    ("a head without an end", lambda: "GET / HTTP/1.1\r\nHost: h\r\n" +
     "".join(f"X-{i:06}: 12345678\r\n" for i in range(100_000)), 431, "header-too-large"),
    ("one header of 1 MiB", lambda: "GET / HTTP/1.1\r\nHost: h\r\nX: " + "x" * (1 << 20) +
     "\r\n\r\n", 431, "header-too-large"),
    ("a name of 1 MiB", lambda: "GET / HTTP/1.1\r\nHost: h\r\n" + "x" * (1 << 20), 431,
     "header-too-large"),
    ("a target of 1 MiB", lambda: "GET /" + "x" * (1 << 20) + " HTTP/1.1\r\nHost: h\r\n\r\n", 414,
     "uri-too-long"),
    ("a method of 1 MiB", lambda: "G" * (1 << 20), 414, "uri-too-long"),
    ("lines beyond counting", lambda: "GET / HTTP/1.1\r\nHost: h\r\n" + "a:\r\n" * 5000 + "\r\n",
     431, "header-too-large"),
]


# C068
@pytest.mark.parametrize("make,status,problem", [row[1:] for row in FLOOD],
                         ids=[row[0] for row in FLOOD])
def test_c068_header_flood(gateway_factory, upstream, make, status, problem):
    gateway = gateway_factory(upstream=upstream)
    gateway.fetch()
    del upstream.requests[:]
    data, before = make(), gateway.rss()
    for _ in range(10):
        refuse(gateway, data, status, problem)
    assert upstream.requests == []
    assert gateway.rss() - before < (4 << 20) * (16 if IS_SANITIZED else 1)


# C068
def test_c068_many_unfinished_heads_are_bounded(gateway_factory, upstream):
    """200 connections just below the limit cost no more than what they sent and a little."""
    gateway = gateway_factory(upstream=upstream)
    gateway.fetch()
    before = gateway.rss()
    clients = [gateway.client() for _ in range(200)]
    for client in clients:
        client.send("GET / HTTP/1.1\r\nHost: h\r\nX: " + "x" * 30_000)
    gateway.wait_metric("prazo_connections", 200)
    assert gateway.fetch("/still").status == 200
    assert gateway.rss() - before < (200 * 80_000) * (8 if IS_SANITIZED else 1)
    for client in clients:
        client.close()


# C068
def test_c068_slow_heads_meet_a_time_limit(gateway_factory, upstream):
    """A byte now and then does not start the time again."""
    gateway = gateway_factory(upstream=upstream, limits={"header_time": "400ms"})
    with gateway.client() as client, Stopwatch() as watch:
        client.send("GET / HTTP/1.1\r\nHost: h\r\nX: ")
        client.sock.settimeout(0.05)
        while True:
            try:
                client.send("x")
                client._reader.more()
                break
            except TimeoutError:
                assert watch.ms < 5000 * SLACK
        answer = client.read_response()
        assert (answer.status, answer.problem) == (408, "request-timeout")
        watch.assert_between(380, 1200)
    assert_untouched(upstream)


def test_limits_are_configured(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream,
                              limits={"headers": "1KiB", "uri": "128B", "body": "1KiB"})
    assert gateway.fetch("/" + "x" * 127).status == 200
    assert gateway.fetch("/" + "x" * 128).problem == "uri-too-long"
    assert gateway.fetch(headers={"x": "y" * 900}).status == 200
    assert gateway.fetch(headers={"x": "y" * 1024}).problem == "header-too-large"
    assert gateway.fetch(method="POST", body=b"x" * 1024).status == 200


@pytest.mark.parametrize("framing", ["length", "chunks"])
def test_bodies_over_the_limit_are_refused(gateway_factory, upstream, framing):
    gateway = gateway_factory(upstream=upstream, limits={"body": "1KiB"})
    if framing == "length":
        data = "POST / HTTP/1.1\r\n" + HOST + "Content-Length: 1025\r\n\r\n" + "x" * 1025
    else:
        data = (b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" +
                chunk(b"x" * 1000) + chunk(b"x" * 25) + b"0\r\n\r\n")
    refuse(gateway, data, 413, "body-too-large")
    assert upstream.requests == []


def test_an_announced_body_over_the_limit_is_not_waited_for(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream, limits={"body": "1KiB"})
    with Stopwatch() as watch:
        refuse(gateway, "POST / HTTP/1.1\r\n" + HOST + "Content-Length: 1000000\r\n\r\n", 413,
               "body-too-large")
    watch.assert_between(0, 2000)
    assert_untouched(upstream)


# ---- several requests on a connection ----

def test_pipelined_requests_are_answered_in_order(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    upstream.handler = lambda conn, request: conn.respond(200, request.target.encode())
    with gateway.client() as client:
        client.send("GET /1 HTTP/1.1\r\n" + HOST + "\r\n"
                    "POST /2 HTTP/1.1\r\n" + HOST + "Content-Length: 4\r\n\r\nGET "
                    "POST /3 HTTP/1.1\r\n" + HOST + "Transfer-Encoding: chunked\r\n\r\n"
                    "3\r\nGET\r\n0\r\n\r\n"
                    "HEAD /4 HTTP/1.1\r\n" + HOST + "\r\n"
                    "GET /5 HTTP/1.1\r\n" + HOST + "Connection: close\r\n\r\n")
        bodies = [client.read_response(method).body
                  for method in ("GET", "POST", "POST", "HEAD", "GET")]
        assert bodies == [b"/1", b"/2", b"/3", b"", b"/5"]
        assert client.recv_end() == "fin"
    assert [request.body for request in upstream.requests] == [b"", b"GET ", b"GET", b"", b""]


def test_a_malformed_request_behind_a_good_one(gateway_factory, upstream):
    """The good one is answered first, then the fault, then the end."""
    gateway = gateway_factory(upstream=upstream)
    with gateway.client() as client:
        client.send("GET /1 HTTP/1.1\r\n" + HOST + "\r\nGET /2 HTTP/1.1\r\n\r\n"
                    "GET /3 HTTP/1.1\r\n" + HOST + "\r\n")
        assert client.read_response().status == 200
        assert client.read_response().problem == "bad-request"
        assert client.recv_end() == "fin"
    assert [request.target for request in upstream.requests] == ["/1"]


def test_empty_lines_before_a_request_are_ignored(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    with gateway.client() as client:
        for _ in range(2):
            client.send("\r\n\r\nGET / HTTP/1.1\r\n" + HOST + "\r\n")
            assert client.read_response().status == 200
    assert len(upstream.requests) == 2
