# SPDX-License-Identifier: MIT
"""Several servers: choice, failover, ejection, and the bound on connections (contract 4, 7)."""

import threading

import pytest

from support import (LAST_CHUNK, BlackHole, RawClient, Stopwatch, deadline_headers, free_address,
                     now_ms, release_address, wait_until)


def hold(conn, _request):
    conn.wait_for_close()


def reset(conn, _request):
    conn.reset()


@pytest.fixture
def refused():
    """An address where connecting is refused."""
    address = free_address()
    yield address
    release_address(address)


@pytest.fixture
def let_go():
    return threading.Event()


def held_until(event, status=200):
    return lambda conn, _: conn.hold(event) and conn.respond(status)


# ---- choice ----

def test_requests_are_spread(gateway_factory, upstream_factory):
    servers = [upstream_factory(), upstream_factory(), upstream_factory()]
    gateway = gateway_factory(upstream=servers)
    for _ in range(60):
        assert gateway.fetch().status == 200
    counts = [len(server.requests) for server in servers]
    assert sum(counts) == 60 and min(counts) >= 5
    metrics = gateway.metrics()
    for server, count in zip(servers, counts):
        assert metrics.value("prazo_attempts_total", server=server.address, result="ok") == count


def test_busy_server_gets_less(gateway_factory, upstream_factory, let_go):
    servers = [upstream_factory(held_until(let_go)), upstream_factory(held_until(let_go))]
    gateway = gateway_factory(upstream=servers)
    clients = [RawClient(gateway) for _ in range(8)]
    for count, client in enumerate(clients, 1):
        client.request()
        wait_until(lambda n=count: sum(len(server.requests) for server in servers) == n)
    assert [len(server.requests) for server in servers] == [4, 4]
    let_go.set()
    for client in clients:
        assert client.read_response().status == 200
        client.close()


@pytest.mark.parametrize("family", ["ipv4", "ipv6", "unix"])
def test_families(gateway_factory, upstream_factory, family):
    upstream = upstream_factory(family=family)
    gateway = gateway_factory(upstream=upstream, listen=family)
    with gateway.client() as client:
        for _ in range(3):
            assert client.request().read_response().status == 200
    assert len(upstream.connections) == 1


# ---- failover ----

@pytest.mark.parametrize("method", ["GET", "POST"])
def test_next_server_is_tried_at_once(gateway_factory, upstream, refused, method):
    gateway = gateway_factory(upstream=[refused, upstream], app={"eject": {"most": "0%"}})
    with Stopwatch() as watch:
        for _ in range(20):
            answer = gateway.fetch(method=method, body=b"x" if method == "POST" else None)
            assert answer.status == 200
    watch.assert_between(0, 1000)
    assert len(upstream.requests) == 20
    metrics = gateway.metrics()
    assert metrics.value("prazo_connect_failures_total", server=refused) >= 3
    assert metrics.value("prazo_connect_failures_total", server=upstream.address) == 0
    # A connection that could not be made is no attempt.
    assert metrics.value("prazo_attempts_total") == 20
    assert metrics.value("prazo_attempts_total", kind="retry") == 0
    assert metrics.value("prazo_amplification_ratio", upstream="app") == 1


def test_no_server_can_be_reached(gateway_factory, refused):
    other = free_address()
    gateway = gateway_factory(upstream=[refused, other])
    with Stopwatch() as watch:
        answer = gateway.fetch(method="POST", body=b"x")
    watch.assert_between(0, 200)
    assert (answer.status, answer.problem) == (502, "upstream-unreachable")
    assert (answer.json["outcome"], answer.json["retry"]) == ("none", "same-key")
    metrics = gateway.metrics()
    for address in (refused, other):  # each at most once
        assert metrics.value("prazo_connect_failures_total", server=address) == 1
    assert metrics.value("prazo_upstream_requests_total") == 0
    release_address(other)


def test_server_that_hangs_gets_half_of_the_connect_time(gateway_factory, upstream, blackhole):
    gateway = gateway_factory(upstream=[blackhole, upstream],
                              app={"connect_timeout": "600ms", "eject": {"most": "0%"}})

    def hit_the_hole():
        with Stopwatch() as watch:
            assert gateway.fetch().status == 200
        assert watch.ms < 100 or 290 <= watch.ms <= 450, watch.ms
        return watch.ms > 100
    wait_until(hit_the_hole, 10)


def test_connect_timeout_bounds_the_whole_phase(gateway_factory, blackhole):
    with BlackHole() as second, BlackHole() as third:
        gateway = gateway_factory(upstream=[blackhole, second.address, third.address],
                                  app={"connect_timeout": "400ms"})
        with Stopwatch() as watch:
            answer = gateway.fetch(headers=deadline_headers(5000))
        watch.assert_between(390, 500)
        assert (answer.status, answer.problem) == (502, "upstream-unreachable")


def test_deadline_ends_connecting(gateway_factory, blackhole):
    gateway = gateway_factory(upstream=blackhole, app={"connect_timeout": "5s"})
    with Stopwatch() as watch:
        answer = gateway.fetch(method="POST", headers=deadline_headers(300), body=b"x")
    watch.assert_between(280, 360)
    assert (answer.status, answer.problem) == (504, "deadline-exceeded")
    assert (answer.json["outcome"], answer.json["retry"]) == ("none", "same-key")
    gateway.wait_metric("prazo_upstream_connections", 0)


# ---- ejection ----

def test_resets_eject_a_server_and_time_brings_it_back(gateway_factory, upstream_factory):
    bad, good = upstream_factory(reset), upstream_factory()
    gateway = gateway_factory(upstream=[bad, good], app={"eject": {"after": 3, "for": "500ms"}})
    statuses = []
    wait_until(lambda: statuses.append(gateway.fetch().status) or len(bad.requests) == 3)
    assert statuses.count(502) == 3
    out_at = now_ms()
    while now_ms() - out_at < 300:
        assert gateway.fetch().status == 200
    assert len(bad.requests) == 3
    bad.handler = 200
    wait_until(lambda: gateway.fetch().status == 200 and len(bad.requests) > 5, 5)
    assert bad.requests[3].received_ms - out_at >= 400
    assert gateway.logs(msg="server ejected")


def test_server_that_is_still_bad_when_it_returns_goes_at_once(gateway_factory, upstream_factory):
    bad, good = upstream_factory(reset), upstream_factory()
    gateway = gateway_factory(upstream=[bad, good], app={"eject": {"after": 4, "for": "200ms"}})
    wait_until(lambda: gateway.fetch() and len(bad.requests) == 4)
    wait_until(lambda: gateway.fetch() and len(bad.requests) == 6, 5)
    assert bad.requests[4].received_ms - bad.requests[3].received_ms >= 190
    assert bad.requests[5].received_ms - bad.requests[4].received_ms >= 190


def test_connect_failures_eject(gateway_factory, upstream, refused):
    gateway = gateway_factory(upstream=[refused, upstream],
                              app={"eject": {"after": 2, "for": "10s"}})
    for _ in range(40):
        assert gateway.fetch().status == 200
    assert gateway.metric("prazo_connect_failures_total", server=refused) == 2


def test_success_in_between_clears_the_count(gateway_factory, upstream_factory):
    bad, good = upstream_factory(), upstream_factory()
    gateway = gateway_factory(upstream=[bad, good], app={"eject": {"after": 3, "for": "60s"}})
    for _ in range(4):
        for handler in (reset, reset, lambda conn, _: conn.respond(200, close=True)):
            count = len(bad.requests)
            bad.handler = handler
            wait_until(lambda n=count: gateway.fetch() and len(bad.requests) == n + 1)
    assert not gateway.logs(msg="server ejected")


def test_answers_do_not_eject(gateway_factory, upstream_factory):
    failing, good = upstream_factory(500), upstream_factory()
    gateway = gateway_factory(upstream=[failing, good], app={"eject": {"after": 2, "for": "60s"}})
    wait_until(lambda: gateway.fetch() and len(failing.requests) == 10)


def test_last_server_is_never_ejected(gateway_factory, upstream_factory):
    only = upstream_factory(reset)
    gateway = gateway_factory(upstream=only,
                              app={"eject": {"after": 1, "for": "60s", "most": "100%"}})
    for _ in range(10):
        assert gateway.fetch().problem == "upstream-reset"
    only.handler = 200
    assert gateway.fetch().status == 200


@pytest.mark.parametrize("most, stay", [("100%", 1), ("50%", 2), ("0%", 4)])
def test_at_most_that_share_is_ejected(gateway_factory, upstream_factory, most, stay):
    servers = [upstream_factory(reset) for _ in range(4)]
    gateway = gateway_factory(upstream=servers,
                              app={"eject": {"after": 1, "for": "60s", "most": most}})
    for _ in range(30):
        assert gateway.fetch().problem == "upstream-reset"
    before = [len(server.requests) for server in servers]
    for _ in range(60):
        gateway.fetch()
    assert sum(len(server.requests) > n for server, n in zip(servers, before)) == stay
    for server in servers:
        server.handler = 200
    assert all(gateway.fetch().status == 200 for _ in range(10))


def test_clients_that_leave_do_not_eject(gateway_factory, upstream_factory):
    servers = [upstream_factory(hold), upstream_factory(hold)]
    gateway = gateway_factory(upstream=servers, app={"eject": {"after": 1, "for": "60s"}})
    for count in range(1, 11):
        client = gateway.client()
        client.request()
        wait_until(lambda n=count: sum(len(server.requests) for server in servers) == n)
        client.close()
    gateway.wait_metric("prazo_in_flight", 0)
    assert all(server.requests for server in servers)
    assert not gateway.logs(msg="server ejected")


# ---- connections ----

def test_connections_are_used_again(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    for _ in range(10):
        assert gateway.fetch().status == 200
    assert len(upstream.connections) == 1
    assert gateway.metric("prazo_upstream_connections", state="idle") == 1


@pytest.mark.parametrize("idle, kept", [(0, 0), (2, 2)])
def test_idle_connections_are_bounded(gateway_factory, upstream, let_go, idle, kept):
    gateway = gateway_factory(upstream=upstream, app={"connections": {"idle": idle}})
    upstream.handler = held_until(let_go)
    clients = [gateway.client().request() for _ in range(5)]
    upstream.wait_for_requests(5)
    let_go.set()
    for client in clients:
        assert client.read_response().status == 200
        client.close()
    gateway.wait_metric("prazo_upstream_connections", kept)
    wait_until(lambda: len(upstream.open_connections) == kept)


def test_idle_connections_end_in_time(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream, app={"connections": {"idle_timeout": "200ms"}})
    gateway.fetch()
    with Stopwatch() as watch:
        assert upstream.connections[0].wait_for_close(2) == "fin"
    watch.assert_between(150, 400)


@pytest.mark.parametrize("announced, open_after", [("timeout=1", 0), ("timeout=60", 1)])
def test_announced_keep_alive_timeout_is_kept(gateway_factory, upstream, announced, open_after):
    gateway = gateway_factory(upstream=upstream, app={"connections": {"idle_timeout": "4s"}})
    upstream.handler = (200, b"", {"keep-alive": announced})
    gateway.fetch()
    conn = upstream.connections[0]
    if open_after:
        with pytest.raises(AssertionError):
            conn.wait_for_close(1.1)
    else:
        with Stopwatch() as watch:
            assert conn.wait_for_close(1.1) == "fin"
        watch.assert_between(100, 1000)


@pytest.mark.parametrize("method, body, status", [
    ("GET", None, 200), ("HEAD", None, 200), ("PUT", b"x", 200), ("DELETE", None, 200),
    ("POST", b"x", 502)])
@pytest.mark.parametrize("end", ["reset", "close"])
def test_stale_connection_is_replaced_once_if_it_is_safe(gateway_factory, upstream, end, method,
                                                        body, status):
    gateway = gateway_factory(upstream=upstream)
    assert gateway.fetch().status == 200
    upstream.script(reset if end == "reset" else lambda conn, _: conn.close())
    answer = gateway.fetch(method=method, body=body)
    assert answer.status == status
    metrics = gateway.metrics()
    if status == 200:
        assert [conn.index for conn in upstream.open_connections] == [1]
        assert upstream.requests[1].header("x-attempt") != upstream.requests[2].header("x-attempt")
        assert metrics.value("prazo_attempts_total", kind="stale", result="ok") == 1
        assert metrics.value("prazo_amplification_ratio") == 1.5
    else:
        assert answer.problem == "upstream-reset"
        assert (answer.json["outcome"], answer.json["retry"]) == ("unknown", "no")
        assert metrics.value("prazo_attempts_total", kind="stale") == 0


def test_stale_connection_is_replaced_only_once(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    gateway.fetch()
    upstream.script(reset, reset)
    answer = gateway.fetch()
    assert (answer.status, answer.problem) == (502, "upstream-reset")
    assert len(upstream.requests) == 3


def test_first_use_of_a_connection_is_never_stale(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    upstream.script(reset)
    assert gateway.fetch().problem == "upstream-reset"
    assert len(upstream.requests) == 1


def test_connection_that_has_begun_its_answer_is_not_stale(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    gateway.fetch()
    upstream.script(lambda conn, _: (conn.send(b"HTTP/1.1 2"), conn.reset())[1])
    answer = gateway.fetch()
    assert answer.status == 502 and len(upstream.requests) == 2


def test_closed_idle_connection_costs_nobody_anything(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    for count in range(1, 6):
        assert gateway.fetch(method="POST", body=b"x").status == 200
        upstream.close_connections()
        gateway.wait_metric("prazo_upstream_connections", 0)
        assert len(upstream.connections) == count


# ---- the bound on connections ----

def test_connections_never_exceed_their_bound(gateway_factory, upstream, let_go):
    gateway = gateway_factory(upstream=upstream, app={"connections": {"max": 2}})
    upstream.handler = held_until(let_go)
    clients = [gateway.client().request() for _ in range(8)]
    gateway.wait_metric("prazo_queue_depth", 6, upstream="app")
    assert gateway.metric("prazo_in_flight") == 2
    upstream.wait_for_requests(2)
    let_go.set()
    for client in clients:
        assert client.read_response().status == 200
        client.close()
    assert len(upstream.connections) == 2
    metrics = gateway.metrics()
    assert metrics.value("prazo_queue_depth") == 0
    assert metrics.value("prazo_queue_seconds_count", upstream="app") == 6


def test_bound_counts_all_servers_together(gateway_factory, upstream_factory, let_go):
    servers = [upstream_factory(held_until(let_go)) for _ in range(3)]
    gateway = gateway_factory(upstream=servers, app={"connections": {"max": 3}})
    clients = [gateway.client().request() for _ in range(9)]
    gateway.wait_metric("prazo_queue_depth", 6)
    wait_until(lambda: sum(len(server.requests) for server in servers) == 3)
    assert sum(len(server.connections) for server in servers) == 3
    let_go.set()
    assert all(client.read_response().status == 200 for client in clients)
    for client in clients:
        client.close()
    assert sum(len(server.open_connections) for server in servers) <= 3


def test_earliest_deadline_goes_first(gateway_factory, upstream, let_go):
    gateway = gateway_factory(upstream=upstream, app={"connections": {"max": 1}},
                              deadline={"max": "60s"})
    upstream.handler = held_until(let_go)
    clients = [gateway.client().request("GET", "/first")]
    upstream.wait_for_requests(1)
    for count, left_ms in enumerate((30_000, 10_000, 40_000, 20_000), 1):
        clients.append(gateway.client().request("GET", f"/{left_ms}", deadline_headers(left_ms)))
        gateway.wait_metric("prazo_queue_depth", count)
    let_go.set()
    for client in clients:
        assert client.read_response().status == 200
        client.close()
    assert [request.target for request in upstream.requests] == [
        "/first", "/10000", "/20000", "/30000", "/40000"]


def test_idle_connection_to_another_server_makes_room(gateway_factory, upstream_factory):
    servers = [upstream_factory(), upstream_factory()]
    gateway = gateway_factory(upstream=servers, app={"connections": {"max": 1}})
    for _ in range(20):
        with Stopwatch() as watch:
            assert gateway.fetch().status == 200
        watch.assert_between(0, 200)
    assert all(server.requests for server in servers)


def test_waiting_request_gets_through_when_the_other_one_fails(gateway_factory, upstream, let_go):
    gateway = gateway_factory(upstream=upstream, app={"connections": {"max": 1}})

    def handler(conn, _request):
        conn.hold(let_go)
        conn.reset()
    upstream.script(handler)
    with gateway.client() as first, gateway.client() as second:
        first.request()
        upstream.wait_for_requests(1)
        second.request()
        gateway.wait_metric("prazo_queue_depth", 1)
        let_go.set()
        assert first.read_response().problem == "upstream-reset"
        assert second.read_response().status == 200


def test_waiting_requests_go_on_when_nothing_can_be_reached(gateway_factory, upstream, let_go):
    """Each of them has to hear of it: the slot must go on to the next one."""
    gateway = gateway_factory(upstream=upstream, app={"connections": {"max": 1}})

    def handler(conn, _request):
        conn.hold(let_go)
        upstream.stop_listening()
        conn.reset()
    upstream.script(handler)
    clients = [gateway.client().request()]
    upstream.wait_for_requests(1)
    clients += [gateway.client().request() for _ in range(5)]
    gateway.wait_metric("prazo_queue_depth", 5)
    let_go.set()
    assert clients[0].read_response().problem == "upstream-reset"
    for client in clients[1:]:
        assert client.read_response().problem == "upstream-unreachable"
        client.close()
    upstream.listen_again()
    assert gateway.fetch().status == 200


def test_queued_upload_is_sent_whole(gateway_factory, upstream, let_go):
    """Larger than what is held: the client is held up until the connection is there."""
    gateway = gateway_factory(upstream=upstream, app={"connections": {"max": 1}},
                              limits={"replay_body": "16KiB"})
    upstream.script(held_until(let_go))
    body = bytes(range(256)) * 4000
    with gateway.client() as first, gateway.client() as second:
        first.request()
        upstream.wait_for_requests(1)
        sender = threading.Thread(target=second.request, args=("POST", "/", None, body))
        sender.start()
        gateway.wait_metric("prazo_queue_depth", 1)
        let_go.set()
        assert first.read_response().status == 200
        assert second.read_response("POST").status == 200
        sender.join()
    assert upstream.requests[1].body == body


def test_queued_chunked_upload_keeps_its_trailers(gateway_factory, upstream, let_go):
    gateway = gateway_factory(upstream=upstream, app={"connections": {"max": 1}})
    upstream.script(held_until(let_go))
    with gateway.client() as first, gateway.client() as second:
        first.request()
        upstream.wait_for_requests(1)
        second.request("POST", "/", {"transfer-encoding": "chunked"})
        second.send_chunk(b"hello")
        gateway.wait_metric("prazo_queue_depth", 1)
        second.send(LAST_CHUNK)
        let_go.set()
        assert second.read_response().status == 200
    assert upstream.requests[1].body == b"hello"


def test_queue_is_bounded(gateway_factory, upstream, let_go):
    gateway = gateway_factory(upstream=upstream, app={"connections": {"max": 1}}, deadline="30s",
                              log={"requests": "none"})
    upstream.script(held_until(let_go))
    clients = [gateway.client().request()]
    upstream.wait_for_requests(1)
    clients += [gateway.client().request() for _ in range(1100)]
    refused = gateway.wait_metric("prazo_shed_total", lambda n: n >= 1, reason="queue-full")
    gateway.wait_metric("prazo_queue_depth", lambda n: n + 1 + refused >= 1000)
    let_go.set()
    answers = [client.read_response() for client in clients]
    for client in clients:
        client.close()
    shed = [answer for answer in answers if answer.status != 200]
    assert len(shed) == gateway.metric("prazo_shed_total", reason="queue-full") > 0
    assert len(shed) < 1000
    seconds = set()
    for answer in shed:
        assert (answer.status, answer.problem) == (503, "overloaded")
        assert answer.json["reason"] == "queue-full"
        assert (answer.json["outcome"], answer.json["retry"]) == ("none", "same-key")
        seconds.add(int(answer.header("retry-after")))
    assert min(seconds) >= 1 and len(seconds) > 1  # jittered
