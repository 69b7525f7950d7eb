# SPDX-License-Identifier: MIT
"""The gateway under test: writes its configuration, runs it, asks it."""

import json
import os
import re
import signal
import tempfile

from . import clock, net
from .client import RawClient, fetch
from .metrics import parse_metrics
from .process import Process

_PLAIN = re.compile(r"[A-Za-z0-9_/.](?:[A-Za-z0-9_/.*@+-]|:(?=[A-Za-z0-9_/.]))*\Z")

# Teardown ends at once: nothing needs time to notice a drain unless a test says so.
_DEFAULTS = {
    "threads": 1,
    "log": {"level": "info", "requests": "all", "format": "json"},
    "shutdown": {"delay": "1ms", "drain": "20ms"},
}


def to_yaml(value, indent=0):
    """dict, list, str, int, bool (on/off), None (none), or anything with an .address."""
    pad = "  " * indent
    if hasattr(value, "address"):
        value = value.address
    if isinstance(value, dict):
        if not value:
            return " {}\n"
        return "\n" + "".join(f"{pad}{_scalar(key)}:{to_yaml(item, indent + 1)}"
                              for key, item in value.items())
    if isinstance(value, (list, tuple)):
        if not value:
            return " []\n"
        return "\n" + "".join(f"{pad}-{to_yaml(item, indent + 1)}" for item in value)
    return f" {_scalar(value)}\n"


def _scalar(value):
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    text = str(value)
    return text if _PLAIN.match(text) else json.dumps(text)


def _merge(base, extra):
    merged = dict(base)
    for key, value in extra.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merge(merged[key], value) if both else value
    return merged


class Gateway(Process):
    """Gateway(upstream=up) forwards everything to one upstream named "app".

    upstream        ScriptedUpstream, address, or a list of them (servers of "app")
    app             further keys of that upstream: app={"connect_timeout": "1s"}
    upstreams       instead of both: {"a": up_a, "b": {"servers": [up_b], "on_abandon": "drain"}}
    listen          default 127.0.0.1 and a free port; "ipv6", "unix", or whatever YAML would hold;
                    a dict without `address` gets one: listen={"trust": "none"}
    config          whole text instead; {listen} and {admin} in it are replaced
    admin           False: no admin port;  nofile: limit of descriptors;  env: further variables
    wait            False: do not wait until it is ready (a start that has to fail)
    prefix          words of a command that executes it (Process)
    **keys          all other configuration keys: routes=[…], deadline="2s", limits={…}
    """

    def __init__(self, upstream=None, app=None, upstreams=None, listen=None, config=None,
                 admin=True, env=None, pass_fds=(), nofile=None, wait=True, prefix=(), **keys):
        self._directory = tempfile.TemporaryDirectory(prefix="prazo-test-")
        self.path = os.path.join(self._directory.name, "prazo.yaml")
        self._addresses = []
        self.address = self._take_address(listen)
        self.admin_address = self._new_address() if admin else None
        self._settings = {"upstream": upstream, "app": app, "upstreams": upstreams,
                          "listen": listen, **keys}
        self._write(config)
        super().__init__(["run", self.path], env=env, pass_fds=pass_fds, nofile=nofile,
                         prefix=prefix)
        if wait:
            try:
                self.wait_ready(self.is_ready)
            except AssertionError:
                self._release()
                raise

    # ---- configuration ----

    def _new_address(self, family="ipv4"):
        address = net.free_address(family)
        self._addresses.append(address)
        return address

    def _take_address(self, listen):
        """Where clients connect: the first listener's address."""
        first = listen[0] if isinstance(listen, (list, tuple)) else listen
        if isinstance(first, dict):
            first = first.get("address")
        if first in (None, "ipv4", "ipv6", "unix"):
            return self._new_address(first or "ipv4")
        return first

    def _listen_value(self, listen):
        if isinstance(listen, dict):
            return {**listen, "address": self.address}
        if isinstance(listen, (list, tuple)):
            first = listen[0]
            first = {**first, "address": self.address} if isinstance(first, dict) else self.address
            return [first, *listen[1:]]
        return self.address

    def _tree(self):
        settings = {key: value for key, value in self._settings.items() if value is not None}
        upstream, app = settings.pop("upstream", None), settings.pop("app", {})
        tree = _merge(_DEFAULTS, {"listen": self._listen_value(settings.pop("listen", None))})
        tree["admin"] = self.admin_address
        if upstream is not None:
            servers = list(upstream) if isinstance(upstream, (list, tuple)) else [upstream]
            tree["upstreams"] = {"app": {"servers": servers, **app}}
        return _merge(tree, settings)

    def _write(self, text):
        if text is None:
            text = to_yaml(self._tree()).lstrip("\n")
        else:
            text = text.replace("{listen}", self.address)
            text = text.replace("{admin}", str(self.admin_address))
        replacement = self.path + ".new"
        with open(replacement, "w", encoding="utf-8") as file:
            file.write(text)
        os.rename(replacement, self.path)

    def reload(self, config=None, **keys):
        """Writes the configuration with these keys replaced (or that whole text), sends SIGHUP and
        waits until it was taken or refused: "ok" or whatever the metric's label says."""
        self._settings.update(keys)
        self._write(config)
        before = self.metrics()
        self.signal(signal.SIGHUP)

        def result():
            now = self.metrics()
            return next((dict(labels)["result"] for (name, labels), value in now.items()
                         if name == "prazo_config_reloads_total"
                         and value > before.get((name, labels), 0)), None)
        return clock.wait_until(result, 10, "the reload")

    # ---- asking it ----

    def is_ready(self):
        if self.admin_address is None:
            return net.is_listening(self.address)
        try:
            return fetch(self.admin_address, "/readyz", timeout=2).status == 200
        except OSError:
            return False

    def client(self, **kwargs):
        """A RawClient connected to it."""
        return RawClient(self.address, **kwargs)

    def fetch(self, target="/", method="GET", headers=None, body=None, timeout=10.0):
        """One request on a connection of its own."""
        return fetch(self.address, target, method, headers, body, timeout)

    def admin(self, target, method="GET", headers=None, body=None):
        pairs = {"host": "127.0.0.1", **(headers or {})}
        return fetch(self.admin_address, target, method, pairs, body)

    def metrics(self):
        response = self.admin("/metrics")
        assert response.status == 200, response
        return parse_metrics(response.text)

    def metric(self, metric_name, **labels):
        """Sum over the series with these labels; 0 if none has them."""
        return self.metrics().value(metric_name, **labels)

    def wait_metric(self, metric_name, wanted, timeout=5.0, **labels):
        """Waits until the metric is `wanted` (a number, or a function of the value)."""
        last = None

        def is_there():
            nonlocal last
            last = self.metric(metric_name, **labels)
            return wanted(last) if callable(wanted) else last == wanted
        try:
            clock.wait_until(is_there, timeout)
        except AssertionError:
            raise AssertionError(f"{metric_name}{labels or ''} is {last}, not {wanted}") from None
        return last

    def logs(self, **fields):
        """Its log lines as dicts, in order; only those that have these values."""
        lines = []
        for text in self.stderr_text().splitlines(keepends=True):
            if text.startswith("{") and text.endswith("\n"):
                line = json.loads(text)
                if all(line.get(key) == value for key, value in fields.items()):
                    lines.append(line)
        return lines

    def wait_log(self, count=1, timeout=5.0, **fields):
        """Waits for the count-th log line with these values (the log is written at least once a
        second) and returns it."""
        clock.wait_until(lambda: len(self.logs(**fields)) >= count, timeout, f"log line {fields}")
        return self.logs(**fields)[count - 1]

    # ---- the end ----

    def close(self):
        try:
            super().close()
        finally:
            self._release()

    def _release(self):
        for address in self._addresses:
            net.release_address(address)
        self._addresses.clear()
        self._directory.cleanup()
