# SPDX-License-Identifier: MIT
"""Limits of the machine: descriptors, connections, memory, a log that cannot be written."""

import contextlib
import os
import random
import re
import resource
import socket
import subprocess
import threading

import pytest

from support import IS_SANITIZED, RawClient, Stopwatch, deadline_headers, wait_until

# Of requests in the leak test; 1000000 for the long run.
REQUESTS = int(os.environ.get("PRAZO_TEST_LEAK_REQUESTS", "20000" if IS_SANITIZED else "50000"))
MIB = 1 << 20


@pytest.fixture
def let_go():
    return threading.Event()


@contextlib.contextmanager
def connections(gateway, count):
    clients = []
    try:
        for _ in range(count):
            clients.append(RawClient(gateway))
        yield clients
    finally:
        for client in clients:
            client.close()


# ---- descriptors ----

def test_soft_limit_is_raised_to_the_hard_one(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream, prefix=["prlimit", "--nofile=128:4000"],
                              limits={"connections": 1000})
    assert gateway.metric("process_max_fds") == 4000
    assert not gateway.logs(level="warn", msg="few descriptors")


def test_too_few_descriptors_are_told_with_the_number_needed(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream, nofile=128, limits={"connections": 1000})
    text = str(gateway.wait_log(level="warn"))
    assert "128" in text and int(re.search("needs ([0-9]+)", text)[1]) >= 2000


def test_out_of_descriptors_it_goes_on_and_recovers(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream, nofile=64)
    gateway.fetch()
    fds = gateway.fds()
    with connections(gateway, 100):
        wait_until(lambda: gateway.fds() >= 62)
        assert gateway.cpu_share(0.5) < 0.3  # it does not spin on a queue it cannot empty
    wait_until(lambda: gateway.fds() <= fds + 1)
    with Stopwatch() as watch:
        assert gateway.fetch().status == 200
    watch.assert_between(0, 500)


def test_no_descriptor_for_the_upstream_is_a_problem_not_a_hang(gateway_factory, upstream, let_go):
    gateway = gateway_factory(upstream=upstream, nofile=48, app={"connections": {"idle": 0}})
    upstream.handler = lambda conn, _: conn.hold(let_go) and conn.respond(200)
    with connections(gateway, 30) as clients:
        for client in clients:
            client.request("GET", "/", deadline_headers(2000))
        let_go.set()
        statuses = []
        for client in clients:
            with contextlib.suppress(OSError):
                statuses.append(client.read_response().status)
    assert set(statuses) <= {200, 500, 502, 503, 504} and len(statuses) >= 20
    assert any(status >= 500 for status in statuses)
    wait_until(lambda: gateway.fetch().status == 200)


# ---- connections ----

def test_over_limits_connections_it_stops_accepting(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream, limits={"connections": 3})
    with connections(gateway, 3) as clients:
        for client in clients:
            assert client.request().read_response().status == 200
        with RawClient(gateway) as waiting:
            waiting.request()
            waiting.expect_silence(0.3)  # neither served nor closed
            assert gateway.metric("prazo_connections") == 3
            clients.pop().close()
            assert waiting.read_response(timeout=2).status == 200
    gateway.wait_metric("prazo_connections", 0)


def test_probes_answer_over_limits_connections(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream, limits={"connections": 1})
    with connections(gateway, 3):
        gateway.wait_metric("prazo_connections", 1)
        assert gateway.admin("/readyz").status == 200
        assert gateway.admin("/healthz").status == 200


# ---- memory ----

def test_idle_connections_own_little(gateway_factory, upstream):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    gateway = gateway_factory(upstream=upstream, log={"requests": "none"})
    with connections(gateway, 100) as clients:
        for client in clients:
            client.request().read_response()
        before = gateway.rss()
        with connections(gateway, 1500) as more:
            for client in more:
                client.request().read_response()
            grown = gateway.rss() - before
    assert grown / 1500 < (20_000 if IS_SANITIZED else 2048), grown
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_slow_readers_take_no_more_than_the_answer_buffer(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream, limits={"answer_buffer": "256KiB"})
    upstream.handler = (200, b"x" * (16 * MIB))
    assert gateway.fetch().status == 200
    before = gateway.rss()
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(gateway.client(rcvbuf=4096)) for _ in range(20)]
        for client in clients:
            client.request().read_head()
        gateway.wait_metric("prazo_in_flight", 20)
        assert gateway.cpu_share(0.3) < 0.3  # all wait for the clients
        assert gateway.rss() - before < 20 * 0.75 * MIB * (3 if IS_SANITIZED else 1)
    gateway.wait_metric("prazo_in_flight", 0)


def test_uploads_to_a_slow_upstream_are_held_up(gateway_factory, upstream_factory):
    def handler(conn, _request):
        conn.pause_reading()
        conn.upstream.stopping.wait()
    upstream = upstream_factory(early=True, handler=handler, rcvbuf=4096)
    gateway = gateway_factory(upstream=upstream)
    before = gateway.rss()
    with connections(gateway, 10) as clients:
        for client in clients:
            client.request("POST", "/", {"content-length": 1 << 30})
        upstream.wait_for_requests(10)
        for client in clients:
            client.sock.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    client.sock.send(b"x" * 65536)
        assert gateway.cpu_share(0.3) < 0.3
        assert gateway.rss() - before < 10 * MIB * (3 if IS_SANITIZED else 1)


def test_slow_reader_has_time_for_its_last_answer(gateway_factory, upstream):
    """The bytes that wait for it are not counted as a connection that does not want to end."""
    gateway = gateway_factory(upstream=upstream, limits={"answer_buffer": "16MiB"}, deadline="2s")
    body = bytes(range(256)) * (24 << 10)
    upstream.handler = (200, body)
    with gateway.client(rcvbuf=4096) as client, Stopwatch() as watch:
        client.request(headers={"connection": "close"}).read_head()
        gateway.wait_metric("prazo_in_flight", 0)
        wait_until(lambda: watch.ms > 2300, 5)
        assert client.recv_exactly(len(body)) == body
        assert client.recv_end() == "fin"


# ---- the log ----

@pytest.mark.parametrize("redirect", ["2>/dev/full", "2>&-"])
def test_log_that_cannot_be_written_harms_nobody(gateway_factory, upstream, redirect):
    gateway = gateway_factory(upstream=upstream,
                              prefix=["sh", "-c", f'exec "$@" {redirect}', "sh"])
    with gateway.client() as client:
        for _ in range(500):
            assert client.request().read_response().status == 200
    assert gateway.cpu_share(0.2) < 0.3
    assert gateway.terminate() == 0


def test_log_reader_that_has_gone_harms_nobody(gateway_factory, upstream):
    reading, writing = os.pipe()
    gateway = gateway_factory(upstream=upstream, pass_fds=(writing,),
                              prefix=["bash", "-c", f'exec "$@" 2>&{writing}', "bash"])
    os.close(writing)
    os.close(reading)  # from now on: EPIPE and SIGPIPE
    with gateway.client() as client:
        for _ in range(500):
            assert client.request().read_response().status == 200
    assert gateway.terminate() == 0


def test_log_reader_that_stalls_holds_nobody_up(gateway_factory, upstream):
    reading, writing = os.pipe()
    gateway = gateway_factory(upstream=upstream, pass_fds=(writing,),
                              prefix=["bash", "-c", f'exec "$@" 2>&{writing}', "bash"])
    os.close(writing)
    with gateway.client() as client:
        head = b"GET /" + b"a" * 700 + b" HTTP/1.1\r\nhost: a\r\n\r\n"
        for _ in range(40):
            client.send(head * 50)
            for _ in range(50):
                assert client.read_response().status == 200
    gateway.wait_metric("prazo_log_dropped_total", lambda n: n > 0)
    with Stopwatch() as watch:
        assert gateway.terminate() == 0
    watch.assert_between(0, 4000)
    os.close(reading)


# ---- leaks ----

class Leaver(threading.Thread):
    """Starts requests and leaves at random moments, in every way there is."""

    def __init__(self, gateway, seed, over):
        super().__init__(daemon=True)
        self.gateway, self.draw, self.over = gateway, random.Random(seed), over
        self.count = 0

    def run(self):
        while not self.over.is_set():
            with contextlib.suppress(OSError):
                self.leave_one()
            self.count += 1

    def leave_one(self):
        draw = self.draw
        client = RawClient(self.gateway)
        body = b"x" * draw.choice((0, 10, 100_000))
        request = (f"POST /{draw.random()} HTTP/1.1\r\nhost: a\r\n"
                   f"content-length: {len(body)}\r\n\r\n").encode() + body
        client.send(request[:draw.randrange(1, len(request) + 1)])
        if draw.random() < 0.5:
            client.sock.settimeout(draw.random() * 0.02)
            with contextlib.suppress(TimeoutError):
                client.sock.recv(draw.choice((1, 4096)))
        draw.choice((client.close, client.reset, client.half_close))()
        client.close()


def run_load(gateway, count):
    """wrk over keep-alive connections until that many requests were counted, leavers beside it."""
    over = threading.Event()
    leavers = [Leaver(gateway, seed, over) for seed in range(3)]
    before = gateway.metric("prazo_requests_total")
    load = subprocess.Popen(["wrk", "-t", "1", "-c", "32", "-d", "3600",
                             f"http://{gateway.address}/"],
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for leaver in leavers:
            leaver.start()
        gateway.wait_metric("prazo_requests_total", lambda n: n - before >= count,
                            timeout=max(30, count / 1000))
    finally:
        load.kill()
        load.wait()
        over.set()
        for leaver in leavers:
            leaver.join()
    gateway.wait_metric("prazo_in_flight", 0)
    gateway.wait_metric("prazo_connections", 0)
    return sum(leaver.count for leaver in leavers)


def test_memory_and_descriptors_come_back(gateway_factory, demo_factory):
    demo = demo_factory(workers=50, service="0ms")
    gateway = gateway_factory(upstream=demo, log={"requests": "none"}, deadline="2s",
                              app={"abandon_wait": "100ms",
                                   "connections": {"idle_timeout": "100ms"}})
    idle_fds = gateway.fds()
    run_load(gateway, REQUESTS // 5)  # pools and caches reach their size
    gateway.wait_metric("prazo_upstream_connections", 0)
    rss = gateway.rss()
    assert run_load(gateway, REQUESTS) > 50
    gateway.wait_metric("prazo_upstream_connections", 0)
    wait_until(lambda: gateway.fds() <= idle_fds + 1)
    assert gateway.rss() - rss < (64 if IS_SANITIZED else 2) * MIB
    assert gateway.metric("prazo_queue_depth") == 0


def test_peers_that_send_nothing_cost_nothing(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream, limits={"idle": "200ms", "header_time": "200ms"})
    idle_fds = gateway.fds()
    with connections(gateway, 50) as clients:
        for client in clients[:25]:
            client.send("GET / HT")
        for client in clients[25:]:
            assert client.recv_end(timeout=2) == "fin"
        for client in clients[:25]:
            assert client.read_response().problem == "request-timeout"
            client.sock.shutdown(socket.SHUT_WR)
        wait_until(lambda: gateway.fds() <= idle_fds + 1)
