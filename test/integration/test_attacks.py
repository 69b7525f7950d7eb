# SPDX-License-Identifier: MIT
"""Peers that mean harm, or behave as if they did: each test is named after what went wrong."""

import socket
import threading

import pytest

from support import RawClient, deadline_headers, wait_until

ANSWER_HEAD = "HTTP/1.1 200 OK\r\n"
GET = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"


def assert_idle(gateway):
    for name in ("prazo_in_flight", "prazo_queue_depth"):
        gateway.wait_metric(name, 0)
    gateway.wait_metric("prazo_upstream_connections", 0, state="active")


@pytest.mark.parametrize("end", ["fin", "rst"])
@pytest.mark.parametrize("answer", [
    ANSWER_HEAD + "Content-Length: 5\r\n\r\nhello",
    ANSWER_HEAD + "Transfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nX-T: 1\r\n\r\n",
], ids=["length", "chunked"])
def test_answer_cut_at_any_byte_ends_at_once(gateway_factory, upstream_factory, answer, end):
    """A cut in the middle of a head or of chunk framing was noticed by the deadline only."""
    def cut(conn, request):
        conn.send(answer[:int(request.target[1:])])
        conn.reset() if end == "rst" else conn.close()

    gateway = gateway_factory(upstream=upstream_factory(cut), deadline="20s")
    head_bytes = answer.index("\r\n\r\n") + 4
    for count in range(1, len(answer)):
        with gateway.client(timeout=5) as client:
            client.request("GET", f"/{count}", {"te": "trailers", "connection": "close"})
            got = client.recv_all()
        status = int(got.split()[1]) if got else 0
        if count < head_bytes:
            assert status == 502, count
        else:
            assert status in (200, 502) and b"\r\n0\r\n" not in got, count
    assert_idle(gateway)


def test_client_that_pipelines_and_reads_late_gets_every_answer(gateway_factory, upstream_factory):
    """Answers to pipelined requests piled up until the bound of the output cut the connection."""
    size, count = 8192, 2000
    upstream = upstream_factory(lambda conn, _: conn.respond(200, b"z" * size))
    gateway = gateway_factory(upstream=upstream, deadline="30s")
    with gateway.client(rcvbuf=4096, timeout=30) as client:
        sender = threading.Thread(target=client.send, args=(GET * count,))
        sender.start()
        seen = []
        # back-pressure has set in when no more requests come out at the other end
        wait_until(lambda: seen.append(len(upstream.requests)) or
                   (len(seen) > 50 and seen[-50] == seen[-1] > 0), timeout=20)
        assert len(upstream.requests) < count
        for _ in range(count):
            assert len(client.read_response().body) == size
        sender.join()
    assert_idle(gateway)


def test_refusals_to_a_client_that_reads_late_are_bounded_too(gateway_factory, upstream):
    count = 20000
    gateway = gateway_factory(upstream=upstream, routes=[{"path": "/nowhere"}])
    with gateway.client(rcvbuf=4096, timeout=30) as client:
        sender = threading.Thread(target=client.send, args=(GET * count,))
        sender.start()
        gateway.wait_metric("prazo_requests_total", lambda n: n > 1000, route="unmatched")
        for _ in range(count):
            assert client.read_response().problem == "no-route"
        sender.join()


def test_answer_buffer_raised_by_a_reload_cuts_no_slow_reader(gateway_factory, upstream_factory):
    """The pause came later than before, the bound behind it had stayed: the answer was cut."""
    size = 16 << 20
    upstream = upstream_factory(lambda conn, _: conn.respond(200, b"x" * size))
    gateway = gateway_factory(upstream=upstream, deadline="30s", limits={"answer_buffer": "64KiB"})
    with gateway.client(rcvbuf=4096, timeout=30) as before, \
            gateway.client(rcvbuf=4096, timeout=30) as after:
        before.send(GET)
        before.read_response()
        gateway.reload(limits={"answer_buffer": "8MiB"})
        for client in (before, after):
            client.send(GET)
            gateway.wait_metric("prazo_in_flight", 1)
            assert len(client.read_response().body) == size


def test_kept_body_larger_than_at_the_start_is_sent_whole(gateway_factory, upstream_factory):
    """The same for limits.replay_body: what had waited for a connection was more than went out."""
    release = threading.Event()
    upstream = upstream_factory(
        lambda conn, request: conn.hold(release) and conn.respond(200, str(len(request.body))))
    gateway = gateway_factory(upstream=upstream, app={"connections": {"max": 1}}, deadline="20s",
                              limits={"replay_body": "64KiB"})
    gateway.reload(limits={"replay_body": "16MiB"})
    with gateway.client() as first, gateway.client(timeout=20) as second:
        first.send(GET)
        upstream.wait_for_requests(1)
        second.request("POST", "/", {}, b"y" * (12 << 20))
        gateway.wait_metric("prazo_queue_depth", 1)
        release.set()
        first.read_response()
        assert second.read_response().text == str(12 << 20)


def test_tunnel_gets_what_the_client_sent_before_the_101(gateway_factory, upstream_factory):
    """Bytes behind the request for a tunnel waited until the client sent more."""
    asked = threading.Event()

    def switch(conn):
        request = conn.read_request()
        conn.hold(asked)
        conn.send("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\n"
                  "upgrade: websocket\r\n\r\n")
        conn.wait_for_bytes(len(request.raw_head) + len(b"early"))
        conn.send(bytes(conn.received[len(request.raw_head):]))
        conn.close()

    upstream = upstream_factory(on_connection=switch)
    gateway = gateway_factory(upstream=upstream, routes=[{"path": "/*", "upgrade": ["websocket"]}])
    with gateway.client() as client:
        client.send(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\n"
                    b"Upgrade: websocket\r\n\r\nearly")
        gateway.wait_metric("prazo_in_flight", 1)
        asked.set()
        assert client.read_head().status == 101
        assert client.recv_exactly(5) == b"early"


@pytest.mark.parametrize("limit, size", [("256KiB", 200_000), ("1MiB", 900_000)])
def test_heads_may_be_as_large_as_the_limit(gateway_factory, upstream_factory, limit, size):
    """More than 64 KiB of a head was not read, and a call's memory did not grow with the limit."""
    upstream = upstream_factory(lambda conn, _: conn.respond(200, b"ok", {"x-large": "a" * size}))
    gateway = gateway_factory(upstream=upstream, limits={"headers": limit, "header_time": "20s"})
    response = gateway.fetch("/", headers={"x-also-large": "b" * size})
    assert response.status == 200 and len(response.header("x-large")) == size
    assert upstream.requests[0].header("x-also-large") == "b" * size


def test_sixteen_large_interim_heads_do_not_cost_the_final_answer(gateway_factory,
                                                                   upstream_factory):
    """They were built in the memory of the call, which the final head then lacked."""
    hint = "HTTP/1.1 103 Early Hints\r\n" + ("link: " + "l" * 1000 + "\r\n") * 30 + "\r\n"

    def answer(conn, _):
        for _ in range(16):
            conn.send(hint)
        conn.respond(200, "final")

    gateway = gateway_factory(upstream=upstream_factory(answer))
    with gateway.client() as client:
        client.send(GET)
        response = client.read_response()
    assert response.text == "final"
    assert len(response.informational) == 16


def test_what_follows_a_refused_connect_is_no_request(gateway_factory, upstream):
    """It is meant for a tunnel that does not exist, and may come from somebody else."""
    gateway = gateway_factory(upstream=upstream)
    with gateway.client() as client:
        client.send(b"CONNECT h:1 HTTP/1.1\r\nHost: h:1\r\n\r\n" + GET)
        response = client.read_response("CONNECT")
        assert response.status == 405 and response.header("connection") == "close"
        client.recv_end()
    assert upstream.requests == []


def test_urgent_data_does_not_hide_a_reset(gateway_factory, upstream_factory):
    upstream = upstream_factory(lambda conn, _: conn.wait_for_close())
    gateway = gateway_factory(upstream=upstream)
    client = RawClient(gateway.address)
    client.request("GET", "/", deadline_headers(9000))
    upstream.wait_for_requests(1)
    client.sock.send(b"!", socket.MSG_OOB)
    client.reset()
    assert upstream.connections[0].wait_for_close(timeout=1) == "fin"
    gateway.wait_metric("prazo_client_gone_total", 1, state="sent")
