# SPDX-License-Identifier: MIT
"""A client that shows every byte: sends what it is told and reads answers strictly."""

import select
import socket
import time

from . import message, net
from .message import ConnectionEnded


class RawClient:
    """One connection. A context manager; all waits end with TimeoutError after `timeout` s."""

    def __init__(self, address, timeout=10.0, rcvbuf=None, source=None):
        address = getattr(address, "address", address)
        self.timeout = timeout
        self.sock = net.connect(address, timeout, rcvbuf, source)
        self._reader = message.Reader(self._fill)
        self._awaited = []  # methods of requests made by request(), oldest first

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # ---- sending ----

    def send(self, data):
        """Exactly these bytes (str: latin-1)."""
        self.sock.sendall(data.encode("latin-1") if isinstance(data, str) else data)

    def request(self, method="GET", target="/", headers=None, body=None, version="1.1"):
        """Sends one request. Host and, for a body, Content-Length are added unless given."""
        pairs = list(headers.items()) if isinstance(headers, dict) else list(headers or [])
        if version == "1.1" and not message.has_header(pairs, "host"):
            pairs.insert(0, ("host", "test.example"))
        framing = ("content-length", "transfer-encoding")
        if body is not None and not message.has_header(pairs, *framing):
            pairs.append(("content-length", len(body)))
        self._awaited.append(method)
        self.send(message.build_head(f"{method} {target} HTTP/{version}", pairs) + (body or b""))
        return self

    def send_chunk(self, data):
        self.send(message.chunk(data))

    def send_last_chunk(self, trailers=None):
        self.send(message.build_head("0", trailers) if trailers else message.LAST_CHUNK)

    # ---- receiving ----

    def _fill(self):
        try:
            data = self.sock.recv(65536)
        except ConnectionResetError:
            raise ConnectionEnded("rst") from None
        if not data:
            raise ConnectionEnded("fin")
        return data

    def read_response(self, method=None, timeout=None):
        """The next final answer with its body; 1xx before it stand in .informational. method: of
        the request it answers, where that was not sent by request()."""
        response = self.read_head(method, timeout)
        self._reader.body(response, response.framing)
        return response

    def read_head(self, method=None, timeout=None):
        """The next final answer's head only; continue with read_body() or recv…()."""
        self.sock.settimeout(self.timeout if timeout is None else timeout)
        method = method or (self._awaited.pop(0) if self._awaited else "GET")
        informational = []
        while True:
            response = message.parse_response_head(self._reader.until(b"\r\n\r\n"))
            response.framing = message.response_framing(response, method)
            if response.status >= 200 or response.status == 101:
                response.informational = informational
                return response
            informational.append(response)

    def read_informational(self, timeout=None):
        """The next answer's head, which has to be a 1xx."""
        self.sock.settimeout(self.timeout if timeout is None else timeout)
        response = message.parse_response_head(self._reader.until(b"\r\n\r\n"))
        assert response.status < 200, response
        return response

    def read_body(self, response):
        self._reader.body(response, response.framing)
        return response.body

    def recv_until(self, delimiter):
        """Raw bytes up to and including the delimiter."""
        return self._reader.until(delimiter, 1 << 30)

    def recv_exactly(self, count):
        return self._reader.take(count)

    def recv_available(self):
        """What can be read now, without waiting; b"" if nothing (or the end) is there."""
        while select.select([self.sock], [], [], 0)[0]:
            try:
                self._reader.more()
            except ConnectionEnded:
                break
        return self._reader.take(len(self._reader.buffer))

    def recv_all(self):
        """Everything up to the end of the connection; ConnectionEnded if that is an RST."""
        try:
            while True:
                self._reader.more()
        except ConnectionEnded as ended:
            if ended.how != "fin":
                raise
        return self._reader.take(len(self._reader.buffer))

    def recv_end(self, timeout=None):
        """Waits for the end of the connection, with no byte before it: "fin" or "rst"."""
        self.sock.settimeout(self.timeout if timeout is None else timeout)
        try:
            self._reader.more()
        except ConnectionEnded as ended:
            assert not ended.got, f"bytes before the end: {ended.got!r}"
            return ended.how
        raise AssertionError(f"bytes instead of the end: {bytes(self._reader.buffer)!r}")

    def expect_silence(self, seconds):
        """Nothing, not even an end, comes within that time: for what must not happen."""
        assert not self._reader.buffer, bytes(self._reader.buffer)
        assert not select.select([self.sock], [], [], seconds)[0], "something came"

    # ---- ending ----

    def half_close(self):
        """FIN, and reading goes on."""
        self.sock.shutdown(socket.SHUT_WR)

    def close(self):
        self.sock.close()

    def reset(self):
        """RST."""
        net.set_reset_on_close(self.sock)
        self.sock.close()


def fetch(address, target="/", method="GET", headers=None, body=None, timeout=10.0):
    """One request on a connection of its own."""
    with RawClient(address, timeout) as client:
        return client.request(method, target, headers, body).read_response()


def fetch_timed(*args, **kwargs):
    """(response, seconds)."""
    began = time.monotonic()
    response = fetch(*args, **kwargs)
    return response, time.monotonic() - began
