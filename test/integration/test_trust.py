# SPDX-License-Identifier: MIT
"""Who is believed what: listen.trust, and headers that prazo writes itself (contract 2.1, 2.3)."""

import re

import pytest

from support import (RawClient, Stopwatch, deadline_headers, free_address, now_ms,
                     release_address)

HEX32 = re.compile("[0-9a-f]{32}")


def hold(conn, _request):
    conn.wait_for_close()


def left_at(request):
    return int(request.header("x-deadline-ms")) - request.received_ms


# ---- deadlines ----

# C004
@pytest.mark.parametrize("trust", ["none", "all"])
@pytest.mark.parametrize("given_ms, left_ms", [(1000, 950), (60_000, 1900), (None, 1900)])
def test_c004_a_caller_can_shorten_never_lengthen(gateway_factory, upstream, trust, given_ms,
                                                  left_ms):
    gateway = gateway_factory(upstream=upstream, listen={"trust": trust},
                              routes=[{"path": "/*", "deadline": "2s"}])
    headers = {"x-deadline-ms": now_ms() + given_ms} if given_ms else {}
    assert gateway.fetch(headers=headers).status == 200
    request = upstream.requests[0]
    assert len(request.header_all("x-deadline-ms")) == 1
    assert left_ms - 70 <= left_at(request) <= left_ms + 1


# C004
def test_c004_default_of_a_route_and_its_maximum_differ(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream, routes=[
        {"path": "/*", "deadline": {"default": "1s", "max": "2s"}}])
    gateway.fetch()
    gateway.fetch(headers=deadline_headers(60_000))
    assert 880 <= left_at(upstream.requests[0]) <= 951
    assert 1830 <= left_at(upstream.requests[1]) <= 1901


def test_untrusted_senders_clock_is_not_believed(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream, listen={"trust": "none"})
    sent = now_ms() - 60_000
    answer = gateway.fetch(headers={"x-deadline-ms": sent + 5000, "x-deadline-sent-ms": sent})
    assert (answer.status, answer.problem) == (504, "deadline-exceeded")
    assert upstream.connections == []


@pytest.mark.parametrize("name, value", [
    ("x-timeout-ms", "200"), ("x-envoy-expected-rq-timeout-ms", "200"), ("grpc-timeout", "200m")])
def test_untrusted_durations_are_honoured(gateway_factory, upstream, name, value):
    gateway = gateway_factory(upstream=upstream, listen={"trust": "none"})
    upstream.handler = hold
    with Stopwatch() as watch:
        assert gateway.fetch(headers={name: value}).problem == "deadline-exceeded"
    watch.assert_between(185, 270)


# ---- what is removed ----

PRIVATE = {
    "x-retry-budget": "99", "x-attempt": "7-00000000000000ff", "prazo-result": "passed;spent=1",
    "prazo-effect": "none", "prazo-anything": "1", "x-envoy-original-path": "/e",
    "x-envoy-max-retries": "9", "forwarded": "for=10.9.9.9", "x-forwarded-for": "10.9.9.9",
    "x-forwarded-proto": "https", "x-forwarded-host": "evil.example", "x-forwarded-port": "444",
    "x-forwarded-prefix": "/p",
}


def test_private_headers_of_untrusted_peers_are_removed(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream, listen={"trust": "none"})
    gateway.fetch(headers={**PRIVATE, "x-deadline-sent-ms": now_ms() - 60_000, "x-plain": "1"})
    request = upstream.requests[0]
    for name, value in PRIVATE.items():
        assert value not in request.header_all(name), name
    assert request.header("x-plain") == "1"
    assert request.header("x-forwarded-for") == "127.0.0.1"
    assert request.header("x-forwarded-proto") == "http"
    assert request.header("x-forwarded-host") == "test.example"
    assert request.header("x-retry-budget", "0") == "0"
    assert re.fullmatch("0-[0-9a-f]{16}", request.header("x-attempt"))
    assert abs(int(request.header("x-deadline-sent-ms")) - request.received_ms) < 1000


def test_forwarded_headers_of_trusted_peers_are_continued(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    gateway.fetch(headers=[*PRIVATE.items(), ("x-forwarded-for", "10.8.8.8, 10.7.7.7")])
    request = upstream.requests[0]
    assert request.header("x-forwarded-for") == "10.9.9.9, 10.8.8.8, 10.7.7.7, 127.0.0.1"
    assert request.header("x-forwarded-proto") == "https"
    assert request.header("x-forwarded-host") == "evil.example"
    assert request.header("forwarded") == "for=10.9.9.9"
    assert request.header("x-envoy-original-path") == "/e"
    assert request.header("x-attempt") != PRIVATE["x-attempt"]


@pytest.mark.parametrize("source, trusted", [("127.0.0.5", True), ("127.0.0.6", False),
                                             ("127.1.200.9", True)])
def test_networks_are_trusted(gateway_factory, upstream, source, trusted):
    gateway = gateway_factory(upstream=upstream,
                              listen={"trust": ["127.0.0.5/32", "127.1.0.0/16", "fd00::/8"]})
    with RawClient(gateway, source=(source, 0)) as client:
        client.request(headers={"x-forwarded-for": "10.9.9.9"}).read_response()
    expected = f"10.9.9.9, {source}" if trusted else source
    assert upstream.requests[0].header("x-forwarded-for") == expected


@pytest.mark.parametrize("family, peer", [("ipv4", "127.0.0.1"), ("ipv6", "::1")])
def test_loopback_is_trusted_by_default(gateway_factory, upstream, family, peer):
    gateway = gateway_factory(upstream=upstream, listen=family)
    gateway.fetch(headers={"x-forwarded-for": "10.9.9.9"})
    assert upstream.requests[0].header("x-forwarded-for") == f"10.9.9.9, {peer}"


def test_trust_is_each_listeners_own(gateway_factory, upstream):
    other = free_address()
    gateway = gateway_factory(upstream=upstream, listen=[
        {"name": "inner", "trust": "all"},
        {"name": "outer", "address": other, "trust": "none"}])
    try:
        for address in (gateway.address, other):
            with RawClient(address) as client:
                client.request(headers={"x-forwarded-for": "10.9.9.9"}).read_response()
    finally:
        release_address(other)
    assert [request.header("x-forwarded-for") for request in upstream.requests] == [
        "10.9.9.9, 127.0.0.1", "127.0.0.1"]


# ---- headers of prazo's own ----

def test_own_headers_survive_hop_by_hop_removal(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    gateway.fetch(headers=[
        ("connection", "x-deadline-ms, X-Deadline-Sent-Ms, x-attempt"),
        ("connection", "x-retry-budget, via, x-request-id, x-forwarded-for, x-named"),
        ("x-named", "1"), ("x-request-id", "abc"), ("x-deadline-ms", now_ms() + 1000)])
    request = upstream.requests[0]
    for name in ("x-deadline-ms", "x-deadline-sent-ms", "x-attempt", "via", "x-request-id",
                 "x-forwarded-for"):
        assert len(request.header_all(name)) == 1, name
    assert request.header("x-named") is None


def test_clients_copies_are_replaced_never_joined(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    now = now_ms()
    gateway.fetch(headers=[
        ("x-deadline-ms", now + 1000), ("X-DEADLINE-MS", now + 2000), ("x-deadline-sent-ms", now),
        ("x-deadline-sent-ms", now), ("x-attempt", "3-00000000000000aa"), ("x-retry-budget", "7"),
        ("x-request-id", "one"), ("x-request-id", "two")])
    request = upstream.requests[0]
    for name in ("x-deadline-ms", "x-deadline-sent-ms", "x-attempt", "x-request-id"):
        assert len(request.header_all(name)) == 1, name
    assert "," not in request.header("x-attempt")
    assert request.header("x-retry-budget", "0") == "0"


def test_attempt_id_is_new_for_every_request(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    for _ in range(20):
        gateway.fetch(headers={"x-attempt": "1-00000000000000aa"})
    ids = {request.header("x-attempt") for request in upstream.requests}
    assert len(ids) == 20
    assert all(re.fullmatch("0-[0-9a-f]{16}", one) for one in ids)


@pytest.mark.parametrize("given", ["a", "!~{}\"", "x" * 128])
def test_request_id_is_passed_on(gateway_factory, upstream, given):
    gateway = gateway_factory(upstream=upstream)
    answer = gateway.fetch(headers={"x-request-id": given})
    assert upstream.requests[0].header("x-request-id") == given
    assert answer.header("x-request-id") == given
    assert gateway.wait_log(msg="request", request_id=given)["status"] == 200


@pytest.mark.parametrize("given", [None, "", "x" * 129, "with blank", "caf\xe9"])
def test_request_id_is_made_where_none_will_do(gateway_factory, upstream, given):
    gateway = gateway_factory(upstream=upstream)
    headers = {} if given is None else {"x-request-id": given}
    ids = [gateway.fetch(headers=headers).header("x-request-id") for _ in range(2)]
    assert all(HEX32.fullmatch(one) for one in ids) and ids[0] != ids[1]
    assert [request.header("x-request-id") for request in upstream.requests] == ids


def test_trace_context_passes_unchanged_and_is_never_made(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    gateway.fetch(headers={"traceparent": parent, "tracestate": "a=1,b=2"})
    gateway.fetch()
    first, second = upstream.requests
    assert (first.header("traceparent"), first.header("tracestate")) == (parent, "a=1,b=2")
    assert second.header("traceparent") is None and second.header("tracestate") is None


# ---- via ----

def own_via(gateway, upstream):
    gateway.fetch()
    return upstream.requests[-1].header("via")


def test_via_is_appended_with_the_received_version(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    own = own_via(gateway, upstream)
    assert re.fullmatch("1\\.1 prazo-[0-9a-f]{8}", own)
    gateway.fetch(headers={"via": "1.1 a, 1.0 b"})
    joined = ", ".join(upstream.requests[-1].header_all("via"))
    assert joined == f"1.1 a, 1.0 b, {own}"
    with gateway.client() as client:
        client.request("GET", "/", version="1.0").read_response()
    assert upstream.requests[-1].header("via") == own.replace("1.1", "1.0", 1)


def test_loops_are_detected(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    own = own_via(gateway, upstream)
    assert gateway.fetch(headers={"via": own}).status == 200
    for lines in ([("via", f"{own}, {own}")], [("via", own), ("via", f"1.1 a,{own} (again)")]):
        answer = gateway.fetch(headers=lines)
        assert (answer.status, answer.problem) == (508, "loop-detected")
        assert (answer.json["outcome"], answer.json["retry"]) == ("none", "no")
    others = [f"1.1 hop-{i}" for i in range(20)]
    assert gateway.fetch(headers={"via": ", ".join(others[:19])}).status == 200
    assert gateway.fetch(headers={"via": ", ".join(others)}).problem == "loop-detected"
    assert gateway.fetch(headers=[("via", hop) for hop in others]).problem == "loop-detected"
    assert len(upstream.requests) == 3


def test_gateway_in_front_of_itself_stops(gateway_factory):
    address = free_address()
    try:
        gateway = gateway_factory(upstream=address, listen=address)
        answer = gateway.fetch()
        assert (answer.status, answer.problem) == (508, "loop-detected")
        gateway.wait_metric("prazo_requests_total", 3)
    finally:
        release_address(address)
