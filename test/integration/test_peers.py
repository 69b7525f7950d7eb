# SPDX-License-Identifier: MIT
"""Clients and servers that nobody here wrote, on both sides: they understand the gateway, and it
understands them."""

import http.client
import http.server
import json
import os
import re
import signal
import subprocess
import threading
import time

import pytest

from support import SLACK, fetch, free_address, is_listening, release_address, wait_until
from support.net import parse_address, port_of

BIG = os.urandom(1 << 20)


def run(*command, input=None):
    """Its stdout, as bytes; it has to end with 0."""
    done = subprocess.run([str(part) for part in command], input=input, capture_output=True,
                          timeout=20 * SLACK)
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


class Server:
    """A server process on an address of its own."""

    def __init__(self, make_command):
        self.address = free_address()
        self.process = subprocess.Popen(make_command(self.address), stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT)
        try:
            wait_until(lambda: is_listening(self.address), 10, "the server")
        except AssertionError:
            self.process.kill()
            raise AssertionError(self.process.communicate()[0].decode()) from None

    def close(self):
        self.process.terminate()
        try:
            self.process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
        release_address(self.address)


NGINX = """
daemon off; worker_processes 1; pid {dir}/pid; error_log stderr crit; user root;
events {{ worker_connections 256; }}
http {{
    access_log off; default_type text/plain; etag on;
    client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy; fastcgi_temp_path {dir}/fcgi;
    uwsgi_temp_path {dir}/uwsgi; scgi_temp_path {dir}/scgi;
    server {{
        listen {address}; root {dir}/www; keepalive_requests 100000;
        location / {{ }}
        location /short {{ keepalive_requests 3; try_files /small =404; }}
        location /gzip {{ gzip on; gzip_min_length 1; gzip_types *; try_files /text =404; }}
        location /empty {{ return 204; }}
        location /limited {{ client_max_body_size 1k; try_files /small =404;
                             error_page 405 =200 /small; }}
    }}
}}
"""


@pytest.fixture
def nginx(tmp_path):
    (tmp_path / "www").mkdir()
    (tmp_path / "www" / "small").write_bytes(b"small\n")
    (tmp_path / "www" / "text").write_bytes(b"text " * 20_000)
    (tmp_path / "www" / "big").write_bytes(BIG)

    def command(address):
        config = tmp_path / "nginx.conf"
        config.write_text(NGINX.format(dir=tmp_path, address=address))
        return ["nginx", "-c", str(config), "-p", str(tmp_path)]
    server = Server(command)
    yield server
    server.close()


# What a Node server does when it is asked for it; /stats tells what became of the requests.
NODE_SERVER = """
const stats = { requests: 0, closed: 0 };
const server = require('http').createServer((req, res) => {
  if (req.url === '/stats') return res.end(JSON.stringify(stats));
  stats.requests++;
  res.on('close', () => { if (!res.writableFinished) stats.closed++; });
  if (req.url === '/hang') return;
  if (req.url === '/early') {
    res.writeEarlyHints({ link: '</a>; rel=preload' });
    return res.end('early');
  }
  if (req.url === '/trailers') {
    res.writeHead(200, { trailer: 'x-sum' });
    res.write('ab');
    res.addTrailers({ 'x-sum': '2' });
    return res.end();
  }
  if (req.url === '/die') { res.write('half'); return setImmediate(() => req.socket.destroy()); }
  if (req.url === '/refuse') { res.writeHead(413, { connection: 'close' }); return res.end('no'); }
  let bytes = 0;
  req.on('data', (data) => { bytes += data.length; });
  req.on('end', () => res.end(JSON.stringify({ bytes, method: req.method, headers: req.headers })));
});
server.on('upgrade', (req, socket) => {
  socket.write('HTTP/1.1 101 Switching Protocols\\r\\nconnection: upgrade\\r\\n' +
               'upgrade: websocket\\r\\n\\r\\n');
  socket.pipe(socket);
});
server.keepAliveTimeout = 1000;
server.listen(Number(process.argv[1]), '127.0.0.1');
"""


@pytest.fixture
def node_server():
    server = Server(lambda address: ["node", "-e", NODE_SERVER, str(port_of(address))])
    yield server
    server.close()


@pytest.fixture(params=["HTTP/1.0", "HTTP/1.1"])
def python_server(request):
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = request.param

        def answer(self):
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            reply = json.dumps({"method": self.command, "bytes": len(body)}).encode()
            self.send_response(200)
            if self.protocol_version == "HTTP/1.1":
                self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(reply)
        do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = answer

        def log_message(self, *_):
            pass
    address = free_address()
    server = http.server.ThreadingHTTPServer(parse_address(address)[1], Handler)
    server.address = address
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()
    release_address(address)


# ---- clients ----

def curl(gateway, *args, target="/", input=None):
    """(body, what -w says) of one curl."""
    out = run("curl", "-sS", "--max-time", 10 * SLACK, "-w",
              "\n%{http_code} %{num_connects} %{http_version}", *args,
              f"http://{gateway.address}{target}", input=input)
    body, _, line = out.rpartition(b"\n")
    return body, line.decode().split()


def test_curl_gets(gateway_factory, nginx):
    gateway = gateway_factory(upstream=nginx)
    assert curl(gateway, target="/small") == (b"small\n", ["200", "1", "1.1"])
    assert curl(gateway, target="/big")[0] == BIG
    assert curl(gateway, "--compressed", target="/gzip")[0] == b"text " * 20_000
    assert curl(gateway, "--http1.0", target="/big") == (BIG, ["200", "1", "1.1"])
    assert curl(gateway, target="/nothing")[1][0] == "404"
    assert curl(gateway, target="/empty") == (b"", ["204", "1", "1.1"])
    body, status = curl(gateway, "-I", target="/big")
    assert status[0] == "200" and b"content-length: 1048576\r\n" in body.lower()


def test_curl_reuses_its_connection(gateway_factory, nginx):
    gateway = gateway_factory(upstream=nginx)
    url = f"http://{gateway.address}/small"
    out = run("curl", "-sS", "-w", "%{num_connects}\n", *[url] * 10, "-o", "/dev/null")
    counts = [int(n) for n in re.findall(rb"^(\d)$", out, re.MULTILINE)]
    assert sum(counts) == 1


def test_curl_uploads(gateway_factory, node_server):
    gateway = gateway_factory(upstream=node_server)
    body, status = curl(gateway, "--data-binary", "@-", input=BIG * 2)  # with Expect: 100-continue
    assert status[0] == "200"
    assert json.loads(body)["bytes"] == 2 * len(BIG)
    body, _ = curl(gateway, "-H", "transfer-encoding: chunked", "-T", "-", input=BIG)
    seen = json.loads(body)
    assert (seen["bytes"], seen["method"]) == (len(BIG), "PUT")
    assert seen["headers"]["transfer-encoding"] == "chunked"
    body, _ = curl(gateway, "-X", "DELETE")
    assert not {"content-length", "transfer-encoding"} & set(json.loads(body)["headers"])
    body, _ = curl(gateway, "-H", "expect: 100-continue", "-d", "x")
    assert json.loads(body)["bytes"] == 1


def test_curl_as_its_proxy(gateway_factory, node_server):
    """The absolute form: the target's host wins."""
    gateway = gateway_factory(upstream=node_server)
    out = run("curl", "-sS", "-x", f"http://{gateway.address}", "http://a.example/x?y")
    headers = json.loads(out)["headers"]
    assert headers["host"] == "a.example"
    assert "proxy-connection" not in headers


def test_curl_hears_an_early_refusal(gateway_factory, node_server):
    gateway = gateway_factory(upstream=node_server)
    body, status = curl(gateway, "--data-binary", "@-", target="/refuse", input=BIG * 8)
    assert (body, status[0]) == (b"no", "413")


def test_curl_sees_a_cut_answer(gateway_factory, node_server):
    gateway = gateway_factory(upstream=node_server)
    done = subprocess.run(["curl", "-sS", f"http://{gateway.address}/die"], capture_output=True,
                          timeout=20)
    assert done.returncode in (18, 56)  # partial file, or failure in receiving
    assert done.stdout == b"half"


def test_curl_gives_up_and_so_does_the_server(gateway_factory, node_server):
    gateway = gateway_factory(upstream=node_server)
    done = subprocess.run(["curl", "-sS", "--max-time", "0.3", f"http://{gateway.address}/hang"],
                          capture_output=True, timeout=20)
    assert done.returncode == 28
    wait_until(lambda: fetch(node_server, "/stats").json["closed"] == 1)
    gateway.wait_metric("prazo_client_gone_total", 1, state="sent")


def test_wrk_finds_no_error(gateway_factory, nginx):
    gateway = gateway_factory(upstream=nginx)
    out = run("wrk", "-t1", "-c16", "-d1s", f"http://{gateway.address}/small").decode()
    assert "Socket errors" not in out and "Non-2xx" not in out, out
    requests = int(re.search(r"(\d+) requests in", out)[1])
    assert requests > 100
    gateway.wait_metric("prazo_requests_total", lambda n: n >= requests, code="2xx")
    assert gateway.metric("prazo_requests_total", code="5xx") == 0


@pytest.mark.parametrize("pipelined", [1, 8])
def test_h2load_finds_no_error(gateway_factory, nginx, pipelined):
    gateway = gateway_factory(upstream=nginx)
    out = run("h2load", "--h1", "-n", 2000, "-c", 8, "-m", pipelined, "-t", 1,
              f"http://{gateway.address}/small").decode()
    assert "2000 succeeded, 0 failed, 0 errored, 0 timeout" in out, out
    assert "status codes: 2000 2xx" in out
    wait_until(lambda: gateway.metric("prazo_requests_total", code="2xx") == 2000)


def test_python_http_client(gateway_factory, nginx):
    gateway = gateway_factory(upstream=nginx)
    client = http.client.HTTPConnection(gateway.address, timeout=10)
    sock = None
    for method, target, status, length in (
            ("GET", "/small", 200, 6), ("HEAD", "/big", 200, 0), ("GET", "/empty", 204, 0),
            ("GET", "/gzip", 200, 100_000), ("GET", "/nothing", 404, None),
            ("GET", "/big", 200, 1 << 20)):
        client.request(method, target)
        answer = client.getresponse()
        body = answer.read()
        assert answer.status == status
        assert length is None or len(body) == length
        sock = sock or client.sock
        assert client.sock is sock  # one connection for all of them
    etag = answer.getheader("etag")
    client.request("GET", "/big", headers={"If-None-Match": etag})
    answer = client.getresponse()
    assert (answer.status, answer.read()) == (304, b"")
    client.request("GET", "/big", headers={"Range": "bytes=10-19"})
    answer = client.getresponse()
    assert (answer.status, answer.read()) == (206, BIG[10:20])
    client.close()


NODE_CLIENT = """
const http = require('http');
const port = Number(process.argv[1]);
const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
const ask = (options, body) => new Promise((resolve, reject) => {
  const req = http.request({ port, host: '127.0.0.1', agent, ...options }, (res) => {
    let text = '';
    res.on('data', (data) => { text += data; });
    res.on('end', () => resolve({ status: res.statusCode, text, trailers: res.trailers,
                                  reused: req.reusedSocket, hints }));
    res.on('error', reject);
  });
  const hints = [];
  req.on('information', (info) => hints.push(info.statusCode));
  req.on('error', reject);
  req.end(body);
});
const upgrade = () => new Promise((resolve, reject) => {
  const req = http.request({ port, host: '127.0.0.1', path: '/ws',
                             headers: { connection: 'Upgrade', upgrade: 'websocket' } });
  req.on('upgrade', (res, socket) => {
    socket.once('data', (data) => { socket.end(); resolve(data.toString()); });
    socket.write('echo');
  });
  req.on('error', reject);
  req.end();
});
const abort = async () => {
  try {
    await fetch(`http://127.0.0.1:${port}/hang`, { signal: AbortSignal.timeout(200) });
    return 'answered';
  } catch (error) { return error.name; }
};
(async () => {
  const out = {
    post: await ask({ method: 'POST', path: '/' }, 'x'.repeat(100000)),
    hints: await ask({ path: '/early' }),
    trailers: await ask({ path: '/trailers', headers: { te: 'trailers' } }),
    cut: await ask({ path: '/die' }).catch((error) => error.code),
    upgrade: await upgrade(),
    abort: await abort(),
    fetched: await (await fetch(`http://127.0.0.1:${port}/`,
                                { method: 'PUT', body: 'abc' })).json(),
  };
  console.log(JSON.stringify(out));
  process.exit(0);
})();
"""


def test_node_on_both_sides(gateway_factory, node_server):
    gateway = gateway_factory(upstream=node_server, routes=[
        {"path": "/ws", "upgrade": ["websocket"]}, {"path": "/*"}])
    out = json.loads(run("node", "-e", NODE_CLIENT, port_of(gateway.address)))
    assert json.loads(out["post"]["text"])["bytes"] == 100_000
    assert (out["hints"]["hints"], out["hints"]["text"]) == ([103], "early")
    assert out["hints"]["reused"] is True
    assert out["trailers"]["trailers"] == {"x-sum": "2"}
    assert out["cut"] == "ECONNRESET"
    assert out["upgrade"] == "echo"
    assert out["abort"] == "TimeoutError"
    assert out["fetched"]["bytes"] == 3
    wait_until(lambda: fetch(node_server, "/stats").json["closed"] == 2)  # /die and the abort


# ---- servers ----

def test_nginx_that_ends_its_connections(gateway_factory, nginx):
    """Every third answer says close; no request is lost over it."""
    gateway = gateway_factory(upstream=nginx)
    with gateway.client() as client:
        for method in ("GET", "POST") * 20:
            client.request(method, "/short", body=b"x" if method == "POST" else None)
            assert client.read_response().status in (200, 405)
    assert gateway.metric("prazo_attempts_total", result="reset") == 0


def test_nginx_refuses_a_large_body(gateway_factory, nginx):
    gateway = gateway_factory(upstream=nginx)
    with gateway.client() as client:
        try:
            client.request("POST", "/limited", body=BIG * 4)
        except ConnectionError:
            pass  # the answer has come before the end of the upload
        answer = client.read_response("POST")
        assert answer.status == 413
        assert b"nginx" in answer.body


def test_nginx_reloads_under_load(gateway_factory, nginx):
    """Old workers close their idle connections at any moment."""
    gateway = gateway_factory(upstream=nginx)
    is_over = threading.Event()
    statuses = []

    def ask():
        with gateway.client() as client:
            while not is_over.is_set():
                statuses.append(client.request("GET", "/small").read_response().status)
    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        nginx.process.send_signal(signal.SIGHUP)
        count = len(statuses)
        wait_until(lambda: len(statuses) > count + 200)
    is_over.set()
    for thread in threads:
        thread.join()
    assert set(statuses) == {200}


def test_python_s_server(gateway_factory, python_server):
    gateway = gateway_factory(upstream=python_server)
    with gateway.client() as client:
        for method, body in (("GET", None), ("POST", b"x" * 10_000), ("PUT", b""),
                             ("DELETE", None)):
            answer = client.request(method, "/", body=body).read_response()
            assert answer.status == 200
            assert answer.json == {"method": method, "bytes": len(body or b"")}
        assert client.request("HEAD").read_response().body == b""


def test_node_s_keep_alive_is_obeyed(gateway_factory, node_server):
    """It announces timeout=1 and means it; posts around that time are never lost."""
    gateway = gateway_factory(upstream=node_server)
    statuses = []

    def ask(pause):
        with gateway.client() as client:
            for _ in range(2):
                statuses.append(client.request("POST", body=b"x").read_response().status)
                end = time.monotonic() + pause
                wait_until(lambda: time.monotonic() >= end)
    threads = [threading.Thread(target=ask, args=(pause / 100,)) for pause in range(90, 122, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [200] * 2 * len(threads)
