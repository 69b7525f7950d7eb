# SPDX-License-Identifier: MIT
"""What belongs to one connection stays on it; what prazo writes itself is written once
(contract 2.1, 2.3, 13)."""

import re

import pytest

from support import chunk, deadline_headers, free_address, now_ms

HOP = ("connection", "keep-alive", "te", "proxy-connection", "transfer-encoding", "upgrade")


def names(message):
    return {name for name, _ in message.headers}


def head(*lines, status="200 OK"):
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode("latin-1")


# ---- Connection ----

CONNECTION = {
    "one line": [("Connection", "X-Hop, keep-alive"), ("X-Hop", "1")],
    "no blanks": [("Connection", "X-Hop,keep-alive"), ("X-Hop", "1")],
    "behind what it names": [("X-Hop", "1"), ("Connection", "x-hop")],
    "several lines": [("Connection", "keep-alive"), ("X-Hop", "1"), ("CONNECTION", "X-HOP")],
    "empty items": [("Connection", ", ,x-hop ,,"), ("X-Hop", "1")],
    "named twice": [("Connection", "x-hop, x-hop"), ("X-Hop", "1"), ("x-hop", "2")],
    "with close": [("Connection", "close, X-Hop"), ("X-Hop", "1")],
}
ALWAYS = [("TE", "trailers"), ("Keep-Alive", "timeout=5"), ("Proxy-Connection", "x"),
          ("X-Stay", "1")]


# C072
@pytest.mark.parametrize("lines", CONNECTION.values(), ids=CONNECTION.keys())
def test_c072_hop_by_hop_fields_of_requests(gateway_factory, upstream, lines):
    gateway = gateway_factory(upstream=upstream)
    answer = gateway.fetch(headers=[("host", "h"), *lines, *ALWAYS])
    assert answer.status == 200
    request = upstream.requests[0]
    assert not names(request) & {*HOP, "x-hop"}, request.headers
    assert request.header("x-stay") == "1"


# C072
@pytest.mark.parametrize("lines", CONNECTION.values(), ids=CONNECTION.keys())
def test_c072_hop_by_hop_fields_of_answers(gateway_factory, upstream, lines):
    gateway = gateway_factory(upstream=upstream)
    upstream.handler = (200, b"ok", [*lines, *ALWAYS])
    with gateway.client() as client:
        answer = client.request().read_response()
        assert not names(answer) & {*HOP, "x-hop"}, answer.headers
        assert answer.header("x-stay") == "1"
        # ours stays open whatever theirs does
        assert client.request().read_response().status == 200


# C072
def test_c072_fields_named_of_informational_answers(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    upstream.handler = (head("link: </a>", "x-hop: 1", "connection: x-hop", status="103 Early") +
                        head("content-length: 0"))
    early = gateway.fetch().informational[0]
    assert early.status == 103
    assert not names(early) & {*HOP, "x-hop"}
    assert early.header("link") == "</a>"


# C072
def test_c072_naming_what_matters_changes_nothing(gateway_factory, upstream):
    """Framing, Host and prazo's own fields are made anew after the removal."""
    gateway = gateway_factory(upstream=upstream)
    answer = gateway.fetch(method="POST", body=b"hello", headers=[
        ("host", "a.example"),
        ("connection", "content-length, host, x-deadline-ms, x-request-id, via"),
        ("x-request-id", "abc"), *deadline_headers(3000).items()])
    assert answer.status == 200
    request = upstream.requests[0]
    assert (request.header("content-length"), request.body) == ("5", b"hello")
    assert request.header("host") == "a.example"
    assert request.header("x-request-id")
    assert request.header("via").startswith("1.1 prazo-")
    assert 0 < int(request.header("x-deadline-ms")) - now_ms() <= 3000


# ---- trailers ----

# C073
@pytest.mark.parametrize("is_repeated", [False, True])
@pytest.mark.parametrize("te", ["trailers", "gzip;q=0.5, Trailers", None])
def test_c073_trailers(gateway_factory, upstream, is_repeated, te):
    """They reach whoever said TE: trailers, as trailers, in a first attempt and in its repeat."""
    gateway = gateway_factory(upstream=upstream)
    if is_repeated:
        gateway.fetch()
        upstream.script(lambda conn, request: conn.reset())
    upstream.handler = lambda conn, request: conn.respond_chunked(
        [b"abc"], headers={"trailer": "X-Sum"}, trailers={"X-Sum": "9", "x-other": ""})
    answer = gateway.fetch(headers={"te": te} if te else None)
    assert answer.body == b"abc"
    assert answer.header("x-sum") is None
    assert answer.trailers == ([("x-sum", "9"), ("x-other", "")] if te else [])
    assert len(upstream.requests) == (3 if is_repeated else 1)


def test_trailers_that_may_not_be_trailers_are_dropped(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    upstream.handler = lambda conn, request: conn.respond_chunked([b"abc"], trailers=[
        ("content-length", "5"), ("transfer-encoding", "chunked"), ("host", "x"), ("x-sum", "9"),
        ("connection", "close"), ("prazo-result", "none;retry=no;spent=9;for=0123456789abcdef")])
    with gateway.client() as client:
        for _ in range(2):
            answer = client.request(headers={"te": "trailers"}).read_response()
            assert answer.trailers == [("x-sum", "9")]


def test_trailers_of_requests_never_become_headers(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    with gateway.client() as client:
        client.request("POST", headers={"transfer-encoding": "chunked"})
        client.send(chunk(b"abc"))
        client.send_last_chunk({"x-sum": "9", "x-deadline-ms": "1", "content-length": "5"})
        assert client.read_response().status == 200
    request = upstream.requests[0]
    assert request.body == b"abc"
    assert request.header("x-sum") is None
    assert {name for name, _ in request.trailers} <= {"x-sum"}


# ---- fields that prazo writes ----

def test_via_is_appended_to_requests(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    answer = gateway.fetch(headers=[("host", "h"), ("via", "1.0 a, 1.1 b (comment)"),
                                    ("Via", "2 c")])
    assert answer.status == 200
    assert answer.header("via") is None
    items = re.split(r",\s*", ", ".join(upstream.requests[0].header_all("via")))
    assert items[:3] == ["1.0 a", "1.1 b (comment)", "2 c"]
    assert re.fullmatch(r"1\.1 prazo-[0-9a-f]{8}", items[3])


def test_requests_that_go_in_circles_are_refused(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    gateway.fetch()
    own = upstream.requests[0].header("via")
    once = gateway.fetch(headers={"via": f"1.1 other, {own}"})
    assert once.status == 200
    for via in (f"{own}, {own}", f"{own}, 1.1 other, {own}", ", ".join(["1.1 x"] * 20)):
        answer = gateway.fetch(headers={"via": via})
        assert (answer.status, answer.problem) == (508, "loop-detected")
    assert gateway.fetch(headers={"via": ", ".join(["1.1 x"] * 19)}).status == 200
    assert len(upstream.requests) == 3


def test_a_gateway_in_front_of_itself_notices(gateway_factory):
    address = free_address()
    gateway = gateway_factory(upstream=address, listen=address)
    answer = gateway.fetch(headers=deadline_headers(3000))
    assert (answer.status, answer.problem) == (508, "loop-detected")


def test_request_ids_are_passed_on_or_made(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    answer = gateway.fetch(headers={"x-request-id": "a-b_c.1"})
    assert answer.header("x-request-id") == "a-b_c.1"
    assert upstream.requests[0].header("x-request-id") == "a-b_c.1"
    for sent in ({}, {"x-request-id": ""}, {"x-request-id": "x" * 129}, {"x-request-id": "a b"}):
        made = gateway.fetch(headers=sent).header("x-request-id")
        assert re.fullmatch("[0-9a-f]{32}", made)
        assert upstream.requests[-1].header("x-request-id") == made


def test_own_fields_are_replaced_never_joined(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    assert gateway.fetch(headers=[
        ("host", "h"), ("x-attempt", "3-0123456789abcdef"), ("x-retry-budget", "7"),
        ("x-retry-budget", "8"), *deadline_headers(3000).items(),
        ("X-Deadline-Ms", str(now_ms() + 2000))]).status == 200
    request = upstream.requests[0]
    assert re.fullmatch("0-[0-9a-f]{16}", request.header("x-attempt"))
    assert request.header("x-attempt") != "3-0123456789abcdef"
    assert request.header("x-retry-budget") == "0"
    assert 0 < int(request.header("x-deadline-ms")) - now_ms() <= 2000
    assert int(request.header("x-deadline-sent-ms")) <= now_ms()


@pytest.mark.parametrize("trust", ["all", "none"])
def test_forwarded_fields_by_trust(gateway_factory, upstream, trust):
    gateway = gateway_factory(upstream=upstream, listen={"trust": trust})
    assert gateway.fetch(headers=[
        ("host", "a.example"), ("x-forwarded-for", "10.0.0.1"), ("x-forwarded-for", "10.0.0.2"),
        ("x-forwarded-proto", "https"), ("x-forwarded-host", "shop.example"),
        ("x-forwarded-port", "443"), ("forwarded", "for=10.0.0.1"),
        ("prazo-secret", "1"), ("x-envoy-internal", "1")]).status == 200
    request = upstream.requests[0]
    if trust == "all":
        assert request.header("x-forwarded-for") == "10.0.0.1, 10.0.0.2, 127.0.0.1"
        assert request.header("x-forwarded-proto") == "https"
        assert request.header("x-forwarded-host") == "shop.example"
        assert request.header("forwarded") == "for=10.0.0.1"
    else:
        assert request.header("x-forwarded-for") == "127.0.0.1"
        assert request.header("x-forwarded-proto") == "http"
        assert request.header("x-forwarded-host") == "a.example"
        assert not names(request) & {"forwarded", "x-forwarded-port", "prazo-secret",
                                     "x-envoy-internal"}


def test_trace_context_passes_unchanged_and_is_never_made(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    trace = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
             "tracestate": "a=1,b=2"}
    gateway.fetch(headers=trace)
    gateway.fetch()
    assert {name: upstream.requests[0].header(name) for name in trace} == trace
    assert not names(upstream.requests[1]) & set(trace)


def test_own_fields_of_answers_are_not_the_upstream_s(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    upstream.handler = (200, b"ok", [("prazo-result", "none;retry=no;spent=0;for=0123456789abcdef"),
                                     ("prazo-effect", "none"), ("x-request-id", "other"),
                                     ("server", "own"), ("date", "Thu, 01 Jan 1970 00:00:00 GMT")])
    answer = gateway.fetch(headers={"x-request-id": "mine"})
    assert not names(answer) & {"prazo-result", "prazo-effect"}
    assert answer.header("x-request-id") == "mine"
    assert answer.header("server") == "own"
    assert answer.header("date") == "Thu, 01 Jan 1970 00:00:00 GMT"


@pytest.mark.parametrize("mode,wanted", [("keep", "a.example"), ("server", None),
                                         ("b.example", "b.example")])
def test_host_modes(gateway_factory, upstream, mode, wanted):
    gateway = gateway_factory(upstream=upstream, app={"host": mode})
    gateway.fetch(headers={"host": "a.example"})
    assert upstream.requests[0].header("host") == (wanted or upstream.address)
