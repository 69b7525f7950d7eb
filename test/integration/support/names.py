# SPDX-License-Identifier: MIT
"""A name server under the test's control, and what makes a process ask it."""

import os
import random
import socket
import struct
import tempfile
import threading

_A, _AAAA = 1, 28
_NXDOMAIN = 3


class NameServer:
    """NameServer(names={"app.test": ["127.0.0.1"]}): answers A and AAAA queries over UDP on a
    loopback address of its own, port 53, which takes root.

    names       addresses of each name, may be changed at any time; others do not exist
    ttl         of the answers, in seconds
    is_silent   True: queries are counted and never answered (a black hole)
    queries     names that were asked for, in order
    prefix      of a Process: its /etc/resolv.conf names only this server (a mount namespace)"""

    def __init__(self, names=None, ttl=1, is_silent=False):
        self.names, self.ttl, self.is_silent = dict(names or {}), ttl, is_silent
        self.queries = []
        self._socket, self.ip = self._bind()
        self._file = tempfile.NamedTemporaryFile("w", prefix="prazo-resolv-", suffix=".conf")
        self._file.write(f"nameserver {self.ip}\n")
        self._file.flush()
        os.chmod(self._file.name, 0o644)
        self.prefix = ["unshare", "-m", "sh", "-c",
                       f'mount --bind {self._file.name} /etc/resolv.conf && exec "$@"', "sh"]
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @staticmethod
    def _bind():
        for _ in range(100):
            ip = f"127.{random.randrange(1, 255)}.{random.randrange(256)}.{random.randrange(1, 255)}"
            sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            try:
                sock.bind((ip, 53))
                return sock, ip
            except PermissionError:
                sock.close()
                raise
            except OSError:
                sock.close()
        raise RuntimeError("no free loopback address for a name server")

    def _run(self):
        while True:
            query, peer = self._socket.recvfrom(4096)
            if not query:
                return  # close() sends it
            name, kind, question = self._parse(query)
            self.queries.append(name)
            if not self.is_silent:
                self._socket.sendto(self._answer(query, name, kind, question), peer)

    @staticmethod
    def _parse(query):
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1:at + 1 + query[at]].decode())
            at += 1 + query[at]
        [kind] = struct.unpack_from("!H", query, at + 1)
        return ".".join(labels).lower(), kind, query[12:at + 5]

    def _answer(self, query, name, kind, question):
        family = {_A: socket.AF_INET, _AAAA: socket.AF_INET6}.get(kind)
        records = []
        for address in self.names.get(name, []):
            if family == (socket.AF_INET6 if ":" in address else socket.AF_INET):
                data = socket.inet_pton(family, address)
                records.append(struct.pack("!HHHIH", 0xc00c, kind, 1, self.ttl, len(data)) + data)
        code = 0 if name in self.names else _NXDOMAIN
        head = struct.pack("!2sHHHHH", query[:2], 0x8180 | code, 1, len(records), 0, 0)
        return head + question + b"".join(records)

    def close(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.sendto(b"", (self.ip, 53))
        self._thread.join(5)
        self._socket.close()
        self._file.close()
