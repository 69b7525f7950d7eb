# SPDX-License-Identifier: MIT
"""Addresses and sockets. An address is text, as in the configuration: "127.0.0.1:80",
"[::1]:80" or "unix:/path"."""

import fcntl
import os
import random
import select
import socket
import struct
import tempfile

_LOCKS = os.path.join(tempfile.gettempdir(), f"prazo-test-ports-{os.getuid()}")
# Below the kernel's ephemeral range, so that no outgoing connection can take one meanwhile.
_PORTS = range(20000, 32000)
_held = {}


def free_port(host="127.0.0.1"):
    """A port that nobody listens on, reserved against other test processes until
    release_port() or the end of this process. Nothing is bound to it: connecting is refused."""
    os.makedirs(_LOCKS, exist_ok=True)
    for _ in range(1000):
        port = random.choice(_PORTS)
        if port in _held:
            continue
        lock = os.open(os.path.join(_LOCKS, str(port)), os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
                probe.bind((host, port))
        except OSError:
            os.close(lock)
            continue
        _held[port] = lock
        return port
    raise RuntimeError("no free port found in 20000..31999")


def release_port(port):
    lock = _held.pop(port, None)
    if lock is not None:
        os.close(lock)


def free_address(family="ipv4"):
    """family: ipv4, ipv6 or unix."""
    if family == "ipv4":
        return f"127.0.0.1:{free_port()}"
    if family == "ipv6":
        return f"[::1]:{free_port('::1')}"
    if family == "unix":
        # Not pytest's tmp_path: a Unix socket's name may have 107 bytes only.
        return "unix:" + os.path.join(tempfile.mkdtemp(prefix="przt-"), "s")
    raise ValueError(family)


def release_address(address):
    if address.startswith("unix:"):
        path = address[5:]
        if os.path.exists(path):
            os.unlink(path)
        directory = os.path.dirname(path)
        if os.path.basename(directory).startswith("przt-") and os.path.isdir(directory):
            os.rmdir(directory)
    else:
        release_port(port_of(address))


def port_of(address):
    return int(address.rsplit(":", 1)[1])


def parse_address(address):
    """(socket family, what bind() and connect() take)."""
    if address.startswith("unix:"):
        return socket.AF_UNIX, address[5:]
    host, port = address.rsplit(":", 1)
    if host.startswith("["):
        return socket.AF_INET6, (host[1:-1], int(port))
    return socket.AF_INET, (host, int(port))


def connect(address, timeout=5.0, rcvbuf=None, source=None):
    """source: ("127.0.0.5", 0) to come from another loopback address."""
    family, name = parse_address(address)
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.settimeout(timeout)
        if rcvbuf is not None:  # before connect(): the window scale is agreed there
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
        if source is not None:
            sock.bind(source)
        sock.connect(name)
        if family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException:
        sock.close()
        raise
    return sock


def listen(address, backlog=1024, rcvbuf=None):
    family, name = parse_address(address)
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        if family != socket.AF_UNIX:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        elif os.path.exists(name):
            os.unlink(name)
        if rcvbuf is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
        sock.bind(name)
        sock.listen(backlog)
    except BaseException:
        sock.close()
        raise
    return sock


def set_reset_on_close(sock):
    """close() will send RST instead of FIN."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def is_listening(address):
    try:
        connect(address, timeout=1.0).close()
        return True
    except OSError:
        return False


class BlackHole:
    """An address where connecting neither succeeds nor fails: its accept queue is full, so the
    kernel drops every further SYN. A context manager."""

    def __init__(self):
        self.address = free_address()
        self._listener = listen(self.address, backlog=0)
        self._fillers = []
        for _ in range(8):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(parse_address(self.address)[1])
            self._fillers.append(filler)
        # One of them is connected and stays in the queue; the rest hang as all others will.
        select.select([], self._fillers[:1], [], 5)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for sock in [*self._fillers, self._listener]:
            sock.close()
        release_address(self.address)
