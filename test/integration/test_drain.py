# SPDX-License-Identifier: MIT
"""Start and end of the process: SIGTERM, addresses in use, inherited sockets (contract 7, 12)."""

import os
import signal
import socket
import subprocess
import sys
import threading

import pytest

from support import (PRAZO, ConnectionEnded, RawClient, Stopwatch, deadline_headers, fetch,
                     free_address, prazo, release_address, wait_until)
from support.net import listen


def is_ready(gateway):
    return gateway.admin("/readyz").status == 200


def wait_not_ready(gateway):
    wait_until(lambda: not is_ready(gateway), 1, "readiness to turn false")


@pytest.fixture
def let_go():
    return threading.Event()


def held_until(event):
    return lambda conn, _: conn.hold(event) and conn.respond(200)


# ---- draining ----

class KeepAliveClient(threading.Thread):
    """Ten requests a second on one connection; moves to another instance when an answer says that
    the connection ends."""

    def __init__(self, gateway, other):
        super().__init__(daemon=True)
        self.gateway, self.other = gateway, other
        self.told_to_leave = self.late = 0
        self.signalled = threading.Event()
        self.over = threading.Event()
        self.error = None

    def run(self):
        try:
            client, here = RawClient(self.gateway), True
            while not self.over.is_set():
                was_signalled = self.signalled.is_set()
                answer = client.request("GET", "/").read_response()
                assert answer.status == 200, answer
                if here and was_signalled:
                    self.late += 1
                    assert answer.header("connection") == "close", answer
                if answer.header("connection") == "close":
                    client.close()
                    self.told_to_leave += here
                    client, here = RawClient(self.other), False
                self.over.wait(0.1)
            client.close()
        except BaseException as error:
            self.error = error


# C092
def test_c092_rolling_restart_is_not_noticed(gateway_factory, upstream):
    shutdown = {"delay": "1s", "drain": "5s"}
    gateway = gateway_factory(upstream=upstream, shutdown=shutdown)
    other = gateway_factory(upstream=upstream)
    clients = [KeepAliveClient(gateway, other) for _ in range(50)]
    for client in clients:
        client.start()
    gateway.wait_metric("prazo_connections", 50)
    gateway.signal(signal.SIGTERM)
    wait_not_ready(gateway)
    for client in clients:
        client.signalled.set()
    with Stopwatch() as watch:
        assert gateway.wait() == 0
    watch.assert_between(900, 5000)
    for client in clients:
        client.over.set()
    for client in clients:
        client.join()
        assert client.error is None, client.error
        assert client.told_to_leave == 1
    assert sum(client.late for client in clients) > 0


def test_listeners_serve_on_during_the_delay(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream, shutdown={"delay": "800ms", "drain": "1s"})
    with gateway.client() as kept:
        kept.request().read_response()
        with Stopwatch() as watch:
            gateway.signal(signal.SIGTERM)
            wait_not_ready(gateway)
            answer = kept.request().read_response()
            assert (answer.status, answer.header("connection")) == (200, "close")
            assert kept.recv_end() == "fin"
            while watch.ms < 700:
                answer = gateway.fetch()
                assert (answer.status, answer.header("connection")) == (200, "close")
            assert gateway.admin("/healthz").status == 200
            assert gateway.wait() == 0
        watch.assert_between(780, 4000)


def test_listeners_stay_until_nobody_has_come_for_a_second(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream, shutdown={"delay": "1ms", "drain": "5s"})
    gateway.fetch()
    with Stopwatch() as watch:
        gateway.signal(signal.SIGTERM)
        wait_not_ready(gateway)
        while watch.ms < 1200:
            assert gateway.fetch().status == 200
        assert gateway.wait() == 0
    watch.assert_between(2100, 3500)


def test_clients_that_never_stop_do_not_keep_it_alive(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream, shutdown={"delay": "1ms", "drain": "500ms"})
    gateway.signal(signal.SIGTERM)
    with Stopwatch() as watch:
        while gateway.is_running():
            try:
                gateway.fetch()
            except (OSError, ConnectionEnded):
                pass
        assert gateway.wait() == 0
    watch.assert_between(450, 1400)


def test_request_in_flight_finishes(gateway_factory, upstream, let_go):
    gateway = gateway_factory(upstream=upstream, shutdown={"delay": "1ms", "drain": "4s"})
    upstream.handler = held_until(let_go)
    with gateway.client() as client:
        client.request("GET", "/", deadline_headers(8000))
        upstream.wait_for_requests(1)
        gateway.signal(signal.SIGTERM)
        wait_until(lambda: not can_connect(gateway.address), 5)  # the listener has closed
        let_go.set()
        answer = client.read_response()
        assert (answer.status, answer.header("connection")) == (200, "close")
        assert client.recv_end() == "fin"
    assert gateway.wait() == 0


def can_connect(address):
    try:
        RawClient(address, timeout=1).close()
        return True
    except OSError:
        return False


def test_request_in_flight_meets_its_own_deadline(gateway_factory, upstream, let_go):
    gateway = gateway_factory(upstream=upstream, shutdown={"delay": "1ms", "drain": "5s"})
    upstream.handler = held_until(let_go)
    with gateway.client() as client, Stopwatch() as watch:
        client.request("GET", "/", deadline_headers(400))
        upstream.wait_for_requests(1)
        gateway.signal(signal.SIGTERM)
        answer = client.read_response()
        watch.assert_between(370, 470)
        assert (answer.status, answer.problem) == (504, "deadline-exceeded")
    assert gateway.wait() == 0


@pytest.mark.parametrize("begun", [False, True])
def test_what_takes_longer_than_the_drain_is_cut(gateway_factory, upstream, begun):
    gateway = gateway_factory(upstream=upstream, shutdown={"delay": "1ms", "drain": "300ms"})

    def handler(conn, _request):
        if begun:
            conn.respond_chunked([b"some"], end=False)
        conn.wait_for_close()
    upstream.handler = handler
    with gateway.client() as client:
        client.request("GET", "/", deadline_headers(9000))
        if begun:
            client.read_head()
        upstream.wait_for_requests(1)
        with Stopwatch() as watch:
            gateway.signal(signal.SIGTERM)
            if begun:
                with pytest.raises((ConnectionEnded, AssertionError)):
                    client.recv_until(b"0\r\n\r\n")
            else:
                answer = client.read_response()
                assert (answer.status, answer.problem) == (503, "draining")
                assert answer.header("retry-after")
            assert gateway.wait() == 0
        watch.assert_between(550, 2000)
    upstream.connections[0].wait_for_close(1)


def test_slow_reader_gets_all_of_its_answer(gateway_factory, upstream):
    """The request has ended, its bytes wait for the client."""
    gateway = gateway_factory(upstream=upstream, shutdown={"delay": "1ms", "drain": "4s"},
                              limits={"answer_buffer": "16MiB"})
    body = b"0123456789abcdef" * (8 << 16)
    upstream.handler = (200, body)
    with gateway.client(rcvbuf=4096) as client:
        client.request().read_head()
        gateway.wait_metric("prazo_in_flight", 0)
        gateway.signal(signal.SIGTERM)
        wait_until(lambda: not can_connect(gateway.address), 5)
        assert client.recv_exactly(len(body)) == body
    assert gateway.wait() == 0


def test_idle_connections_end_when_the_listeners_close(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream, shutdown={"delay": "300ms", "drain": "5s"})
    with gateway.client() as never_used, gateway.client() as idle:
        idle.request().read_response()
        gateway.wait_metric("prazo_connections", 2)
        with Stopwatch() as watch:
            gateway.signal(signal.SIGTERM)
            assert idle.recv_end() == "fin"
            assert never_used.recv_end() == "fin"
            assert gateway.wait() == 0
        watch.assert_between(290, 2000)


def test_second_signal_ends_at_once(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream, shutdown={"delay": "10s", "drain": "10s"})
    upstream.handler = lambda conn, _: conn.wait_for_close() and None
    with gateway.client() as client:
        client.request("GET", "/", deadline_headers(9000))
        upstream.wait_for_requests(1)
        gateway.signal(signal.SIGTERM)
        wait_not_ready(gateway)
        with Stopwatch() as watch:
            gateway.signal(signal.SIGTERM)
            assert gateway.wait() == 0
        watch.assert_between(0, 500)


def test_reload_while_draining_changes_nothing(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream, shutdown={"delay": "500ms", "drain": "1s"})
    gateway.signal(signal.SIGTERM)
    wait_not_ready(gateway)
    gateway.signal(signal.SIGHUP)
    assert gateway.fetch().status == 200
    assert gateway.wait() == 0


def test_abandoned_attempt_does_not_keep_it_alive(gateway_factory, upstream):
    gateway = gateway_factory(upstream=upstream)
    upstream.handler = lambda conn, _: conn.work(5)
    client = gateway.client()
    client.request()
    upstream.wait_for_requests(1)
    client.close()
    gateway.wait_metric("prazo_client_gone_total", 1)
    with Stopwatch() as watch:
        assert gateway.terminate() == 0
    watch.assert_between(0, 1500)


# ---- starting ----

@pytest.mark.parametrize("which, family", [
    ("listen", "ipv4"), ("listen", "ipv6"), ("listen", "unix"), ("probe", "ipv4"),
    ("probe", "ipv6")])
def test_address_in_use_is_named(gateway_factory, upstream, which, family):
    taken = free_address(family)
    holder = listen(taken)
    try:
        gateway = gateway_factory(upstream=upstream, wait=False, **{which: taken})
        gateway.expected_exit = 2
        assert gateway.wait(5) == 2
        text = gateway.stderr_text()
        assert taken in text and "use" in text
    finally:
        holder.close()
        release_address(taken)


def test_unix_socket_that_nobody_listens_on_is_replaced(gateway_factory, upstream):
    address = free_address("unix")
    listen(address).close()
    assert os.path.exists(address[5:])
    gateway = gateway_factory(upstream=upstream, listen=address)
    assert gateway.fetch().status == 200
    release_address(address)


INHERIT = """
import os, sys
for at, fd in enumerate(map(int, sys.argv[1].split(","))):
    os.dup2(fd, 3 + at)
    os.set_inheritable(3 + at, True)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(sys.argv[1].split(","))))
os.execv(sys.argv[2], sys.argv[2:])
"""


def test_sockets_may_be_inherited(gateway_factory, upstream):
    """Connections that came before the start are served: the socket is the same one."""
    address = free_address()
    listener = listen(address)
    high = os.dup2(listener.fileno(), 60)
    with RawClient(address) as early:
        early.request("GET", "/early")
        gateway = gateway_factory(
            upstream=upstream, listen=address, pass_fds=(high,),
            prefix=[sys.executable, "-c", INHERIT, str(high)])
        os.close(high)
        listener.close()
        assert early.read_response().status == 200
        assert gateway.fetch().status == 200
    gateway.terminate()
    release_address(address)


def test_restart_on_an_inherited_socket_refuses_nobody(gateway_factory, upstream):
    address = free_address()
    listener = listen(address)
    high = os.dup2(listener.fileno(), 61)
    over, errors, served = threading.Event(), [], []

    def connect_again_and_again():
        while not over.is_set():
            try:
                served.append(fetch(address).status)
            except BaseException as error:
                errors.append(error)
    thread = threading.Thread(target=connect_again_and_again)
    try:
        gateways = []
        for _ in range(3):
            gateways.append(gateway_factory(
                upstream=upstream, listen=address, pass_fds=(high,),
                shutdown={"delay": "1ms", "drain": "2s"},
                prefix=[sys.executable, "-c", INHERIT, str(high)]))
            if not thread.is_alive():
                thread.start()
            count = len(served)
            wait_until(lambda n=count: len(served) > n + 10)
            if len(gateways) > 1:
                gateways[-2].signal(signal.SIGTERM)
                count = len(served)
                wait_until(lambda n=count: len(served) > n + 50)
        over.set()
        thread.join()
    finally:
        over.set()
        os.close(high)
        listener.close()
        release_address(address)
    assert not errors, errors[:3]
    assert set(served) == {200}


def test_ready_only_when_it_serves(gateway_factory, upstream):
    for _ in range(5):
        gateway = gateway_factory(upstream=upstream)
        assert gateway.fetch().status == 200  # the factory waited for /readyz
        gateway.terminate()


def test_run_without_a_file(upstream):
    address = free_address()
    process = subprocess.Popen(
        [PRAZO, "run", "--listen", address, "--to", upstream.address],
        stderr=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: can_connect(address))
        assert fetch(address).status == 200
        process.send_signal(signal.SIGHUP)
        assert fetch(address).status == 200
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        assert process.wait(15) == 0
    finally:
        process.kill()
        process.communicate()
        release_address(address)


def test_check_validates_and_starts_nothing(tmp_path, upstream):
    address = free_address()
    good = tmp_path / "good.yaml"
    good.write_text(f"listen: {address}\nupstream: {upstream.address}\n")
    with socket.socket() as holder:
        host, port = address.rsplit(":", 1)
        holder.bind((host, int(port)))
        assert prazo("run", "--check", good).returncode == 0
    bad = tmp_path / "bad.yaml"
    bad.write_text(f"listen: {address}\nupstream: {upstream.address}\nlimits: {{uri: 5}}\n")
    for args in (("run", "--check", bad), ("run", bad)):
        done = prazo(*args)
        assert done.returncode == 1
        assert f"{bad}:3:15: error: limits.uri" in done.stderr
    missing = prazo("run", tmp_path / "none.yaml")
    assert missing.returncode == 1 and "none.yaml" in missing.stderr
    release_address(address)
    assert upstream.connections == []
