"""Fixtures: scripted peers that are closed, and checked for faults, when the test is over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any, Protocol

import pytest

from support.peer.scripted_peer import Peer, PeerCluster


class PeerFactory(Protocol):
    """Starts a `Peer`; the arguments are its own."""

    def __call__(self, topics: Mapping[str, int] | None = None, **words: Any) -> Peer: ...


class PeerClusterFactory(Protocol):
    """Starts a `PeerCluster`; the arguments are its own."""

    def __call__(
        self, nodes: int = 2, topics: Mapping[str, int] | None = None, **words: Any
    ) -> PeerCluster: ...


@pytest.fixture
def peer() -> Iterator[Peer]:
    """One peer with topic "t" of 3 partitions."""
    with Peer(topics={"t": 3}) as started:
        yield started


@pytest.fixture
def new_peer() -> Iterator[PeerFactory]:
    """`new_peer(topics={"t": 1}, versions={PRODUCE: (3, 8)})`."""
    with ExitStack() as stack:
        yield lambda topics=None, **words: stack.enter_context(Peer(topics, **words))


@pytest.fixture
def new_peer_cluster() -> Iterator[PeerClusterFactory]:
    """`new_peer_cluster(nodes=2, topics={"t": 4})`."""
    with ExitStack() as stack:
        yield lambda nodes=2, topics=None, **words: stack.enter_context(
            PeerCluster(nodes, topics, **words)
        )
