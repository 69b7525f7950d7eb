# SPDX-License-Identifier: MIT
"""`prazo demo` by itself: its queue, its books, its handling of callers that leave."""

import json
import resource
import select
import signal
import statistics
import threading

import pytest

from support import (Demo, RawClient, ScriptedUpstream, Stopwatch, fetch, free_address, prazo,
                     wait_until)


def control(demo, body, method="PUT", path="/_control"):
    return fetch(demo.address, path, method, body=body)


def start_requests(demo, count, target="/work"):
    """Connections with one request each, in the order of the list."""
    clients = []
    for number in range(count):
        client = RawClient(demo).request("GET", target)
        wait_until(lambda wanted=number + 1: demo.stats()["arrived"] == wanted)
        clients.append(client)
    return clients


def close_all(clients):
    for client in clients:
        client.close()


@pytest.mark.parametrize("family", ["ipv4", "ipv6", "unix"])
def test_any_path_is_work(demo_factory, family):
    demo = demo_factory(family=family, service="5ms")
    with RawClient(demo) as client:
        for method, target, body in (("GET", "/", None), ("POST", "/orders?x=1", b"data"),
                                     ("DELETE", "/_statsx", None)):
            answer = client.request(method, target, body=body).read_response()
            assert (answer.status, answer.body) == (200, b"ok\n")
            assert answer.header("content-type") == "text/plain"
        answer = client.request("HEAD", "/").read_response()
        assert (answer.status, answer.header("content-length")) == (200, "3")
    stats = demo.stats()
    assert (stats["arrived"], stats["done"]) == (4, 4)
    assert f"listening on {demo.address}, 50 workers, service time 5 ms\n" in demo.stderr_text()


def test_service_time_is_kept(demo_factory):
    demo = demo_factory(service="120ms")
    with Stopwatch() as watch:
        assert fetch(demo.address).status == 200
    watch.assert_between(119, 400)


def test_queue_is_first_come_first_served(demo_factory):
    demo = demo_factory(workers=1, service="1h")
    blocker, *clients = start_requests(demo, 5)
    demo.control(service_ms=30)
    blocker.close()
    answered, waiting = [], {client.sock: client for client in clients}
    while waiting:  # those that are seen together came in an order that nobody can tell
        for sock in select.select(list(waiting), [], [], 5)[0]:
            answered.append(waiting.pop(sock))
    assert answered == clients
    for client in clients:
        assert client.read_response().status == 200
    stats = demo.stats()
    assert (stats["done"], stats["busy"], stats["queued"]) == (4, 0, 0)
    assert stats["max_concurrency"] == 1
    close_all(clients)


def test_questions_do_not_wait_behind_work(demo_factory):
    demo = demo_factory(workers=1, service="1h")
    clients = start_requests(demo, 5)
    with Stopwatch() as watch:
        stats = demo.stats()
    watch.assert_between(0, 200)
    assert (stats["busy"], stats["queued"]) == (1, 4)
    demo.control(workers=3)
    stats = demo.stats()
    assert (stats["busy"], stats["queued"]) == (3, 2)
    close_all(clients)


def test_caller_that_leaves_is_cancelled(demo_factory):
    demo = demo_factory(workers=1, service="1h")
    worked_on, waiting, last = start_requests(demo, 3)
    waiting.reset()
    wait_until(lambda: demo.stats()["cancelled"] == 1)
    assert (demo.stats()["busy"], demo.stats()["queued"]) == (1, 1)
    worked_on.close()
    wait_until(lambda: demo.stats()["cancelled"] == 2)
    stats = demo.stats()
    assert (stats["busy"], stats["queued"], stats["orphan"]) == (1, 0, 0)
    last.close()


# C011
def test_c011_ignored_hang_up_makes_an_orphan(demo_factory):
    """The service that the cascade needs: it works on, and answers whoever still reads."""
    demo = demo_factory(workers=1, service="1h", ignore_cancel=True)
    worked_on, gone, listening = start_requests(demo, 3)
    worked_on.close()
    gone.reset()
    listening.half_close()
    wait_until(lambda: demo.stats()["abandoned"] == 3)
    assert demo.control(service_ms=1, workers=2)["ignore_cancel"]
    answer = listening.read_response()
    assert (answer.status, answer.body) == (200, b"ok\n")
    stats = wait_until(lambda: (s := demo.stats())["orphan"] == 2 and s)
    assert (stats["done"], stats["cancelled"], stats["queued"]) == (0, 0, 0)
    assert (stats["busy"], stats["abandoned"]) == (1, 1)
    assert stats["orphan_ms"] >= 3  # one of them waited for the other
    listening.close()


def test_settings_change_while_it_runs(demo_factory):
    demo = demo_factory(workers=2, service="1h")
    held = start_requests(demo, 1)
    assert demo.control(service_ms=10) == {"service_ms": 10, "workers": 2, "ignore_cancel": False}
    assert fetch(demo.address).status == 200
    assert demo.control(service_ms=0.5, workers=7, ignore_cancel=True) == {
        "service_ms": 0.5, "workers": 7, "ignore_cancel": True}
    assert demo.control() == {"service_ms": 0.5, "workers": 7, "ignore_cancel": True}
    assert demo.stats()["busy"] == 1
    close_all(held)


@pytest.mark.parametrize("body,says", [
    (b"", "malformed JSON"),
    (b"{", "malformed JSON"),
    (b"\xff", "malformed JSON"),
    (b"[]", "expected a JSON object"),
    (b'{"service_ms":"4s"}', "service_ms has to be a number"),
    (b'{"workers":0}', "workers has to be a whole number"),
    (b'{"ignore_cancel":"yes"}', "ignore_cancel has to be true or false"),
    (b'{"worker\\u001b[31ms":1}', 'unknown member "worker'),
])
def test_wrong_settings_are_refused(demo_factory, body, says):
    demo = demo_factory(workers=3)
    answer = control(demo, body)
    assert (answer.status, answer.header("content-type")) == (400, "application/json")
    assert answer.json["error"].startswith(says)
    assert b"\x1b" not in answer.body
    assert demo.control()["workers"] == 3


def test_settings_that_are_too_long(demo_factory):
    demo = demo_factory()
    assert control(demo, b" " * 4097).status == 413
    assert control(demo, b" " * 4000 + b"{}").status == 200


def test_wrong_methods(demo_factory):
    demo = demo_factory()
    answer = control(demo, None, "GET")
    assert (answer.status, answer.header("allow")) == (405, "PUT")
    answer = control(demo, b"x", "POST", "/_stats")
    assert (answer.status, answer.header("allow")) == (405, "GET, HEAD")
    assert demo.stats()["arrived"] == 0


def test_expect_continue(demo_factory):
    demo = demo_factory(service="1ms")
    with RawClient(demo) as client:
        client.request("POST", "/", {"expect": "100-continue", "content-length": 3})
        assert client.read_informational().status == 100
        client.send(b"abc")
        assert client.read_response("POST").status == 200


def test_malformed_request(demo_factory):
    demo = demo_factory()
    with RawClient(demo) as client:
        client.send("GET / HTTP/1.1\r\nhost: a\r\nbad header: x\r\n\r\n")
        assert client.read_response().status == 400
        assert client.recv_end() == "fin"
    with RawClient(demo) as client:
        client.request("POST", "/", {"transfer-encoding": "chunked"}).send(b"zz\r\n")
        assert client.read_response("POST").status == 400
    assert demo.stats()["arrived"] == 0


@pytest.mark.parametrize("dist", ["exp", "bimodal"])
def test_drawn_service_times(demo_factory, dist):
    """Waiting in parallel, so that the draws take no longer than the longest of them."""
    demo = demo_factory(workers=400, service="50ms", dist=dist, seed=7)
    seconds = []

    def measure():
        with Stopwatch() as watch:
            assert fetch(demo.address).status == 200
        seconds.append(watch.ms)
    threads = [threading.Thread(target=measure) for _ in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seconds) == 100
    assert statistics.median(seconds) < statistics.mean(seconds)
    assert max(seconds) > 120  # with a fixed time none would be far above 50 ms
    assert min(seconds) < 50


def test_ten_thousand_wait(demo_factory):
    """Pipelined on a few connections they would count as few: each needs its own."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    demo = demo_factory(workers=10, service="1h")
    clients = []
    try:
        for _ in range(10000):
            clients.append(RawClient(demo).request("GET", "/"))
        wait_until(lambda: demo.stats()["arrived"] == 10000, 20)
        assert demo.stats()["queued"] == 9990
        demo.control(service_ms=0, workers=1000)
        assert demo.rss() < 200 << 20
    finally:
        close_all(clients)
    wait_until(lambda: demo.stats()["cancelled"] >= 10, 20)
    wait_until(lambda: (s := demo.stats())["busy"] + s["queued"] == 0, 20)


def test_more_than_it_can_hold_is_refused(demo_factory):
    """The bound follows the limit of descriptors, with some left for questions."""
    demo = demo_factory(workers=1, service="1h", nofile=400)
    clients = [RawClient(demo).request() for _ in range(256)]
    wait_until(lambda: demo.stats()["arrived"] == 256)
    answer = fetch(demo.address)
    assert (answer.status, answer.json["error"]) == (503, "too many requests wait here already")
    assert demo.stats()["refused"] == 1
    assert demo.control(workers=2)["workers"] == 2
    clients.pop().close()
    wait_until(lambda: demo.stats()["cancelled"] == 1)
    clients.append(RawClient(demo).request())
    wait_until(lambda: demo.stats()["arrived"] == 257)
    close_all(clients)


def test_address_in_use_is_told():
    with ScriptedUpstream() as other:
        ended = prazo("demo", "--listen", other.address)
    assert ended.returncode == 2
    assert f"cannot listen on {other.address}: address already in use" in ended.stderr


def test_unusable_address_is_told():
    ended = prazo("demo", "--listen", "localhost:x")
    assert ended.returncode == 2
    assert "127.0.0.1:9100" in ended.stderr


@pytest.mark.parametrize("ends_by", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_it_with_work_under_way(ends_by):
    demo = Demo(address=free_address(), workers=1, service="1h", ignore_cancel=True)
    clients = start_requests(demo, 3)
    arriving = RawClient(demo).request("POST", "/", {"content-length": 5})
    settings = RawClient(demo).request("PUT", "/_control", {"content-length": 5})
    demo.signal(ends_by)
    assert demo.wait() == 0
    close_all([*clients, arriving, settings])
    demo.close()


def test_stats_are_json_with_all_members(demo_factory):
    answer = fetch(demo_factory().address, "/_stats")
    assert answer.header("content-type") == "application/json"
    assert set(json.loads(answer.body)) == {"arrived", "done", "orphan", "orphan_ms", "cancelled",
                                            "refused", "busy", "queued", "abandoned",
                                            "max_concurrency"}
