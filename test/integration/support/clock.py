# SPDX-License-Identifier: MIT
"""Time as the tests see it: conditions are awaited, never slept for."""

import os
import time

# Sanitizer builds are slower. Upper bounds on elapsed time are multiplied by this; lower never.
SLACK = float(os.environ.get("PRAZO_TEST_SLACK", "1"))

POLL_SECONDS = 0.005


def now_ms():
    """Unix epoch milliseconds, as x-deadline-ms counts them."""
    return time.time_ns() // 1_000_000


def wait_until(condition, timeout=5.0, what=None):
    """Asks every 5 ms until condition() is true and returns its value; fails after the timeout."""
    end = time.monotonic() + timeout * SLACK
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() >= end:
            name = what or getattr(condition, "__doc__", None) or "the condition"
            raise AssertionError(f"{name} did not come true within {timeout * SLACK:g} s")
        time.sleep(POLL_SECONDS)


class Stopwatch:
    """with Stopwatch() as watch: …; then watch.ms is what it took (also readable inside)."""

    def __enter__(self):
        self._began = time.monotonic()
        self._ended = None
        return self

    def __exit__(self, *_):
        self._ended = time.monotonic()

    @property
    def ms(self):
        return ((self._ended or time.monotonic()) - self._began) * 1000

    def assert_between(self, low_ms, high_ms):
        """The upper bound grows with SLACK, the lower does not."""
        took = self.ms
        assert low_ms <= took <= high_ms * SLACK, f"{took:.1f} ms is not in {low_ms}..{high_ms}"


def deadline_headers(left_ms, sent=True, budget=None, attempt=None):
    """Headers that leave left_ms from now on. sent=False leaves x-deadline-sent-ms out."""
    now = now_ms()
    headers = {"x-deadline-ms": str(now + left_ms)}
    if sent:
        headers["x-deadline-sent-ms"] = str(now)
    if budget is not None:
        headers["x-retry-budget"] = str(budget)
    if attempt is not None:
        headers["x-attempt"] = attempt
    return headers
