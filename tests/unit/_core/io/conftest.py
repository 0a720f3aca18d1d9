"""Fixtures of the selectors: both ways to poll."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.oracle.loopback import Loopback, open_descriptor_count


@pytest.fixture(params=[False, True], ids=["epoll", "poll"])
def force_poll(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def loopback(force_poll: bool) -> Iterator[Loopback]:
    """Its end is also the check that no descriptor leaks, for every test here."""
    before = open_descriptor_count()
    with Loopback(force_poll) as opened:
        yield opened
    assert open_descriptor_count() == before
