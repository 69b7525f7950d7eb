# SPDX-License-Identifier: MIT
"""The same gateway with four threads: limits and counts belong to the process (contract 7). Also
run against a build with the thread sanitizer."""

import contextlib
import random
import signal
import threading

import pytest

from support import (ConnectionEnded, NameServer, RawClient, Stopwatch, deadline_headers,
                     wait_until)
from support.net import port_of

pytestmark = pytest.mark.threads

THREADS = 4


@pytest.fixture
def gateway_of(gateway_factory):
    return lambda **keys: gateway_factory(threads=THREADS, **keys)


def together(count, work):
    """Runs work(index) in that many threads; raises the first failure."""
    errors = []

    def run(index):
        try:
            work(index)
        except BaseException as error:
            errors.append(error)
    threads = [threading.Thread(target=run, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_requests_of_many_clients_are_counted_once(gateway_of, upstream):
    gateway = gateway_of(upstream=upstream)

    def work(index):
        with gateway.client() as client:
            for _ in range(25):
                answer = client.request("GET", f"/{index}").read_response()
                assert (answer.status, answer.body) == (200, b"ok\n")
    together(16, work)
    assert gateway.threads() >= THREADS
    metrics = gateway.metrics()
    assert metrics.value("prazo_requests_total", code="2xx") == 400
    assert metrics.value("prazo_request_seconds_count", result="ok") == 400
    assert metrics.value("prazo_attempts_total", result="ok") == 400
    assert metrics.value("prazo_upstream_requests_total") == 400
    assert metrics.value("prazo_amplification_ratio") == 1
    gateway.wait_log(count=400, msg="request")


def test_work_is_spread_over_the_threads(gateway_of, upstream):
    """Each thread has its own connections to the upstream."""
    gateway = gateway_of(upstream=upstream)
    clients = [gateway.client() for _ in range(200)]
    for client in clients:
        client.request()
        client.read_response()
    assert len(upstream.connections) > 1
    for client in clients:
        client.close()


def test_bound_on_connections_is_the_processs(gateway_of, upstream):
    gateway = gateway_of(upstream=upstream, app={"connections": {"max": 2}})
    most, here, lock = [0], [0], threading.Lock()

    def handler(conn, _request):
        with lock:
            here[0] += 1
            most[0] = max(most[0], here[0])
        with contextlib.suppress(AssertionError):
            conn.wait_for_close(0.002)
        with lock:
            here[0] -= 1
        conn.respond(200)
    upstream.handler = handler

    def work(_index):
        for _ in range(5):
            assert gateway.fetch(headers=deadline_headers(9000)).status == 200
    together(20, work)
    assert most[0] <= 2
    metrics = gateway.metrics()
    assert metrics.value("prazo_queue_depth") == 0
    assert metrics.value("prazo_in_flight") == 0
    assert metrics.value("prazo_upstream_connections") <= 2
    assert metrics.value("prazo_queue_dropped_total") == 0


def test_idle_connection_of_another_thread_is_given_up(gateway_of, upstream):
    gateway = gateway_of(upstream=upstream, app={"connections": {"max": 1}})
    for _ in range(40):  # every connection may land on another thread
        with Stopwatch() as watch:
            assert gateway.fetch().status == 200
        watch.assert_between(0, 250)


def test_earliest_deadline_goes_first_across_threads(gateway_of, upstream):
    gateway = gateway_of(upstream=upstream, app={"connections": {"max": 1}},
                         deadline={"max": "60s"})
    let_go = threading.Event()
    upstream.handler = lambda conn, _: conn.hold(let_go) and conn.respond(200)
    clients = [gateway.client().request("GET", "/first")]
    upstream.wait_for_requests(1)
    order = list(range(10, 30))
    random.Random(1).shuffle(order)
    for count, seconds in enumerate(order, 1):
        clients.append(gateway.client().request("GET", f"/{seconds}",
                                                deadline_headers(seconds * 1000)))
        gateway.wait_metric("prazo_queue_depth", count)
    let_go.set()
    for client in clients:
        assert client.read_response().status == 200
        client.close()
    targets = [request.target for request in upstream.requests]
    assert targets == ["/first", *(f"/{seconds}" for seconds in sorted(order))]


def test_cancellation_storm_leaves_nothing_behind(gateway_of, upstream):
    gateway = gateway_of(upstream=upstream, app={"connections": {"max": 3}})

    def handler(conn, _request):
        try:
            conn.wait_for_close(0.01)
        except AssertionError:
            conn.respond(200, b"x" * 1000)
    upstream.handler = handler

    def work(index):
        draw = random.Random(index)
        for _ in range(15):
            client = gateway.client()
            client.request("POST", "/", deadline_headers(draw.choice((10, 40, 5000))), b"x" * 100)
            client.sock.settimeout(draw.random() * 0.03)
            with contextlib.suppress(TimeoutError):
                client.sock.recv(4096)
            draw.choice((client.close, client.reset))()
    together(12, work)
    for name in ("prazo_in_flight", "prazo_queue_depth", "prazo_connections"):
        gateway.wait_metric(name, 0)
    gateway.wait_metric("prazo_upstream_connections", 0, state="active")
    upstream.handler = 200
    for _ in range(2 * THREADS):
        assert gateway.fetch().status == 200
    # Those that had gone before anybody read their request are not counted.
    assert 2 * THREADS < gateway.metric("prazo_requests_total") <= 12 * 15 + 2 * THREADS


def test_ejection_holds_for_all_threads(gateway_of, upstream_factory):
    bad, good = upstream_factory(lambda conn, _: conn.reset()), upstream_factory()
    gateway = gateway_of(upstream=[bad, good], app={"eject": {"after": 3, "for": "60s"}})
    wait_until(lambda: gateway.fetch() and len(bad.requests) >= 3)
    count = len(bad.requests)

    def work(_index):
        for _ in range(10):
            assert gateway.fetch().status == 200
    together(8, work)
    assert len(bad.requests) == count


def test_limit_of_client_connections_is_the_processs(gateway_of, upstream):
    gateway = gateway_of(upstream=upstream, limits={"connections": 6})
    clients = [gateway.client() for _ in range(6)]
    for client in clients:
        assert client.request().read_response().status == 200
    with RawClient(gateway) as waiting:
        waiting.request()
        waiting.expect_silence(0.2)
        for client in clients:
            client.close()
        assert waiting.read_response(timeout=3).status == 200


def test_reloads_under_load(gateway_of, upstream, upstream_factory):
    gateway = gateway_of(upstreams={"app": upstream}, log={"requests": "errors"})
    more = upstream_factory()
    over = threading.Event()

    def work(index):
        if index == 0:
            for count in range(20):
                keys = {"app": upstream, "more": more} if count % 2 else {"app": upstream}
                assert gateway.reload(upstreams=keys, deadline=f"{5 + count}s",
                                      routes=[{"path": "/*", "upstream": "app"}]) == "ok"
            over.set()
            return
        while not over.is_set():
            with gateway.client() as client:
                for _ in range(10):
                    assert client.request().read_response().status == 200
    together(7, work)
    gateway.wait_metric("prazo_in_flight", 0)


def test_metrics_and_state_are_read_under_load(gateway_of, upstream):
    gateway = gateway_of(upstream=upstream)
    over = threading.Event()

    def work(index):
        if index == 0:
            for _ in range(15):
                assert gateway.metrics().value("prazo_requests_total") >= 0
                assert gateway.admin("/api/state").json["threads"] == THREADS
                assert gateway.admin("/healthz").status == 200
            over.set()
            return
        with gateway.client() as client:
            while not over.is_set():
                assert client.request().read_response().status == 200
    together(5, work)


def test_names_are_resolved_for_all_threads(gateway_of, upstream):
    with NameServer({"app.test": ["127.0.0.1"]}, is_silent=True) as names:
        gateway = gateway_of(upstream=f"app.test:{port_of(upstream.address)}",
                             app={"connect_timeout": "9s"}, prefix=names.prefix)
        clients = [gateway.client().request("GET", "/", deadline_headers(9500)) for _ in range(12)]
        wait_until(lambda: names.queries)
        names.is_silent = False
        assert [client.read_response().status for client in clients] == [200] * 12
        for client in clients:
            client.close()


def test_drain_under_load_resets_nobody(gateway_of, upstream):
    gateway = gateway_of(upstream=upstream, shutdown={"delay": "300ms", "drain": "4s"})
    over = threading.Event()

    def work(index):
        if index == 0:
            gateway.wait_metric("prazo_requests_total", lambda n: n > 100)
            gateway.signal(signal.SIGTERM)
            wait_until(lambda: gateway.admin("/readyz").status == 503, 2)
            over.set()
            return
        client = gateway.client()
        while True:
            try:
                answer = client.request().read_response()
            except ConnectionEnded as ended:
                raise AssertionError("cut without a warning") from ended
            assert answer.status == 200
            if answer.header("connection") == "close":
                client.close()
                if over.is_set():
                    return
                client = gateway.client()
    together(9, work)
    assert gateway.wait() == 0


def test_work_in_flight_is_cut_in_every_thread(gateway_of, upstream):
    gateway = gateway_of(upstream=upstream, shutdown={"delay": "1ms", "drain": "100ms"})
    upstream.handler = lambda conn, _: conn.wait_for_close() and None
    clients = [gateway.client().request("GET", "/", deadline_headers(9000)) for _ in range(12)]
    upstream.wait_for_requests(12)
    gateway.signal(signal.SIGTERM)
    assert {client.read_response().problem for client in clients} == {"draining"}
    assert gateway.wait() == 0
    for client in clients:
        client.close()
