# SPDX-License-Identifier: MIT
"""A server that does what a test scripts, and records what reached it and when.

One thread accepts and reads for all connections, so that bytes, FIN and RST are recorded the moment
they come, whatever the script is doing; each connection's script runs in a thread of its own."""

import collections
import select
import socket
import threading
import time

from . import clock, message, net
from .message import ConnectionEnded


class UpstreamConnection:
    """What a handler works with. Times are time.monotonic() seconds."""

    def __init__(self, upstream, sock, index):
        self.upstream = upstream
        self.sock = sock
        self.index = index            # 0 for the upstream's first connection
        self.opened_at = time.monotonic()
        self.received = bytearray()   # every byte that came, in order
        self.requests = []            # those whose head was complete
        self.fin_at = None            # when the peer's FIN was seen
        self.rst_at = None            # when the peer's RST was seen
        self.is_closed = False        # by this side
        self.local = {}               # for handlers that keep something per connection
        self._changed = threading.Condition()
        self._taken = 0
        self._reader = message.Reader(self._fill)
        self.is_reading = True

    # ---- what the peer has done ----

    @property
    def ended_at(self):
        """When FIN or RST came, whichever was first; None if neither has."""
        times = [at for at in (self.fin_at, self.rst_at) if at is not None]
        return min(times) if times else None

    @property
    def ended_how(self):
        if self.ended_at is None:
            return None
        return "fin" if self.ended_at == self.fin_at else "rst"

    def wait_for_close(self, timeout=10.0):
        """Waits until the peer has closed; "fin" or "rst", or an AssertionError."""
        with self._changed:
            ended = self._changed.wait_for(lambda: self.ended_at is not None or self.is_closed,
                                           timeout * clock.SLACK)
        assert ended and self.ended_at is not None, f"the peer did not close within {timeout} s"
        return self.ended_how

    def wait_for_bytes(self, count, timeout=10.0):
        """Waits until at least count bytes have come in all."""
        with self._changed:
            self._changed.wait_for(lambda: len(self.received) >= count or self.ended_at,
                                   timeout * clock.SLACK)
        assert len(self.received) >= count, f"{len(self.received)} of {count} bytes came"

    def hold(self, event, timeout=30.0):
        """Waits for a threading.Event that the test sets; ends early with False when the peer
        closes or the test is over."""
        end = time.monotonic() + timeout
        while not event.is_set():
            if self.ended_at is not None or self.is_closed or time.monotonic() > end:
                return False
            event.wait(clock.POLL_SECONDS)
        return True

    def work(self, seconds):
        """Works that long without looking at the peer, as a server does that ignores hang-ups;
        only the end of the test cuts it short."""
        self.upstream.stopping.wait(seconds)

    def pause_reading(self):
        """From now on bytes stay in the kernel (back-pressure). FIN and RST are still seen."""
        self.is_reading = False
        self.upstream._watch(self)

    def resume_reading(self):
        self.is_reading = True
        self.upstream._watch(self)

    # ---- answering ----

    def send(self, data):
        """Exactly these bytes. ConnectionError if the peer is gone."""
        self.sock.sendall(data.encode("latin-1") if isinstance(data, str) else data)

    def respond(self, status=200, body=b"", headers=None, reason="Reason", close=False):
        """A whole answer. Content-Length is added unless framing is given. close: announce it
        and close."""
        body = body.encode() if isinstance(body, str) else body
        pairs = list(headers.items()) if isinstance(headers, dict) else list(headers or [])
        if (not message.has_header(pairs, "content-length", "transfer-encoding")
                and status >= 200 and status not in (204, 304)):
            pairs.append(("content-length", len(body)))
        if close:
            pairs.append(("connection", "close"))
        head = message.build_head(f"HTTP/1.1 {status} {reason}", pairs)
        is_head = bool(self.requests) and self.requests[-1].method == "HEAD"
        self.send(head if is_head else head + body)
        if close:
            self.close()

    def respond_chunked(self, chunks=(), status=200, headers=None, trailers=None, end=True):
        """Head and these chunks; end=False leaves the body open for send_chunk()."""
        pairs = list(headers.items()) if isinstance(headers, dict) else list(headers or [])
        pairs.append(("transfer-encoding", "chunked"))
        self.send(message.build_head(f"HTTP/1.1 {status} Reason", pairs))
        for data in chunks:
            self.send_chunk(data)
        if end:
            self.send_last_chunk(trailers)

    def send_chunk(self, data):
        self.send(message.chunk(data))

    def send_last_chunk(self, trailers=None):
        self.send(message.build_head("0", trailers) if trailers else message.LAST_CHUNK)

    def half_close(self):
        self.sock.shutdown(socket.SHUT_WR)

    def close(self):
        self.upstream._forget(self)

    def reset(self):
        net.set_reset_on_close(self.sock)
        self.upstream._forget(self)

    # ---- reading requests ----

    def read_request(self, with_body=True):
        """The next request, or ConnectionEnded. For `on_connection` scripts and heads="early"."""
        head = self._reader.until(b"\r\n\r\n")
        request = message.parse_request_head(head)
        request.received_at = time.monotonic()
        request.received_ms = clock.now_ms()
        request.framing = message.request_framing(request)
        self.requests.append(request)
        if with_body:
            if request.header("expect") == "100-continue":
                self.send(b"HTTP/1.1 100 Continue\r\n\r\n")
            self.read_body(request)
        return request

    def read_body(self, request):
        self._reader.body(request, request.framing)
        return request.body

    def _fill(self):
        with self._changed:
            self._changed.wait_for(lambda: len(self.received) > self._taken or self.is_closed
                                   or self.ended_at is not None)
            data = bytes(self.received[self._taken:])
            self._taken += len(data)
            if not data:
                raise ConnectionEnded(self.ended_how or "fin")
            return data

    # ---- called by the upstream's reading thread ----

    def _note(self, data=b"", fin=False, rst=False):
        with self._changed:
            self.received += data
            if fin and self.fin_at is None:
                self.fin_at = time.monotonic()
            if rst and self.rst_at is None:
                self.rst_at = time.monotonic()
            self._changed.notify_all()

    def _wake(self):
        with self._changed:
            self._changed.notify_all()


def _answer_ok(conn, _request):
    conn.respond(200, b"ok\n")


class ScriptedUpstream:
    """handler(conn, request) runs for each request whose body is complete, and answers through
    conn. Instead of answering it may return bytes (sent as they are), a body as str, a status as
    int, or a (status, body[, headers]) tuple. up.handler may be replaced at any time, also by such
    a value; up.script(h1, h2, …) queues handlers for the next requests. Without any of it each
    request gets 200 "ok\\n".

    early=True: handlers run when the head is complete, and call conn.read_body(request).
    on_connection(conn): instead of handlers, runs once for each connection.
    family: ipv4, ipv6, unix. rcvbuf: a small receive buffer, for back-pressure."""

    def __init__(self, handler=None, family="ipv4", early=False, on_connection=None, rcvbuf=None,
                 address=None):
        self.handler = handler or _answer_ok
        self.address = address or net.free_address(family)
        self.connections = []   # every connection ever accepted, in order
        self.requests = []      # every request handed to a handler, in order
        self.errors = []        # exceptions of handlers; close() raises the first
        self.stopping = threading.Event()
        self._early = early
        self._on_connection = on_connection
        self._rcvbuf = rcvbuf
        self._queued = collections.deque()
        self._lock = threading.RLock()
        self._by_fd = {}
        self._threads = []
        self._epoll = select.epoll()
        self._listener = None
        self.listen_again()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def script(self, *handlers):
        """These answer the next requests, one each; also what a handler may return."""
        self._queued.extend(handlers)

    # ---- what tests ask ----

    @property
    def open_connections(self):
        return [c for c in self.connections if not c.is_closed and c.ended_at is None]

    def wait_for_requests(self, count, timeout=10.0):
        """Waits until count requests have come in all, and returns the last of them."""
        clock.wait_until(lambda: len(self.requests) >= count, timeout,
                         f"request {count} at the upstream")
        return self.requests[count - 1]

    def wait_for_connections(self, count, timeout=10.0):
        clock.wait_until(lambda: len(self.connections) >= count, timeout,
                         f"connection {count} at the upstream")
        return self.connections[count - 1]

    # ---- faults of the listener ----

    def stop_listening(self):
        """New connections are refused from now on; open ones go on."""
        with self._lock:
            if self._listener:
                self._epoll.unregister(self._listener)
                self._listener.close()
                self._listener = None

    def listen_again(self):
        with self._lock:
            self._listener = net.listen(self.address, rcvbuf=self._rcvbuf)
            self._listener.setblocking(False)
            self._epoll.register(self._listener, select.EPOLLIN)

    def close_connections(self, reset=False):
        """Ends every open connection from this side."""
        with self._lock:
            connections = list(self._by_fd.values())
        for conn in connections:
            if reset:
                conn.reset()
            else:
                conn.close()

    def close(self):
        """Ends everything. Raises what a handler raised, if one did."""
        self.stopping.set()
        self.stop_listening()
        self.close_connections()
        self._thread.join(5)
        for thread in self._threads:
            thread.join(5)
        self._epoll.close()
        net.release_address(self.address)
        if self.errors:
            raise self.errors[0]

    # ---- the reading thread ----

    def _run(self):
        while not self.stopping.is_set():
            for fd, events in self._epoll.poll(0.05):
                with self._lock:
                    if self._listener and fd == self._listener.fileno():
                        self._accept()
                    elif fd in self._by_fd:
                        self._read(self._by_fd[fd], events)

    def _accept(self):
        try:
            sock, _ = self._listener.accept()
        except OSError:
            return
        sock.setblocking(True)
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        conn = UpstreamConnection(self, sock, len(self.connections))
        self._by_fd[sock.fileno()] = conn
        self.connections.append(conn)
        self._epoll.register(sock, select.EPOLLIN | select.EPOLLRDHUP)
        thread = threading.Thread(target=self._serve, args=(conn,), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _read(self, conn, events):
        """One event of a connection, under the lock, so that its fd is still its own."""
        if events & select.EPOLLERR:
            conn._note(rst=True)
            self._epoll.unregister(conn.sock)
            return
        if not conn.is_reading:
            if events & (select.EPOLLRDHUP | select.EPOLLHUP):
                conn._note(fin=True)
                self._epoll.modify(conn.sock, 0)
            return
        try:
            data = conn.sock.recv(1 << 18, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            conn._note(rst=True)
            self._epoll.unregister(conn.sock)
            return
        conn._note(data, fin=not data)
        if not data:
            # An RST may still follow; with both directions shut EPOLLHUP would come for ever.
            if events & select.EPOLLHUP:
                self._epoll.unregister(conn.sock)
            else:
                self._epoll.modify(conn.sock, 0)

    def _watch(self, conn):
        with self._lock:
            if not conn.is_closed and conn.ended_at is None:
                self._epoll.modify(conn.sock, select.EPOLLRDHUP
                                   | (select.EPOLLIN if conn.is_reading else 0))

    def _forget(self, conn):
        with self._lock:
            if conn.is_closed:
                return
            conn.is_closed = True
            self._by_fd.pop(conn.sock.fileno(), None)
            try:
                self._epoll.unregister(conn.sock)
            except OSError:
                pass  # its end was seen before
            conn.sock.close()
        conn._wake()

    # ---- a connection's thread ----

    def _serve(self, conn):
        try:
            if self._on_connection:
                self._on_connection(conn)
            else:
                while self._serve_request(conn):
                    pass
        except ConnectionError:
            pass  # the peer has left: an ordinary end of a script
        except OSError as error:
            if not conn.is_closed:
                self.errors.append(error)
        except BaseException as error:  # shown by close(), in the test's own thread
            if not self.stopping.is_set():
                self.errors.append(error)
        finally:
            conn.close()

    def _serve_request(self, conn):
        """False when no further request is to be read."""
        request = conn.read_request(with_body=not self._early)
        with self._lock:
            self.requests.append(request)
            handler = self._queued.popleft() if self._queued else self.handler
        _send_result(conn, handler(conn, request) if callable(handler) else handler)
        return not conn.is_closed and request.header("connection", "").lower() != "close"


def _send_result(conn, result):
    if result is None:
        return
    if isinstance(result, bytes):
        conn.send(result)
    elif isinstance(result, int):
        conn.respond(result)
    elif isinstance(result, str):
        conn.respond(200, result)
    else:
        conn.respond(*result)
