# SPDX-License-Identifier: MIT
"""The harness tested on itself: a reader that lets faults through would make every test pass."""

import threading

import pytest

from support import (ConnectionEnded, ProtocolError, RawClient, Truncated, chunk, fetch,
                     is_listening, parse_metrics)
from support.gateway import to_yaml
from support.net import connect


def raw(answer):
    """A connection script: one request, these bytes, the end."""
    def run(conn):
        conn.read_request()
        conn.send(answer)
        conn.close()
    return run


@pytest.mark.parametrize("family", ["ipv4", "ipv6", "unix"])
def test_request_and_answer(upstream_factory, family):
    upstream = upstream_factory(family=family)
    with RawClient(upstream) as client:
        for body in (None, b"12345"):
            answer = client.request("POST", "/a?b", body=body).read_response()
            assert (answer.status, answer.body) == (200, b"ok\n")
    assert [request.body for request in upstream.requests] == [b"", b"12345"]
    assert upstream.requests[0].target == "/a?b"
    assert len(upstream.connections) == 1
    assert upstream.connections[0].wait_for_close(1) == "fin"


def test_chunks_and_trailers_both_ways(upstream):
    upstream.handler = lambda conn, request: conn.respond_chunked(
        [b"abc", b"de"], trailers={"x-sum": "5"})
    with RawClient(upstream) as client:
        client.request("POST", headers={"transfer-encoding": "chunked"})
        client.send_chunk(b"hello")
        client.send_last_chunk({"x-end": "1"})
        answer = client.read_response()
    assert (answer.body, answer.chunks, answer.trailer("x-sum")) == (b"abcde", [3, 2], "5")
    request = upstream.requests[0]
    assert (request.body, request.trailer("x-end")) == (b"hello", "1")


def test_head_and_informational(upstream):
    early = b"HTTP/1.1 103 Early\r\nlink: a\r\n\r\n"
    upstream.script(early + b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n", 204)
    with RawClient(upstream) as client:
        answer = client.request("HEAD").read_response()
        assert [early.status for early in answer.informational] == [103]
        assert (answer.header("content-length"), answer.body) == ("9", b"")
        assert client.request("GET").read_response().status == 204


@pytest.mark.parametrize("answer", [
    b"HTTP/1.1 200 OK\ncontent-length: 0\r\n\r\n",
    b"HTTP/1.1  200 OK\r\n\r\n",
    b"HTTP/2.0 200 OK\r\n\r\n",
    b"HTTP/1.1 200 OK\r\ncontent-length : 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n folded: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 1\r\n\r\nx",
    b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\ncontent-length: +1\r\n\r\nx",
    b"HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1;x=y\r\na\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nabc\r\n0\r\n\r\n",
    b"HTTP/1.1 204 No\r\ncontent-length: 0\r\n\r\n",
])
def test_malformed_answers_are_told(upstream_factory, answer):
    with RawClient(upstream_factory(on_connection=raw(answer))) as client:
        with pytest.raises(ProtocolError):
            client.request().read_response()


@pytest.mark.parametrize("answer,body", [
    (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nabc", b"abc"),
    (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + chunk(b"abc"), b"abc"),
])
def test_cut_answers_are_told(upstream_factory, answer, body):
    with RawClient(upstream_factory(on_connection=raw(answer))) as client:
        with pytest.raises(Truncated) as cut:
            client.request().read_response()
    assert (cut.value.how, cut.value.message.body) == ("fin", body)


def test_ends_are_told_apart(upstream):
    upstream.handler = lambda conn, request: conn.reset()
    with RawClient(upstream) as client:
        with pytest.raises(ConnectionEnded) as ended:
            client.request().read_response()
    assert (ended.value.how, ended.value.got) == ("rst", b"")


@pytest.mark.parametrize("leave,how", [(RawClient.close, "fin"), (RawClient.half_close, "fin"),
                                       (RawClient.reset, "rst")])
@pytest.mark.parametrize("reading", [True, False])
def test_upstream_sees_how_its_peer_leaves(upstream, leave, how, reading):
    held, seen = threading.Event(), threading.Event()

    def handler(conn, _request):
        if not reading:
            conn.pause_reading()
        held.set()
        assert conn.wait_for_close(2) == how
        seen.set()
    upstream.handler = handler
    client = RawClient(upstream)
    client.request()
    assert held.wait(2)
    leave(client)
    assert seen.wait(2)
    client.close()


def test_listener_can_go_and_come_back(upstream):
    assert fetch(upstream).status == 200
    upstream.stop_listening()
    assert not is_listening(upstream.address)
    upstream.listen_again()
    assert fetch(upstream).status == 200


def test_connecting_to_a_black_hole_hangs(blackhole):
    with pytest.raises(TimeoutError):
        connect(blackhole, timeout=0.2)


def test_metrics_are_parsed():
    metrics = parse_metrics('# HELP a_total x\na_total{route="a\\"b,}",code="2xx"} 3\n'
                            'a_total{route="c",code="5xx"} 4\nb 1.5\n')
    assert metrics.value("a_total") == 7
    assert metrics.value("a_total", route='a"b,}') == 3
    assert metrics.value("a_total", code="4xx") == 0
    assert metrics.value("b") == 1.5
    with pytest.raises(AssertionError):
        metrics.value("c")


def test_configuration_is_written():
    text = to_yaml({"listen": "[::1]:80", "on": True, "none": None,
                    "list": [{"a": 1, "b": "*"}, "x y"], "m": {}})
    assert text == ('\nlisten: "[::1]:80"\non: on\nnone: none\nlist:\n  -\n    a: 1\n    b: "*"\n'
                    '  - "x y"\nm: {}\n')
