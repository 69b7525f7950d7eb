# SPDX-License-Identifier: MIT
"""What prazo's answers say about themselves (contract 2.6, 3)."""

import pytest

from support import RawClient, deadline_headers, free_address, now_ms, release_address

CALLER = "0123456789abcdef"
ATTEMPT = {"x-attempt": f"0-{CALLER}"}


def hold(conn, _request):
    conn.wait_for_close()


@pytest.fixture
def nobody():
    """An address where connecting is refused."""
    address = free_address()
    yield address
    release_address(address)


def result_of(answer):
    """prazo-result as (outcome, parameters)."""
    outcome, *pairs = answer.header("prazo-result").split(";")
    return outcome, dict(pair.split("=", 1) for pair in pairs)


def assert_result(answer, outcome, retry):
    assert result_of(answer) == (outcome, {"retry": retry, "spent": "0", "for": CALLER})
    assert (answer.json["outcome"], answer.json["retry"]) == (outcome, retry)


def test_unreachable_upstream(gateway_factory, nobody):
    gateway = gateway_factory(upstream=nobody)
    answer = gateway.fetch(method="POST", headers=ATTEMPT, body=b"x")
    assert (answer.status, answer.problem) == (502, "upstream-unreachable")
    assert_result(answer, "none", "same-key")


def test_expired_on_arrival(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    answer = gateway.fetch(method="POST", body=b"x",
                           headers={**ATTEMPT, "x-deadline-ms": now_ms() - 10})
    assert_result(answer, "none", "same-key")


@pytest.mark.parametrize("method, outcome, retry", [
    ("GET", "none", "same-key"), ("PUT", "unknown", "same-key"), ("POST", "unknown", "no")])
@pytest.mark.parametrize("how", ["hang", "reset"])
def test_after_the_request_was_sent(gateway_factory, upstream, method, outcome, retry, how):
    gateway = gateway_factory(upstream=upstream)
    upstream.handler = hold if how == "hang" else lambda conn, _: conn.reset()
    headers = {**ATTEMPT, **deadline_headers(200)}
    answer = gateway.fetch(method=method, headers=headers, body=None if method == "GET" else b"x")
    assert answer.problem == ("deadline-exceeded" if how == "hang" else "upstream-reset")
    assert_result(answer, outcome, retry)


def test_request_that_is_wrong(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream, routes=[{"path": "/here"}])
    answer = gateway.fetch("/elsewhere", headers=ATTEMPT)
    assert (answer.status, answer.problem) == (404, "no-route")
    assert_result(answer, "none", "after-fix")


@pytest.mark.parametrize("attempt", [
    None, "0-0123", "x-0123456789abcdef", "0-0123456789ABCDEG", "0123456789abcdef",
    "0-0123456789abcdef0", "-1-0123456789abcdef"])
def test_only_callers_that_named_their_attempt_are_told(gateway_factory, nobody, attempt):
    gateway = gateway_factory(upstream=nobody)
    answer = gateway.fetch(headers={"x-attempt": attempt} if attempt else {})
    assert answer.header("prazo-result") is None


def test_untrusted_callers_are_not_told(gateway_factory, nobody):
    gateway = gateway_factory(upstream=nobody, listen={"trust": "none"})
    assert gateway.fetch(headers=ATTEMPT).header("prazo-result") is None


@pytest.mark.parametrize("status", [200, 404, 503])
def test_passed_answer_says_what_was_spent_of_the_budget(gateway_factory, upstream, status):
    gateway = gateway_factory(upstream=upstream)
    upstream.handler = status
    answer = gateway.fetch(headers={**ATTEMPT, "x-retry-budget": "3"})
    assert answer.status == status
    assert result_of(answer) == ("passed", {"spent": "0", "for": CALLER})


@pytest.mark.parametrize("headers", [{}, ATTEMPT, {"x-retry-budget": "3"},
                                     {**ATTEMPT, "x-retry-budget": "100"},
                                     {**ATTEMPT, "x-retry-budget": "-1"}])
def test_passed_answer_says_nothing_to_who_lent_nothing(gateway_factory, upstream, headers):
    gateway = gateway_factory(upstream=upstream)
    assert gateway.fetch(headers=headers).header("prazo-result") is None


def test_upstreams_own_result_is_not_passed_on(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    upstream.handler = (200, b"ok", {"prazo-result": f"none;retry=no;spent=0;for={CALLER}",
                                     "prazo-effect": "none", "x-other": "1"})
    answer = gateway.fetch()
    assert answer.header("prazo-result") is None
    assert answer.header("prazo-effect") is None
    assert answer.header("x-other") == "1"
    answer = gateway.fetch(headers={**ATTEMPT, "x-retry-budget": "1"})
    assert result_of(answer)[0] == "passed"


# ---- problem documents ----

def test_problem_document(gateway_factory, nobody):
    gateway = gateway_factory(upstream=nobody)
    answer = gateway.fetch(headers={"x-request-id": "a/b"})
    assert answer.header("content-type") == "application/problem+json"
    assert answer.header("cache-control") == "no-store"
    assert answer.header("x-request-id") == "a/b"
    document = answer.json
    assert document["type"] == "urn:prazo:problem:upstream-unreachable"
    assert document["status"] == 502 and document["title"]
    assert document["instance"] == "urn:prazo:request:a%2Fb"
    assert nobody not in answer.text and "127.0.0.1" not in answer.text


def test_problem_types_can_have_another_base(gateway_factory, nobody):
    gateway = gateway_factory(upstream=nobody,
                              problems={"base_url": "https://docs.example/problems/"})
    assert gateway.fetch().json["type"] == "https://docs.example/problems/upstream-unreachable"


def test_problem_for_head_has_no_body(gateway_factory, nobody):
    gateway = gateway_factory(upstream=nobody)
    with gateway.client() as client:
        answer = client.request("HEAD").read_response()
        assert (answer.status, answer.body) == (502, b"")
        assert answer.header("content-type") == "application/problem+json"
        assert client.request("GET").read_response().problem == "upstream-unreachable"


def test_request_id_is_always_there(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream, routes=[{"path": "/here"}])
    upstream.handler = (200, b"", {"x-request-id": "of the upstream"})
    assert gateway.fetch("/here", headers={"x-request-id": "mine"}).header("x-request-id") == "mine"
    assert gateway.fetch("/elsewhere").header("x-request-id")
    with RawClient(gateway) as client:
        client.send("GET /\r\n\r\n")
        assert client.read_response().header("x-request-id")
