# SPDX-License-Identifier: MIT
"""Clauses of the contract that a review found unfulfilled, one test each."""
import threading

import pytest

from support import RawClient, free_address, now_ms, wait_until

ATTEMPT = "0-0123456789abcdef"


def test_half_close_does_not_cut_an_upload_that_is_held_up(gateway_factory, upstream_factory):
    """The FIN stands behind bytes that are not read yet: it ends the upload, not the request."""
    body = b"x" * (6 << 20)
    upstream = upstream_factory(early=True)

    sent = threading.Event()

    def slowly(conn, request):
        conn.pause_reading()
        conn.hold(sent)
        conn.resume_reading()
        conn.read_body(request)
        conn.respond(200, str(len(request.body)).encode())

    upstream.handler = slowly
    gateway = gateway_factory(upstream=upstream, listen={"half_close": "wait"})
    with gateway.client() as client:
        client.send(b"POST /up HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % len(body))
        sender = threading.Thread(target=lambda: (client.send(body), client.half_close()))
        sender.start()
        # the last bytes and the FIN lie in the kernel: nobody reads them until the upstream does
        sender.join(0.3)
        sent.set()
        sender.join()
        assert client.read_response().body == str(len(body)).encode()


def test_a_reload_narrows_trust_on_open_connections(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream, listen={"trust": "all"})
    with gateway.client() as client:
        client.request("GET", "/", headers={"x-forwarded-proto": "https"})
        assert client.read_response().status == 200
        gateway.reload(listen={"trust": "none"})
        client.request("GET", "/", headers={"x-forwarded-proto": "https"})
        assert client.read_response().status == 200
    assert [r.header("x-forwarded-proto") for r in upstream.requests] == ["https", "http"]


@pytest.mark.parametrize("host", ["a:b:c", "[::1", "a:99999", "%zz", ":80", "a]", "a:-1", "[]"])
def test_a_host_that_is_none_is_refused(gateway_factory, upstream, host):
    gateway = gateway_factory(upstream=upstream)
    with gateway.client() as client:
        client.send(f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        assert client.read_response().problem == "bad-request"
    assert not upstream.requests


@pytest.mark.parametrize("host", ["a", "a.b:80", "[::1]:8080", "[::1]", "a%20b", "127.0.0.1:", "a_b"])
def test_a_host_that_is_one_is_served(gateway_factory, upstream, host):
    gateway = gateway_factory(upstream=upstream)
    with gateway.client() as client:
        client.send(f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        assert client.read_response().status == 200
    assert upstream.requests[0].header("host") == host


def test_a_body_refused_by_its_length_keeps_the_request_s_own_id(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream, limits={"body": "10B"})
    with gateway.client() as client:
        client.send(b"POST / HTTP/1.1\r\nHost: h\r\nX-Request-Id: mine\r\nX-Attempt: "
                    + ATTEMPT.encode() + b"\r\nContent-Length: 11\r\n\r\n")
        answer = client.read_response()
    assert answer.problem == "body-too-large"
    assert answer.header("x-request-id") == "mine"
    assert answer.header("prazo-result") == "none;retry=after-fix;spent=0;for=0123456789abcdef"
    assert not upstream.requests


def test_connection_cannot_strip_what_the_gateway_says_of_the_client(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream, listen={"trust": "all"})
    gateway.fetch("/", headers={
        "connection": "x-forwarded-proto, x-forwarded-host, x-forwarded-for",
        "x-forwarded-proto": "https", "x-forwarded-host": "evil", "x-forwarded-for": "1.2.3.4"})
    request = upstream.requests[0]
    assert request.header("x-forwarded-proto") == "http"
    assert request.header("x-forwarded-host") == request.header("host")
    assert request.header("x-forwarded-for") == "127.0.0.1"


def test_options_star_is_an_answer_of_ours(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    with gateway.client() as client:
        client.send(b"OPTIONS * HTTP/1.1\r\nHost: h\r\nX-Attempt: " + ATTEMPT.encode() + b"\r\n\r\n")
        answer = client.read_response()
    assert answer.status == 200 and answer.header("cache-control") == "no-store"
    assert answer.header("prazo-result").endswith("for=0123456789abcdef")
    assert not upstream.requests


def test_accepting_stops_at_the_limit_and_is_counted(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream, limits={"connections": 2})
    with gateway.client() as one, gateway.client() as two, gateway.client() as three:
        for client in (one, two):
            client.request("GET", "/")
            assert client.read_response().status == 200
        three.request("GET", "/third")
        gateway.wait_metric("prazo_accept_paused_total", lambda count: count >= 1)
        assert len(upstream.requests) == 2
        one.close()
        assert three.read_response().status == 200


def test_grpc_is_known_in_any_case(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    answer = gateway.fetch("/", headers={"content-type": "Application/GRPC+proto",
                                         "x-deadline-ms": str(now_ms() - 1000)})
    assert answer.status == 200 and answer.header("grpc-status") == "4"


def test_a_listener_that_a_reload_removes_refuses_and_the_other_goes_on(gateway_factory, upstream):
    first, second = free_address(), free_address()
    gateway = gateway_factory(upstream=upstream, threads=4, listen=[first, second])
    with RawClient(second) as stays:
        gateway.reload(listen=[first])

        def is_refused():
            try:
                RawClient(second).close()
            except OSError:
                return True
            return False

        wait_until(is_refused, 5)
        stays.request("GET", "/")
        assert stays.read_response().status == 200
    with RawClient(first) as client:
        client.request("GET", "/")
        assert client.read_response().status == 200


@pytest.mark.parametrize("head, rule", [
    ("GET / HTTP/1.1\r\n\r\n", "Host is missing, repeated or invalid."),
    ("GET / HTTP/1.1\r\nHost: h\r\nContent-Length: +5\r\n\r\n", "Content-Length"),
    ("GET / HTTP/1.1\r\nHost: h\r\nX : y\r\n\r\n", "Invalid header token"),
    ("GET /\r\nHost: h\r\n\r\n", "request line"),
    ("FETCH / HTTP/1.1\r\nHost: h\r\n\r\n", "method"),
    ("\x16\x03\x01\x02\x00", "not HTTP/1.1 in the clear"),
], ids=["host", "length", "name", "line", "method", "tls"])
def test_a_refused_head_says_which_rule_it_breaks(gateway_factory, upstream, head, rule):
    gateway = gateway_factory(upstream=upstream)
    with gateway.client() as client:
        client.send(head)
        assert rule in client.read_response().json["detail"]
    line = gateway.wait_log(msg="request")
    assert rule in line["detail"]


def test_a_refused_first_request_did_not_take_as_long_as_the_machine_is_up(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    with gateway.client() as client:
        client.send("GET / HTTP/1.1\r\n\r\n")
        client.read_response()
    assert gateway.wait_log(msg="request")["ms"] < 5000
    assert gateway.metric("prazo_request_seconds_sum", route="unmatched", result="error") < 5


def test_the_log_says_what_is_wrong_with_an_upstreams_answer(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    upstream.handler = lambda conn, _request: conn.send(
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n")
    assert gateway.fetch().problem == "upstream-invalid-response"
    assert "contradict" in gateway.wait_log(msg="request")["fault"]


def test_what_a_reload_does_not_change_is_named_each_time(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    for count in (1, 2):
        gateway.reload(threads=3)
        wait_until(lambda: len(gateway.logs(msg="not reloaded")) == count)
    assert gateway.logs(msg="not reloaded")[-1]["detail"].endswith(": threads")
    gateway.reload(threads=1)
    assert len(gateway.logs(msg="not reloaded")) == 2


def test_a_101_for_another_protocol_is_no_answer(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream, routes=[{"path": "/*", "upgrade": ["websocket"]}])
    upstream.handler = lambda conn, _request: conn.send(
        b"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n")
    with gateway.client() as client:
        client.request("GET", "/", headers={"connection": "upgrade", "upgrade": "websocket"})
        assert client.read_response().problem == "upstream-invalid-response"


def test_an_answer_cut_by_the_deadline_does_not_wait_for_a_stalled_reader(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream, deadline="300ms")
    upstream.handler = lambda conn, _request: (
        conn.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n" + b"x" * (16 << 20)))
    with gateway.client(rcvbuf=4096) as client:
        client.request("GET", "/")
        gateway.wait_metric("prazo_requests_total", 1, route="*", code="2xx")
        gateway.wait_metric("prazo_connections", 0, timeout=4)
