# SPDX-License-Identifier: MIT
"""Servers given by name: nothing waits for a resolver longer than it has to."""

import threading

import pytest

from support import (SLACK, NameServer, Stopwatch, deadline_headers, free_address, release_address,
                     wait_until)
from support.net import port_of


@pytest.fixture
def name_server():
    with NameServer() as server:
        yield server


@pytest.fixture
def black_hole():
    with NameServer(is_silent=True) as server:
        yield server


def named(name, upstream):
    return f"{name}:{port_of(upstream.address)}"


# ---- a resolver that never answers ----

# C095
def test_c095_resolver_that_never_answers_holds_to_the_deadline(gateway_factory, upstream,
                                                               black_hole):
    gateway = gateway_factory(
        upstreams={"lost": {"servers": ["lost.test:80"], "connect_timeout": "10s"},
                   "app": upstream},
        routes=[{"path": "/lost", "upstream": "lost"}, {"path": "/*", "upstream": "app"}],
        prefix=black_hole.prefix)
    with Stopwatch() as watch:
        answer = gateway.fetch("/lost", headers=deadline_headers(300))
    watch.assert_between(280, 360)
    assert (answer.status, answer.problem) == (504, "deadline-exceeded")
    assert answer.json["outcome"] == "none"

    over, slowest, errors = threading.Event(), [], []

    def other_traffic():
        try:
            with gateway.client() as client:
                while not over.is_set():
                    with Stopwatch() as one:
                        assert client.request().read_response().status == 200
                    slowest.append(one.ms)
        except BaseException as error:
            errors.append(error)
    other = threading.Thread(target=other_traffic)
    other.start()
    clients = []
    with Stopwatch() as watch:
        for _ in range(100):
            clients.append(gateway.client().request("GET", "/lost", deadline_headers(300)))
        answers = [client.read_response() for client in clients]
    over.set()
    other.join()
    for client in clients:
        client.close()
    assert {answer.problem for answer in answers} == {"deadline-exceeded"}
    watch.assert_between(280, 600)
    assert not errors and max(slowest) < 150 * SLACK
    assert len(black_hole.queries) <= 20  # one look-up for all of them, a few tries of it
    assert gateway.threads() <= 3
    with Stopwatch() as watch:
        assert gateway.terminate() == 0
    watch.assert_between(0, 1500)


def test_connect_timeout_bounds_the_look_up(gateway_factory, black_hole):
    gateway = gateway_factory(upstream="lost.test:80", app={"connect_timeout": "300ms"},
                              prefix=black_hole.prefix)
    with Stopwatch() as watch:
        answer = gateway.fetch(method="POST", headers=deadline_headers(5000), body=b"x")
    watch.assert_between(290, 400)
    assert (answer.status, answer.problem) == (502, "upstream-unreachable")
    assert (answer.json["outcome"], answer.json["retry"]) == ("none", "same-key")
    assert gateway.metric("prazo_connect_failures_total", server="lost.test:80") == 1


def test_other_server_is_used_meanwhile(gateway_factory, upstream, black_hole):
    gateway = gateway_factory(upstream=["lost.test:80", upstream.address],
                              app={"connect_timeout": "600ms", "eject": {"after": 1}},
                              prefix=black_hole.prefix)
    with Stopwatch() as watch:
        for _ in range(10):
            assert gateway.fetch().status == 200
    watch.assert_between(0, 1200)


def test_client_may_leave_during_a_look_up(gateway_factory, black_hole):
    gateway = gateway_factory(upstream="lost.test:80", app={"connect_timeout": "10s"},
                              prefix=black_hole.prefix)
    client = gateway.client()
    client.request()
    wait_until(lambda: black_hole.queries)
    client.close()
    gateway.wait_metric("prazo_client_gone_total", 1, state="connecting")


def test_ready_without_a_resolver(gateway_factory, black_hole):
    with Stopwatch() as watch:
        gateway = gateway_factory(upstream="lost.test:80", prefix=black_hole.prefix)
    watch.assert_between(0, 2000)
    assert gateway.admin("/readyz").status == 200


# ---- a resolver that does ----

def test_name_is_resolved(gateway_factory, upstream, name_server):
    name_server.names["app.test"] = ["127.0.0.1"]
    gateway = gateway_factory(upstream=named("app.test", upstream), prefix=name_server.prefix)
    for _ in range(20):
        assert gateway.fetch().status == 200
    assert len(name_server.queries) <= 8
    assert gateway.metric("prazo_attempts_total", server=named("app.test", upstream)) == 20


def test_first_request_waits_for_the_first_address(gateway_factory, upstream, black_hole):
    black_hole.names["app.test"] = ["127.0.0.1"]
    gateway = gateway_factory(upstream=named("app.test", upstream),
                              app={"connect_timeout": "8s"}, prefix=black_hole.prefix)
    with gateway.client() as client:
        client.request("GET", "/", deadline_headers(9000))
        wait_until(lambda: black_hole.queries)
        black_hole.is_silent = False  # the next try is answered
        assert client.read_response().status == 200


def test_new_address_is_found_when_the_old_one_has_timed_out(gateway_factory, upstream_factory,
                                                             name_server):
    first = upstream_factory()
    second = upstream_factory(address=f"127.0.0.77:{port_of(first.address)}")
    name_server.names["app.test"] = ["127.0.0.1"]
    gateway = gateway_factory(upstream=named("app.test", first),
                              app={"connections": {"idle": 0}}, prefix=name_server.prefix)
    assert gateway.fetch().status == 200
    name_server.names["app.test"] = ["127.0.0.77"]
    wait_until(lambda: gateway.fetch().status == 200 and second.requests, 5)
    count = len(first.requests)
    for _ in range(5):
        assert gateway.fetch().status == 200
    assert len(first.requests) == count


@pytest.mark.parametrize("fault", ["silence", "no such name"])
def test_stale_address_serves_while_look_ups_fail(gateway_factory, upstream, name_server, fault):
    name_server.names["app.test"] = ["127.0.0.1"]
    gateway = gateway_factory(upstream=named("app.test", upstream),
                              app={"connections": {"idle": 0}}, prefix=name_server.prefix)
    assert gateway.fetch().status == 200
    if fault == "silence":
        name_server.is_silent = True
    else:
        del name_server.names["app.test"]
    count = len(name_server.queries)
    wait_until(lambda: len(name_server.queries) > count + 1, 5)  # the TTL of 1 s is over
    for _ in range(5):
        with Stopwatch() as watch:
            assert gateway.fetch().status == 200
        watch.assert_between(0, 200)


def test_name_that_does_not_exist_is_told_at_once(gateway_factory, name_server):
    gateway = gateway_factory(upstream="nothing.test:80", app={"connect_timeout": "5s"},
                              prefix=name_server.prefix)
    wait_until(lambda: len(name_server.queries) >= 2)
    with Stopwatch() as watch:
        answer = gateway.fetch()
    watch.assert_between(0, 500)
    assert (answer.status, answer.problem) == (502, "upstream-unreachable")
    assert "nothing.test" not in answer.text


def test_name_that_comes_into_being_is_found(gateway_factory, upstream, name_server):
    gateway = gateway_factory(upstream=named("app.test", upstream), prefix=name_server.prefix)
    assert gateway.fetch().status == 502
    name_server.names["app.test"] = ["127.0.0.1"]
    wait_until(lambda: gateway.fetch().status == 200, 5)


def test_next_address_of_a_name_is_tried(gateway_factory, upstream, name_server):
    name_server.names["app.test"] = ["127.0.0.78", "127.0.0.1", "127.0.0.79"]
    gateway = gateway_factory(upstream=named("app.test", upstream),
                              app={"connections": {"idle": 0}}, prefix=name_server.prefix)
    for _ in range(20):
        assert gateway.fetch().status == 200
    assert len(upstream.requests) == 20


def test_both_families_are_asked_for(gateway_factory, upstream_factory, name_server):
    upstream = upstream_factory(family="ipv6")
    name_server.names["app.test"] = ["::1"]
    gateway = gateway_factory(upstream=named("app.test", upstream), prefix=name_server.prefix)
    assert gateway.fetch().status == 200


def test_localhost_needs_no_name_server(gateway_factory, upstream, black_hole):
    gateway = gateway_factory(upstream=named("localhost", upstream), prefix=black_hole.prefix)
    for _ in range(3):
        assert gateway.fetch().status == 200
    assert "localhost" not in black_hole.queries


def test_reload_brings_new_names(gateway_factory, upstream, name_server):
    name_server.names["new.test"] = ["127.0.0.1"]
    nobody = free_address()
    gateway = gateway_factory(upstream=nobody, prefix=name_server.prefix)
    assert gateway.fetch().status == 502
    assert gateway.reload(upstream=named("new.test", upstream)) == "ok"
    wait_until(lambda: gateway.fetch().status == 200)
    release_address(nobody)


def test_ejected_names_come_back(gateway_factory, upstream, name_server):
    name_server.names["app.test"] = ["127.0.0.1"]
    gateway = gateway_factory(upstream=named("app.test", upstream), prefix=name_server.prefix)
    assert gateway.fetch().status == 200
    upstream.stop_listening()
    upstream.close_connections()
    for _ in range(10):
        assert gateway.fetch().status == 502
    upstream.listen_again()
    wait_until(lambda: gateway.fetch().status == 200)
