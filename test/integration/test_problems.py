# SPDX-License-Identifier: MIT
"""Answers that prazo makes itself (contract 3, RFC 9457): every kind of this version is provoked
and looked at, for a reader of JSON, for HEAD, and for a caller that did not ask for JSON."""

import json
import re
import signal
import urllib.parse

import pytest

from support import ConnectionEnded, chunk, deadline_headers, free_address, now_ms

MEMBERS = {"type", "title", "status", "detail", "instance", "outcome", "retry", "reason",
           "retry_after_ms"}


def hang(conn, _request):
    conn.wait_for_close()


def reset(conn, _request):
    conn.reset()


class Kind:
    """One way to provoke one problem. headers, target and body make the request; raw replaces all
    of it; keys configure the gateway, handler the upstream."""

    def __init__(self, name, status, outcome="none", retry="after-fix", **how):
        self.name, self.status, self.outcome, self.retry = name, status, outcome, retry
        self.how = how

    def start(self, gateway_factory, upstream):
        keys = dict(self.how.get("keys", {}))
        upstream.handler = self.how.get("handler", upstream.handler)
        keys.setdefault("upstream", upstream)
        return gateway_factory(**keys)

    def provoke(self, client, method="GET", extra=None):
        raw = self.how.get("raw")
        if raw is not None:
            lines = "".join(f"{name}: {value}\r\n" for name, value in (extra or {}).items())
            client.send(raw(method, lines))
            return client.read_response(method)
        make = self.how.get("headers", dict)
        return client.request(method, self.how.get("target", "/"),
                              {**make(), **(extra or {})}).read_response()


def start_line(line):
    return lambda method, lines: line.format(method=method) + f"Host: h\r\n{lines}\r\n"


KINDS = [
    Kind("bad-request", 400, raw=start_line("{method} / HTTP/1.1\r\nX : y\r\n")),
    Kind("bad-request", 400, target="/a//b",
         keys={"routes": [{"path": "/*", "methods": ["GET", "HEAD"]}]}),
    Kind("bad-request", 400, headers=lambda: {"x-deadline-ms": "abc"},
         keys={"deadline": {"malformed": "reject"}}),
    Kind("no-route", 404, keys={"routes": [{"path": "/a"}]}),
    Kind("method-not-allowed", 405, keys={"routes": [{"path": "/", "methods": ["POST"]}]}),
    Kind("request-timeout", 408, retry="same-key", keys={"limits": {"header_time": "200ms"}},
         raw=lambda method, lines: f"{method} / HTTP/1.1\r\nHost: h\r\n{lines}"),
    Kind("body-too-large", 413, keys={"limits": {"body": "1KiB"}},
         raw=lambda method, lines: f"{method} / HTTP/1.1\r\nHost: h\r\n{lines}"
                                   "Content-Length: 2000\r\n\r\n"),
    Kind("uri-too-long", 414, target="/" + "x" * 9000),
    Kind("expectation-failed", 417, headers=lambda: {"expect": "more"}),
    Kind("header-too-large", 431, headers=lambda: {"x": "y" * 40_000}),
    Kind("not-implemented", 501,
         raw=start_line("{method} / HTTP/1.1\r\nTransfer-Encoding: br\r\n")),
    Kind("version-not-supported", 505, raw=start_line("{method} / HTTP/1.2\r\n")),
    Kind("loop-detected", 508, retry="no", headers=lambda: {"via": ", ".join(["1.1 x"] * 20)}),
    Kind("upstream-unreachable", 502, retry="same-key", keys={"upstream": free_address()}),
    Kind("upstream-reset", 502, retry="same-key", handler=reset),
    Kind("upstream-invalid-response", 502, retry="same-key", handler=b"HTTP/1.1 nonsense\r\n\r\n"),
    Kind("upstream-timeout", 504, retry="same-key", handler=hang,
         keys={"app": {"read_timeout": "200ms"}}),
    Kind("deadline-exceeded", 504, retry="same-key", handler=hang,
         headers=lambda: deadline_headers(300)),
    Kind("deadline-exceeded", 504, retry="same-key",
         headers=lambda: {"x-deadline-ms": str(now_ms() - 10)}),
]
IDS = [f"{kind.name}-{number}" for number, kind in enumerate(KINDS)]


def instance_of(request_id):
    return "urn:prazo:request:" + urllib.parse.quote(request_id, safe="-._~")


def assert_problem(answer, kind, secrets):
    """The document says the same as the answer, everything that it must, and nothing else."""
    assert answer.status == kind.status, answer
    assert answer.header("content-type") == "application/problem+json"
    assert answer.header("cache-control") == "no-store"
    request_id = answer.header("x-request-id")
    document = json.loads(answer.body.decode("utf-8"))
    assert set(document) <= MEMBERS
    assert document["type"] == f"urn:prazo:problem:{kind.name}"
    assert document["status"] == kind.status
    assert document["title"] and isinstance(document["title"], str)
    assert document["instance"] == instance_of(request_id)
    assert (document["outcome"], document["retry"]) == (kind.outcome, kind.retry)
    text = answer.text.replace(request_id, "")
    for secret in secrets:
        assert secret not in text, f"{secret} in {text}"
    assert not re.search(r"127\.0\.0\.1|\.c:\d|/tmp|0x[0-9a-f]{6}|errno|SELECT", text)


# C060
@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_c060_each_kind(gateway_factory, upstream, kind):
    gateway = kind.start(gateway_factory, upstream)
    secrets = [upstream.address, upstream.address.rsplit(":", 1)[1], gateway.address, gateway.path,
               '"app"']
    with gateway.client() as client:
        answer = kind.provoke(client)
    assert_problem(answer, kind, secrets)
    assert int(answer.header("content-length")) == len(answer.body)
    assert gateway.admin(f"/problems/{kind.name}").status == 200
    gateway.terminate()  # writes what is left of the log
    line, = gateway.logs(msg="request", problem=kind.name)
    assert line["request_id"] == answer.header("x-request-id")


# C060
@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_c060_head_has_no_body(gateway_factory, upstream, kind):
    gateway = kind.start(gateway_factory, upstream)
    with gateway.client() as client:
        answer = kind.provoke(client, "HEAD")
        assert (answer.status, answer.body) == (kind.status, b"")
        assert answer.header("content-type") == "application/problem+json"
        assert answer.header("cache-control") == "no-store"
        # nothing of a body comes behind it either
        if answer.header("connection") == "close":
            try:
                assert client.recv_all() == b""
            except ConnectionEnded as ended:
                assert ended.got == b""
        else:
            upstream.handler = "fine"
            assert client.request("HEAD", "/again").read_response().body == b""


# C060
@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_c060_accept_changes_nothing(gateway_factory, upstream, kind):
    gateway = kind.start(gateway_factory, upstream)
    with gateway.client() as client:
        answer = kind.provoke(client, extra={"accept": "text/html, */*;q=0.1"})
    assert_problem(answer, kind, [upstream.address])


# C060
def test_c060_draining(gateway_factory, upstream):
    upstream.handler = hang
    gateway = gateway_factory(upstream=upstream, shutdown={"delay": "1ms", "drain": "300ms"})
    with gateway.client() as client:
        client.request()
        upstream.wait_for_requests(1)
        gateway.signal(signal.SIGTERM)
        answer = client.read_response()
        assert_problem(answer, Kind("draining", 503, retry="same-key"), [upstream.address])
        assert int(answer.header("retry-after")) >= 1
        assert answer.json["retry_after_ms"] >= 1000
        assert answer.header("connection") == "close"
    assert gateway.wait() == 0


ODD_TARGETS = ['/"quoted"', "/'", "/<script>", "/{}", "/%00%01%ff", "/\\u0000", "/a?b=\"\\", "/%",
               "/|^`"]


# C060
@pytest.mark.parametrize("target", ODD_TARGETS)
def test_c060_odd_paths_leave_the_document_valid(gateway_factory, upstream, target):
    gateway = gateway_factory(upstream=upstream, routes=[{"path": "/nothing"}])
    answer = gateway.fetch(target)
    assert_problem(answer, Kind("no-route", 404), ["script", "quoted"])
    gateway.terminate()
    assert len(gateway.logs(msg="request", status=404)) == 1  # a line of valid JSON too


# C060
@pytest.mark.parametrize("target", [b"/\xff\xfe", b"/\xc3\xa9", b"/a\x01b", b"/\x7f", b"/\x00",
                                    b"/\x1b[31m"])
def test_c060_bytes_that_are_no_path(gateway_factory, upstream, target):
    gateway = gateway_factory(upstream=upstream)
    with gateway.client() as client:
        client.send(b"GET " + target + b" HTTP/1.1\r\nHost: h\r\n\r\n")
        answer = client.read_response()
    assert_problem(answer, Kind("bad-request", 400), [])
    gateway.terminate()
    assert len(gateway.logs(msg="request", status=400)) == 1


# C060
def test_c060_request_ids_are_percent_encoded(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream, routes=[{"path": "/nothing"}])
    refused = "a\xe9"  # not visible ASCII: replaced, not repaired
    assert gateway.fetch(headers={"x-request-id": refused}).header("x-request-id") != refused
    request_id = "a\"b\\c<d>%/?#'~-._"
    answer = gateway.fetch(headers={"x-request-id": request_id})
    assert answer.header("x-request-id") == request_id
    assert answer.json["instance"] == instance_of(request_id)
    gateway.terminate()
    assert len(gateway.logs(msg="request", request_id=request_id)) == 1


def test_types_can_have_a_base(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream, routes=[{"path": "/nothing"}],
                              problems={"base_url": "https://shop.example/problems/"})
    assert gateway.fetch().json["type"] == "https://shop.example/problems/no-route"


def test_methods_that_are_allowed_are_named(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream,
                              routes=[{"path": "/a", "methods": ["GET", "POST"]}])
    answer = gateway.fetch("/a", "DELETE")
    assert (answer.status, answer.problem) == (405, "method-not-allowed")
    assert set(answer.header("allow").replace(" ", "").split(",")) >= {"GET", "POST"}
    assert "DELETE" not in answer.header("allow")


# ---- outcome and retry ----

SENT = [("GET", "none", "same-key"), ("HEAD", "none", "same-key"), ("OPTIONS", "none", "same-key"),
        ("PUT", "unknown", "same-key"), ("DELETE", "unknown", "same-key"),
        ("POST", "unknown", "no"), ("PATCH", "unknown", "no")]


def result_of(answer):
    """The outcome and retry of prazo-result, which HEAD shows too."""
    match = re.fullmatch(r"([a-z-]+);retry=([a-z-]+);spent=0;for=0123456789abcdef",
                         answer.header("prazo-result"))
    assert match, answer.header("prazo-result")
    return match.groups()


@pytest.mark.parametrize("method,outcome,retry", SENT)
@pytest.mark.parametrize("handler,problem", [
    (reset, "upstream-reset"), (b"nonsense\r\n\r\n", "upstream-invalid-response"),
    (hang, "deadline-exceeded"),
])
def test_what_is_said_after_a_byte_was_sent(gateway_factory, upstream, handler, problem, method,
                                            outcome, retry):
    gateway = gateway_factory(upstream=upstream)
    upstream.handler = handler
    answer = gateway.fetch(method=method, headers=deadline_headers(
        300, attempt="0-0123456789abcdef"))
    assert answer.status in (502, 504)
    assert result_of(answer) == (outcome, retry)
    if method != "HEAD":
        assert answer.problem == problem
        assert (answer.json["outcome"], answer.json["retry"]) == (outcome, retry)


@pytest.mark.parametrize("method", [row[0] for row in SENT])
@pytest.mark.parametrize("problem", ["upstream-unreachable", "deadline-exceeded"])
def test_what_is_said_before_a_byte_was_sent(gateway_factory, blackhole, method, problem):
    address = free_address() if problem == "upstream-unreachable" else blackhole
    gateway = gateway_factory(upstream=address, app={"connect_timeout": "5s"})
    answer = gateway.fetch(method=method, headers=deadline_headers(
        300, attempt="0-0123456789abcdef"))
    assert result_of(answer) == ("none", "same-key")
    if method != "HEAD":
        assert answer.problem == problem


def test_what_is_said_of_a_broken_upload(gateway_factory, upstream):
    """The first half is at the upstream already."""
    gateway = gateway_factory(upstream=upstream)
    with gateway.client() as client:
        client.request("POST", headers={"transfer-encoding": "chunked"})
        client.send(chunk(b"x" * 100))
        upstream.wait_for_connections(1).wait_for_bytes(100)
        client.send(b"+5\r\n")
        answer = client.read_response()
    assert_problem(answer, Kind("bad-request", 400, "unknown"), [])


# ---- gRPC ----

@pytest.mark.parametrize("handler,headers,status", [
    (hang, lambda: deadline_headers(300), "4"), (hang, lambda: {"grpc-timeout": "300m"}, "4"),
    (reset, dict, "13"), (None, dict, "14"),
    (b"nonsense\r\n\r\n", dict, "13"), (hang, lambda: {"via": ", ".join(["1.1 x"] * 20)}, "13"),
])
def test_grpc_callers_get_a_grpc_status(gateway_factory, upstream, handler, headers, status):
    gateway = gateway_factory(upstream=upstream)
    upstream.handler = handler
    if handler is None:
        upstream.stop_listening()
    answer = gateway.fetch("/a.B/C", "POST", {"content-type": "application/grpc+proto",
                                              **headers()}, b"\0\0\0\0\0")
    assert (answer.status, answer.body) == (200, b"")
    assert answer.header("grpc-status") == status
    assert answer.header("grpc-message")
    assert answer.header("content-type").startswith("application/grpc")
    assert answer.header("x-request-id")


def test_grpc_calls_carry_their_timeout_on(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    gateway.fetch("/a.B/C", "POST", {"content-type": "application/grpc", "grpc-timeout": "2S"},
                  b"x")
    match = re.fullmatch(r"(\d{1,8})([HMSmun])", upstream.requests[0].header("grpc-timeout"))
    unit = {"H": 3.6e9, "M": 6e7, "S": 1e6, "m": 1e3, "u": 1, "n": 1e-3}[match[2]]
    assert 1_000_000 < int(match[1]) * unit < 2_000_000
