# SPDX-License-Identifier: MIT
"""Deadlines: how they are read, what is sent down, and that they are kept (contract 2.1, 2.2)."""

import contextlib
import re
import select
import threading
import time

import pytest

from support import (SLACK, RawClient, Stopwatch, Truncated, deadline_headers, now_ms, wait_until)

DAY_MS = 24 * 3600 * 1000
LATE_MS = 60  # how far beyond the deadline an answer may come in: the machine may be busy


def hold(conn, _request):
    """An upstream that works on until its peer hangs up."""
    conn.wait_for_close()


def left_at(request):
    """What the upstream was told to have left, by its own clock."""
    return int(request.header("x-deadline-ms")) - request.received_ms


def assert_expired_on_arrival(gateway, upstream, headers):
    with Stopwatch() as watch:
        answer = gateway.fetch(headers=headers)
    watch.assert_between(0, 100)
    assert (answer.status, answer.problem) == (504, "deadline-exceeded")
    assert (answer.json["outcome"], answer.json["retry"]) == ("none", "same-key")
    assert upstream.connections == []
    assert gateway.metric("prazo_deadline_expired_on_arrival_total") == 1


# ---- reading: plausible or not ----

# C001
@pytest.mark.parametrize("left_ms, skewed", [(-400 * DAY_MS, 1), (-50, 0)])
def test_c001_past_deadline_is_answered_at_once(gateway_factory, upstream, left_ms, skewed):
    gateway = gateway_factory(upstream=upstream)
    assert_expired_on_arrival(gateway, upstream, {"x-deadline-ms": now_ms() + left_ms})
    assert gateway.metric("prazo_clock_skew_total") == skewed


# C001
def test_c001_far_future_is_capped_and_counted_as_skew(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream, deadline="2s")
    assert gateway.fetch(headers={"x-deadline-ms": now_ms() + 400 * DAY_MS}).status == 200
    assert 1850 <= left_at(upstream.requests[0]) <= 1900
    assert gateway.metric("prazo_clock_skew_total") == 1


# C001
@pytest.mark.parametrize("clock_error_ms", [-400 * DAY_MS, -10_000, 10_000, 400 * DAY_MS])
def test_c001_wrong_clock_of_the_sender_neither_kills_nor_frees(gateway_factory, upstream,
                                                               clock_error_ms):
    gateway = gateway_factory(upstream=upstream)
    sent = now_ms() + clock_error_ms
    headers = {"x-deadline-ms": sent + 1000, "x-deadline-sent-ms": sent}
    assert gateway.fetch(headers=headers).status == 200
    assert 900 <= left_at(upstream.requests[0]) <= 951
    assert gateway.metric("prazo_clock_skew_total") == 1
    assert gateway.metric("prazo_deadline_expired_on_arrival_total") == 0


def test_clocks_that_agree_within_the_skew_use_the_smaller_rest(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    now = now_ms()
    for deadline, sent, left in ((now + 1000, now - 3000, 1000), (now + 3000, now + 2000, 1000)):
        gateway.fetch(headers={"x-deadline-ms": deadline, "x-deadline-sent-ms": sent})
        told = left_at(upstream.requests[-1])
        assert left * 0.95 - 70 * SLACK <= told <= left * 0.95 + 1
    assert gateway.metric("prazo_clock_skew_total") == 0


def test_time_that_bytes_lay_unread_is_no_clock_error(gateway_factory, upstream):
    """A pipelined request waits behind another for longer than deadline.skew."""
    gateway = gateway_factory(upstream=upstream, deadline={"skew": "100ms"})
    with gateway.client() as client:
        headers = deadline_headers(2000)
        upstream.script(lambda conn, _: (conn.work(0.4), conn.respond(200))[1])
        client.request("GET", "/a").request("GET", "/b", headers)
        assert [client.read_response().status for _ in range(2)] == [200, 200]
    assert gateway.metric("prazo_clock_skew_total") == 0
    assert left_at(upstream.requests[1]) <= (2000 - 400) * 0.95 + 2


# ---- reading: grammar ----

HUGE = ["9223372036854775807", "99999999999999999999", "253402300799999", "99999999999999"]


# C002
@pytest.mark.parametrize("value", HUGE)
def test_c002_huge_values_neither_wrap_nor_lift_the_limit(gateway_factory, upstream, value):
    gateway = gateway_factory(upstream=upstream, deadline="2s")
    assert gateway.fetch(headers={"x-deadline-ms": value}).status == 200
    assert 1850 <= left_at(upstream.requests[0]) <= 1900
    assert gateway.metric("prazo_deadline_malformed_total") == (0 if len(value) == 14 else 1)


MALFORMED = ["-1", "abc", "Infinity", "", "1e12", "12 34", "+1767323045000", "5000", "999999999999",
             "0001767323045000", "0000000005000", "1767323045000.5", "0x19b7e2a3c48",
             "1767323 45000"]


# C003
@pytest.mark.parametrize("value", MALFORMED)
def test_c003_malformed_is_as_if_absent(gateway_factory, upstream, value):
    gateway = gateway_factory(upstream=upstream, deadline="2s")
    assert gateway.fetch(headers={"x-deadline-ms": value}).status == 200
    request = upstream.requests[0]
    assert 1850 <= left_at(request) <= 1900
    assert re.fullmatch("[0-9]{13}", request.header("x-deadline-ms"))
    assert not value or f": {value}\r\n".encode() not in request.raw_head
    assert gateway.metric("prazo_deadline_malformed_total") == 1


# C003
@pytest.mark.parametrize("value", MALFORMED)
def test_c003_malformed_can_be_refused(gateway_factory, upstream, value):
    gateway = gateway_factory(upstream=upstream, deadline={"malformed": "reject"})
    answer = gateway.fetch(headers={"x-deadline-ms": value})
    assert (answer.status, answer.problem) == (400, "bad-request")
    assert upstream.requests == []
    assert gateway.metric("prazo_deadline_malformed_total") == 1


# C003
def test_c003_malformed_request_does_not_run_without_a_limit(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream, deadline="300ms")
    upstream.handler = hold
    with Stopwatch() as watch:
        assert gateway.fetch(headers={"x-deadline-ms": "abc"}).problem == "deadline-exceeded"
    watch.assert_between(284, 300 + LATE_MS)


@pytest.mark.parametrize("name, value", [
    ("grpc-timeout", "1X"), ("grpc-timeout", "123456789m"), ("grpc-timeout", "m"),
    ("grpc-timeout", "-1S"), ("x-timeout-ms", "abc"), ("x-timeout-ms", "1234567890"),
    ("x-timeout-ms", "-5"), ("x-envoy-expected-rq-timeout-ms", "1s")])
def test_malformed_durations_are_as_if_absent(gateway_factory, upstream, name, value):
    gateway = gateway_factory(upstream=upstream, deadline="2s")
    assert gateway.fetch(headers={name: value}).status == 200
    assert 1850 <= left_at(upstream.requests[0]) <= 1900
    assert gateway.metric("prazo_deadline_malformed_total") == 1


@pytest.mark.parametrize("sent", ["abc", "5000", "", "-1", "99999999999999"])
def test_unusable_sent_instant_is_as_if_absent(gateway_factory, upstream, sent):
    """The last one is later than the deadline."""
    gateway = gateway_factory(upstream=upstream)
    headers = {"x-deadline-ms": now_ms() + 1000, "x-deadline-sent-ms": sent}
    assert gateway.fetch(headers=headers).status == 200
    request = upstream.requests[0]
    assert 880 <= left_at(request) <= 951
    assert abs(int(request.header("x-deadline-sent-ms")) - request.received_ms) <= 50 * SLACK
    assert gateway.metric("prazo_clock_skew_total") == 0


def test_sent_instant_alone_says_nothing(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream, deadline="2s")
    gateway.fetch(headers={"x-deadline-sent-ms": now_ms() - DAY_MS})
    assert 1850 <= left_at(upstream.requests[0]) <= 1900
    assert gateway.metric("prazo_clock_skew_total") == 0


@pytest.mark.parametrize("lines", [
    lambda now: [("x-deadline-ms", now + 5000), ("x-deadline-ms", now + 1000)],
    lambda now: [("x-deadline-ms", f"{now + 1000},{now + 5000}")],
    lambda now: [("x-deadline-ms", f"{now + 5000} , {now + 1000}")],
    lambda now: [("x-deadline-ms", "abc"), ("x-deadline-ms", now + 1000)],
    lambda now: [("x-deadline-ms", now + 5000), ("grpc-timeout", "1000m")],
    lambda now: [("x-deadline-ms", now + 5000), ("x-timeout-ms", "1000")],
    lambda now: [("x-timeout-ms", "3000"), ("x-envoy-expected-rq-timeout-ms", "1000")],
    lambda now: [("grpc-timeout", "1S"), ("x-timeout-ms", "2000")],
    lambda now: [("grpc-timeout", "1000000u")],
])
def test_smallest_of_all_forms_wins(gateway_factory, upstream, lines):
    gateway = gateway_factory(upstream=upstream)
    assert gateway.fetch(headers=lines(now_ms())).status == 200
    request = upstream.requests[0]
    assert 880 <= left_at(request) <= 951
    assert request.header("x-timeout-ms") is None


@pytest.mark.parametrize("unit, left_ms", [("1H", 3_600_000), ("2M", 120_000), ("9S", 9000)])
def test_grpc_units(gateway_factory, upstream, unit, left_ms):
    gateway = gateway_factory(upstream=upstream, deadline={"default": "10s", "max": "2h"})
    gateway.fetch(headers={"grpc-timeout": unit})
    assert left_ms - 250 <= left_at(upstream.requests[0]) <= left_ms - 149


@pytest.mark.parametrize("name, value", [("x-timeout-ms", "0"), ("grpc-timeout", "0S")])
def test_duration_of_zero_has_expired(gateway_factory, upstream, name, value):
    gateway = gateway_factory(upstream=upstream)
    assert_expired_on_arrival(gateway, upstream, {name: value})


# ---- what is sent down ----

@pytest.mark.parametrize("margin, left_ms, kept_ms", [
    ("auto", 1000, 50), ("auto", 200, 10), ("auto", 60_000, 150), ("auto", 12, 1),
    ("30ms", 1000, 30), ("400ms", 1000, 400)])
def test_margin_is_kept_back(gateway_factory, upstream, margin, left_ms, kept_ms):
    gateway = gateway_factory(upstream=upstream, deadline={"max": "2m", "margin": margin})
    deadline = now_ms() + left_ms
    answer = gateway.fetch(headers={"x-deadline-ms": deadline})
    if answer.status == 504 and left_ms < 20:
        return  # the machine was busier than that
    sent_down = int(upstream.requests[0].header("x-deadline-ms"))
    # A twentieth of what was left on arrival, which is less than left_ms.
    assert kept_ms - 5 * SLACK <= deadline - sent_down <= kept_ms + 1


def test_nothing_is_sent_when_the_margin_is_all_that_is_left(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream, deadline={"margin": "300ms"})
    with Stopwatch() as watch:
        answer = gateway.fetch(headers={"x-deadline-ms": now_ms() + 250})
    watch.assert_between(0, 100)
    assert (answer.status, answer.problem) == (504, "deadline-exceeded")
    assert (answer.json["outcome"], answer.json["retry"]) == ("none", "same-key")
    assert upstream.connections == []


def test_answer_comes_between_deadline_minus_margin_and_deadline(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    upstream.handler = hold
    for left_ms, margin_ms in ((300, 15), (1000, 50)):
        with gateway.client() as client, Stopwatch() as watch:
            client.request("GET", "/", deadline_headers(left_ms))
            assert client.read_response().problem == "deadline-exceeded"
        watch.assert_between(left_ms - margin_ms - 2, left_ms + LATE_MS)


def test_deadline_goes_down_once_beside_the_senders_clock(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    headers = [("X-Deadline-Ms", now_ms() + 1000), ("X-Deadline-Sent-Ms", now_ms()),
               ("connection", "x-deadline-ms, x-deadline-sent-ms, x-attempt, close")]
    assert gateway.fetch(headers=headers).status == 200
    request = upstream.requests[0]
    assert 880 <= left_at(request) <= 951
    assert abs(int(request.header("x-deadline-sent-ms")) - request.received_ms) <= 50 * SLACK
    assert re.fullmatch("0-[0-9a-f]{16}", request.header("x-attempt"))


def test_foreign_clocks_get_a_duration(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream, app={"clock": "foreign"})
    for left_ms in (1000, 500):
        assert gateway.fetch(headers=deadline_headers(left_ms)).status == 200
        request = upstream.requests[-1]
        assert request.header("x-deadline-ms") is None
        assert request.header("x-deadline-sent-ms") is None
        assert left_ms * 0.95 - 50 * SLACK <= int(request.header("x-timeout-ms")) <= left_ms * 0.95


def test_grpc_gets_its_own_timeout_too(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    headers = {"content-type": "application/grpc", "te": "trailers", "grpc-timeout": "1S"}
    gateway.fetch(method="POST", headers=headers, body=b"")
    request = upstream.requests[0]
    number, unit = re.fullmatch("([0-9]{1,8})([HMSmun])", request.header("grpc-timeout")).groups()
    scale = {"H": 3.6e6, "M": 6e4, "S": 1000, "m": 1, "u": 1e-3, "n": 1e-6}[unit]
    assert 900 <= int(number) * scale <= 950
    assert 880 <= left_at(request) <= 951


def test_grpc_is_told_in_its_own_way(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    upstream.handler = hold
    headers = {"content-type": "application/grpc", "te": "trailers", "grpc-timeout": "200m"}
    answer = gateway.fetch(method="POST", headers=headers, body=b"")
    assert (answer.status, answer.header("grpc-status"), answer.body) == (200, "4", b"")


def test_timeout_for_others_is_not_passed_on(gateway_factory, upstream):
    """A copy of a client's duration would be too long by all the time that has gone."""
    gateway = gateway_factory(upstream=upstream)
    gateway.fetch(headers={"grpc-timeout": "1S", "x-timeout-ms": "1000",
                           "x-envoy-expected-rq-timeout-ms": "1000"})
    request = upstream.requests[0]
    for name in ("grpc-timeout", "x-timeout-ms", "x-envoy-expected-rq-timeout-ms"):
        assert request.header(name) is None, name


# ---- enforcement ----

# C005
def test_c005_deadline_is_enforced(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    upstream.handler = hold  # for longer than 5 s
    with gateway.client() as client:
        with Stopwatch() as watch:
            client.request("GET", "/", deadline_headers(300))
            answer = client.read_response()
        watch.assert_between(280, 300 + LATE_MS)
        assert (answer.status, answer.problem) == (504, "deadline-exceeded")
        assert (answer.json["outcome"], answer.json["retry"]) == ("none", "same-key")
        upstream.connections[0].wait_for_close(timeout=0.2)
        gateway.wait_metric("prazo_in_flight", 0, timeout=0.5, upstream="app")
        upstream.handler = 200
        assert client.request().read_response().status == 200  # the client's connection is fine
    assert gateway.metric("prazo_cancelled_total", cause="deadline") == 1


@pytest.mark.parametrize("method, outcome, retry", [
    ("GET", "none", "same-key"), ("HEAD", None, None), ("PUT", "unknown", "same-key"),
    ("DELETE", "unknown", "same-key"), ("POST", "unknown", "no"), ("PATCH", "unknown", "no")])
def test_expired_request_says_what_may_have_happened(gateway_factory, upstream, method, outcome,
                                                     retry):
    gateway = gateway_factory(upstream=upstream)
    upstream.handler = hold
    body = b"x" if method in ("PUT", "POST", "PATCH") else None
    answer = gateway.fetch(method=method, headers=deadline_headers(100), body=body)
    assert answer.status == 504
    if outcome:
        assert (answer.json["outcome"], answer.json["retry"]) == (outcome, retry)


# C008
def test_c008_expiry_client_and_upstream_are_told_apart(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)

    upstream.handler = hold
    assert gateway.fetch("/a", headers=deadline_headers(200)).problem == "deadline-exceeded"
    with gateway.client() as client:
        client.request("GET", "/b", deadline_headers(5000))
        upstream.wait_for_requests(2)
    upstream.connections[1].wait_for_close(1)
    upstream.handler = lambda conn, _: conn.reset()
    answer = gateway.fetch("/c", headers=deadline_headers(5000))
    assert (answer.status, answer.problem) == (502, "upstream-reset")

    lines = [gateway.wait_log(msg="request", path=path) for path in ("/a", "/b", "/c")]
    assert [line.get("status") for line in lines] == [504, None, 502]
    assert lines[0]["problem"] == "deadline-exceeded"
    assert lines[1]["cause"] == "client-gone"
    assert lines[2]["problem"] == "upstream-reset"
    gateway.wait_metric("prazo_in_flight", 0)
    metrics = gateway.metrics()
    assert metrics.value("prazo_requests_total", code="gone") == 1
    assert metrics.value("prazo_requests_total", code="5xx") == 2
    assert metrics.value("prazo_request_seconds_count", result="expired") == 1
    assert metrics.value("prazo_request_seconds_count", result="abandoned") == 1
    assert metrics.value("prazo_request_seconds_count", result="error") == 1
    assert metrics.value("prazo_cancelled_total", cause="deadline") == 1
    assert metrics.value("prazo_cancelled_total", cause="client-gone") == 1
    for result, count in (("reset", 1), ("cut", 2), ("error", 0), ("invalid", 0)):
        assert metrics.value("prazo_attempts_total", result=result) == count, result


def drip(conn, data, seconds=0.1):
    """A byte each 100 ms until the peer has hung up."""
    for byte in data:
        conn.send(bytes([byte]))
        with contextlib.suppress(AssertionError):
            conn.wait_for_close(seconds / SLACK)
            return


# C009
def test_c009_dripped_head_ends_at_the_deadline(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream, app={"read_timeout": "500ms"})
    upstream.handler = lambda conn, _: drip(conn, b"HTTP/1.1 200 OK\r\nx-long: " + b"a" * 200)
    with Stopwatch() as watch:
        answer = gateway.fetch(headers=deadline_headers(1000))
    watch.assert_between(945, 1000 + LATE_MS)
    assert (answer.status, answer.problem) == (504, "deadline-exceeded")


# C009
@pytest.mark.parametrize("framing", [b"content-length: 200", b"transfer-encoding: chunked"])
def test_c009_dripped_body_is_cut_at_the_deadline(gateway_factory, upstream, framing):
    gateway = gateway_factory(upstream=upstream, app={"read_timeout": "500ms"})
    body = b"a" * 200 if b"length" in framing else b"c8\r\n" + b"a" * 200 + b"\r\n0\r\n\r\n"

    def handler(conn, _request):
        conn.send(b"HTTP/1.1 200 OK\r\n" + framing + b"\r\n\r\n")
        drip(conn, body)
    upstream.handler = handler
    with gateway.client() as client, Stopwatch() as watch:
        client.request("GET", "/", deadline_headers(1000))
        with pytest.raises(Truncated) as cut:
            client.read_response()
    watch.assert_between(945, 1000 + LATE_MS)
    assert cut.value.message.status == 200
    assert gateway.wait_log(msg="request", status=200)["cause"] == "deadline-exceeded"
    gateway.wait_metric("prazo_in_flight", 0)


@pytest.mark.parametrize("begun", [False, True])
def test_silence_is_bounded_by_read_timeout(gateway_factory, upstream, begun):
    gateway = gateway_factory(upstream=upstream, app={"read_timeout": "200ms"})

    def handler(conn, _request):
        if begun:
            conn.send(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nab")
        conn.wait_for_close()
    upstream.handler = handler
    with gateway.client() as client, Stopwatch() as watch:
        client.request("GET", "/", deadline_headers(5000))
        if begun:
            with pytest.raises(Truncated):
                client.read_response()
        else:
            assert client.read_response().problem == "upstream-timeout"
    watch.assert_between(195, 200 + 2 * LATE_MS)
    upstream.connections[0].wait_for_close(0.2)
    assert gateway.metric("prazo_attempts_total", result="timeout") == 1


# C010
def test_c010_deadline_covers_a_slow_upload(gateway_factory, upstream_factory):
    upstream = upstream_factory(early=True, handler=lambda conn, request: conn.read_body(request))
    gateway = gateway_factory(upstream=upstream)
    with gateway.client() as client, Stopwatch() as watch:
        client.send(f"POST /up HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000\r\n"
                    f"x-deadline-ms: {now_ms() + 2000}\r\n\r\n")
        while not select.select([client.sock], [], [], 0.1)[0]:
            client.send(b"x" * 1000)  # 10 kB/s
        answer = client.read_response("POST")
        watch.assert_between(1890, 2000 + LATE_MS)
        assert (answer.status, answer.problem) == (504, "deadline-exceeded")
        assert answer.header("connection") == "close"
        assert client.recv_end(timeout=3) == "fin"
    upstream.connections[0].wait_for_close(0.2)
    gateway.wait_metric("prazo_in_flight", 0)
    assert 10_000 <= len(upstream.connections[0].received) <= 30_000


def test_deadline_of_a_head_leaves_the_body_to_the_stream_bounds(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream, routes=[
        {"path": "/*", "deadline": {"max": "300ms", "covers": "head"},
         "stream": {"idle": "400ms"}}])
    sent = []

    def handler(conn, _request):
        conn.respond_chunked([b"a"], end=False)
        with contextlib.suppress(AssertionError):
            conn.wait_for_close(0.35 / SLACK)
        conn.send_chunk(b"b")
        sent.append(time.monotonic())
        conn.wait_for_close()
    upstream.handler = handler
    with gateway.client() as client:
        with pytest.raises(Truncated) as cut:
            client.request("GET", "/").read_response()
        ended = time.monotonic()
    assert cut.value.message.body == b"ab"
    assert 0.39 <= ended - sent[0] <= (0.4 + LATE_MS / 1000) * SLACK


# ---- long ones ----

# C094
def test_c094_long_deadlines_do_not_fire_at_once(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream, deadline={"max": "720h"})
    let_go = threading.Event()
    upstream.handler = lambda conn, _: conn.hold(let_go) and conn.respond(200)
    clients = []
    for left_ms in (2**31 - 1, 2**31, 2**32 + 5000, 30 * DAY_MS):
        clients.append(RawClient(gateway).request("GET", "/", deadline_headers(left_ms)))
    for value in ("999999999", "2147483"):
        clients.append(RawClient(gateway).request("GET", "/", {"x-timeout-ms": value}))
    clients.append(RawClient(gateway).request("GET", "/", {"grpc-timeout": "700H"}))
    upstream.wait_for_requests(len(clients))
    clients[0].expect_silence(1.0)
    for client in clients[1:]:
        client.expect_silence(0)
    far = sorted(left_at(request) for request in upstream.requests)
    assert 30 * DAY_MS - 20_000 <= far[-1] <= 30 * DAY_MS
    let_go.set()
    assert [client.read_response().status for client in clients] == [200] * len(clients)
    for client in clients:
        client.close()
    wait_until(lambda: gateway.metric("prazo_requests_total", code="2xx") == len(clients))
