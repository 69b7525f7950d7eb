# SPDX-License-Identifier: MIT
"""The proxies that are measured, each on one thread, and the server behind them."""
import os
import re
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
PRAZO = os.environ.get("PRAZO", str(HERE.parent / "build" / "prazo"))
TICKS = os.sysconf("SC_CLK_TCK")

COMMANDS = {
    "nginx": ("nginx.conf", ["nginx", "-c"]),
    "haproxy": ("haproxy.cfg", ["haproxy", "-db", "-f"]),
    "h2o": ("h2o.conf", ["h2o", "-c"]),
    "prazo": ("prazo.yaml", [PRAZO, "run"]),
    "upstream": ("upstream.conf", ["nginx", "-c"]),
}
PEERS = ["nginx", "haproxy", "h2o", "prazo"]  # the first is what the others are compared with


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Peer:
    """A started server. `with` ends it."""

    def __init__(self, name, upstream_port=0, log=False):
        self.name, self.port = name, free_port()
        self._dir = tempfile.TemporaryDirectory(prefix=f"bench-{name}-")
        self.dir = Path(self._dir.name)
        self.dir.chmod(0o777)  # nginx's worker runs as another user
        config, command = COMMANDS[name]
        if name == "upstream":
            (self.dir / "big").write_bytes(os.urandom(65536))
        text = (HERE / "conf" / config).read_text()
        for word, value in self._words(upstream_port, log).items():
            text = text.replace(f"@{word}@", value)
        (self.dir / config).write_text(text)
        self.output = open(self.dir / "output", "wb")
        self.process = subprocess.Popen(command + [str(self.dir / config)], stdin=subprocess.DEVNULL,
                                        stdout=self.output, stderr=self.output, start_new_session=True)
        self._await()

    def _words(self, upstream_port, log):
        return {
            "PORT": str(self.port), "UPSTREAM": str(upstream_port), "DIR": str(self.dir),
            "NGINX_LOG": f"{self.dir}/access.log line buffer=64k flush=1s" if log else "off",
            "H2O_LOG": f"{self.dir}/access.log" if log else "/dev/null",
            "HAPROXY_LOG_TO": "log stdout format raw local0" if log else "",
            "HAPROXY_LOG": "log global\n    option httplog" if log else "",
            "PRAZO_LOG": "all" if log else "none",
        }

    def _await(self):
        limit = time.monotonic() + 10
        while True:
            with socket.socket() as s:
                if s.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            if self.process.poll() is not None or time.monotonic() > limit:
                raise SystemExit(f"{self.name} did not start:\n{(self.dir / 'output').read_text()}")
            time.sleep(0.02)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.output.close()
        self._dir.cleanup()

    def pids(self):
        """Every process of its session: nginx works in a child."""
        found = []
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                try:
                    if os.getsid(int(entry)) == self.process.pid:
                        found.append(int(entry))
                except ProcessLookupError:
                    pass
        return found

    def cpu_seconds(self):
        """User and system time that it has used so far."""
        total = 0
        for pid in self.pids():
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            total += int(fields[11]) + int(fields[12])
        return total / TICKS

    def rss_bytes(self):
        status = [Path(f"/proc/{pid}/status").read_text() for pid in self.pids()]
        return 1024 * sum(int(re.search(r"VmRSS:\s+(\d+)", s).group(1)) for s in status)
