# SPDX-License-Identifier: MIT
"""The admin and the probe port, and what deploy/ makes of the metrics."""

import json
import random
import re
import subprocess
from pathlib import Path

import pytest

from support import RawClient, fetch, free_address, prazo, release_address, wait_until

ROOT = Path(__file__).resolve().parents[2]
OPEN_METRICS = "application/openmetrics-text"
OWN_METRIC = re.compile(r"\b(?:prazo|process)_[a-z_]+")


@pytest.fixture
def gateway(gateway_factory, upstream):
    return gateway_factory(upstream=upstream)


@pytest.fixture
def address():
    """A free one, for a probe port."""
    found = free_address()
    yield found
    release_address(found)


def promtool(*args, text=None):
    return subprocess.run(["promtool", *map(str, args)], input=text, text=True, timeout=30,
                          capture_output=True, check=False)


# ---- pages ----

def test_pages_answer_and_are_not_stored(gateway):
    for target in ("/healthz", "/readyz", "/metrics", "/api/state", "/problems/",
                   "/problems/overloaded"):
        answer = gateway.admin(target)
        assert (target, answer.status) == (target, 200)
        assert answer.header("cache-control") == "no-store"
        head = gateway.admin(target, method="HEAD")
        assert (target, head.status, head.body) == (target, 200, b"")


def test_what_is_not_there_is_a_problem(gateway):
    answer = gateway.admin("/nothing", headers={"x-request-id": "abc"})
    assert (answer.status, answer.problem) == (404, "no-route")
    assert answer.json["instance"] == "urn:prazo:request:abc"
    answer = gateway.admin("/metrics", method="POST", body=b"x" * 1000)
    assert (answer.status, answer.problem) == (405, "method-not-allowed")
    assert answer.header("allow") == "GET, HEAD"


def test_connection_is_used_again(gateway):
    with RawClient(gateway.admin_address) as client:
        for _ in range(3):
            client.request("GET", "/healthz", headers={"host": "localhost"})
            assert client.read_response().status == 200


def test_every_listed_problem_has_its_page(gateway):
    names = re.findall(r"^/problems/(\S+) +(\d{3})", gateway.admin("/problems/").text, re.M)
    assert len(names) > 10
    for name, status in names:
        page = gateway.admin(f"/problems/{name}").text
        assert page.startswith(f"## {name}\n") and f"`{status}`" in page


def test_state_is_json_and_counts(gateway):
    gateway.fetch("/x")
    wait_until(lambda: gateway.metric("prazo_requests_total", code="2xx") == 1, 5)
    state = gateway.admin("/api/state").json
    assert state["ready"] is True
    assert [up["name"] for up in state["upstreams"]] == ["app"]
    app = state["upstreams"][0]
    assert app["amplification"] == 1.0 and app["requests"] == 1
    assert len(app["ok"]["buckets"]) == len(state["bucket_bounds_ms"]) + 1
    assert sum(app["ok"]["buckets"]) == 1
    assert sum(server["attempts"]["ok"] for server in app["servers"]) == 1


# ---- the stream ----

def open_stream(gateway):
    client = RawClient(gateway.admin_address)
    client.request("GET", "/api/stream", headers={"host": "localhost"})
    return client


def test_stream_sends_the_state_every_second(gateway):
    with open_stream(gateway) as client:
        head = client.read_head()
        assert (head.status, head.header("content-type")) == (200, "text/event-stream")
        for _ in range(2):
            event = client.recv_until(b"\n\n")
            document = event[event.index(b"data: ") + 6:]
            assert json.loads(document)["ready"] is True


def test_streams_are_bounded(gateway):
    clients = [open_stream(gateway) for _ in range(16)]
    for client in clients:
        assert client.read_head().status == 200
    with open_stream(gateway) as one_more:
        answer = one_more.read_response()
        assert (answer.status, answer.problem) == (503, "overloaded")
        assert answer.json["reason"] == "limit" and int(answer.header("retry-after")) >= 1
    clients.pop().close()

    def is_let_in():
        with open_stream(gateway) as client:
            return client.read_head().status == 200
    wait_until(is_let_in, 5)
    for client in clients:
        client.close()


# ---- cross-site ----

@pytest.mark.parametrize("headers, status", [
    ({"host": "evil.example"}, 403),
    ({"host": "127.0.0.1", "origin": "http://evil.example"}, 403),
    ({"host": "127.0.0.1", "origin": "http://127.0.0.1"}, 200),
    ({"host": "127.0.0.1", "sec-fetch-site": "cross-site"}, 403),
    ({"host": "[::1]:9"}, 200),
    ({"host": "localhost"}, 200),
])
def test_other_sites_pages_are_refused(gateway, headers, status):
    assert gateway.admin("/api/state", headers=headers).status == status
    assert gateway.admin("/healthz", headers=headers).status == 200


def test_probe_port_has_three_pages_for_any_name(gateway_factory, upstream, address):
    gateway_factory(upstream=upstream, probe=address)
    for target, status in (("/healthz", 200), ("/readyz", 200), ("/metrics", 200),
                           ("/api/state", 404), ("/api/stream", 404), ("/problems/", 404)):
        answer = fetch(address, target, headers={"host": "gateway.prod"})
        assert (target, answer.status) == (target, status)


# ---- metrics ----

# C089
def test_c089_random_requests_make_no_series(gateway):
    before = gateway.admin("/metrics").text
    series = set(gateway.metrics())
    draw = random.Random(89)
    with gateway.client() as client:
        for _ in range(500):
            word = f"{draw.getrandbits(64):x}"
            client.request("GET", f"/{word}?{word}",
                           headers={"host": f"{word}.example", "idempotency-key": word})
            client.read_response()
    assert set(gateway.metrics()) == series
    assert len(gateway.admin("/metrics").text) - len(before) < 10_000


def test_both_formats_are_valid(gateway, tmp_path):
    gateway.fetch("/")
    plain = gateway.admin("/metrics")
    assert plain.header("content-type").startswith("text/plain; version=0.0.4")
    checked = promtool("check", "metrics", text=plain.text)
    assert checked.returncode == 0 and not checked.stdout + checked.stderr
    answer = gateway.admin("/metrics", headers={
        "accept": f"{OPEN_METRICS};version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.5"})
    assert answer.header("content-type").startswith(f"{OPEN_METRICS}; version=1.0.0")
    assert answer.text.endswith("\n# EOF\n")
    # promtool reads OpenMetrics only to import it, and then wants a time for each sample.
    timed = tmp_path / "metrics.txt"
    timed.write_text(re.sub(r"^([^#].*)$", r"\1 1700000000", answer.text, flags=re.M))
    read = promtool("tsdb", "create-blocks-from", "openmetrics", timed, tmp_path / "blocks")
    assert read.returncode == 0, read.stderr


def test_admin_requests_are_not_the_gateways_requests(gateway):
    for _ in range(3):
        gateway.admin("/healthz")
    assert gateway.metric("prazo_requests_total") == 0


# ---- deploy/ ----

def test_alerts_are_valid_and_amplification_is_first():
    rules = ROOT / "deploy/prometheus/alerts.yml"
    checked = promtool("check", "rules", "--lint-fatal", rules)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    expressions = re.findall(r"^ +expr: ((?:\|\n)?.*(?:\n {12}.*)*)", rules.read_text(), re.M)
    assert "prazo_amplification_ratio" in expressions[0]
    assert not any("_seconds_sum" in expression for expression in expressions)


def test_alerts_and_dashboard_use_metrics_that_exist(gateway):
    names = gateway.metrics().names()
    dashboard = json.loads((ROOT / "deploy/grafana/prazo.json").read_text())
    texts = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    texts += re.findall(r"^ +expr: (.*(?:\n {12}.*)*)",
                        (ROOT / "deploy/prometheus/alerts.yml").read_text(), re.M)
    used = {name for text in texts for name in OWN_METRIC.findall(text)}
    assert len(used) > 20
    assert used <= names


def test_version_is_the_one_in_build_info(gateway):
    [labels] = gateway.metrics().labels("prazo_build_info")
    assert labels["version"] in prazo("version").stdout
