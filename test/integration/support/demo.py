# SPDX-License-Identifier: MIT
"""`prazo demo` under test, or as a service behind a gateway."""

import json

from . import net
from .client import fetch
from .process import Process


class Demo(Process):
    """Demo(workers=2, service="50ms", ignore_cancel=True, dist="exp", seed=1)"""

    def __init__(self, address=None, family="ipv4", workers=50, service="100ms",
                 ignore_cancel=False, dist=None, seed=None, nofile=None):
        self._owned = address is None
        self.address = address or net.free_address(family)
        args = ["demo", "--listen", self.address, "--workers", workers, "--service", service]
        args += ["--ignore-cancel"] if ignore_cancel else []
        args += ["--dist", dist] if dist else []
        args += ["--seed", seed] if seed is not None else []
        super().__init__(args, nofile=nofile)
        self.wait_ready(lambda: net.is_listening(self.address))

    def stats(self):
        response = fetch(self.address, "/_stats")
        assert response.status == 200, response
        return response.json

    def control(self, **settings):
        """Returns the settings as they are afterwards."""
        response = fetch(self.address, "/_control", "PUT", body=json.dumps(settings).encode())
        assert response.status == 200, response
        return response.json

    def close(self):
        try:
            super().close()
        finally:
            if self._owned:
                net.release_address(self.address)
