# SPDX-License-Identifier: MIT
"""Fixtures of the integration tests; support/__init__.py says how to use them."""

import pytest

from support import BlackHole, Demo, Gateway, ScriptedUpstream


def _factory(make):
    """A function that makes objects, and one that closes them all, the newest first: a gateway
    has to end before its upstreams do. The first failure is raised after all are closed."""
    made = []

    def new(*args, **kwargs):
        made.append(make(*args, **kwargs))
        return made[-1]

    def close_all():
        failures = []
        for item in reversed(made):
            try:
                item.close()
            except BaseException as failure:
                failures.append(failure)
        if failures:
            raise failures[0]
    return new, close_all


@pytest.fixture
def upstream_factory():
    new, close_all = _factory(ScriptedUpstream)
    yield new
    close_all()


@pytest.fixture
def upstream(upstream_factory):
    return upstream_factory()


@pytest.fixture
def demo_factory():
    new, close_all = _factory(Demo)
    yield new
    close_all()


@pytest.fixture
def blackhole():
    with BlackHole() as hole:
        yield hole.address


@pytest.fixture
def gateway_factory(upstream_factory, demo_factory):
    """Depends on the factories of what stands behind it, so that it is closed first."""
    new, close_all = _factory(Gateway)
    yield new
    close_all()
