"""WarmUp: waits until leaders and producer id are ready for the next records."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final, Protocol

from fastprod.client.metadata.cluster import Cluster
from fastprod.client.network_client import NetworkClient
from fastprod.client.producer_events import ProducerEvents
from fastprod.errors import KafkaError, KafkaTimeoutError, ProducerClosedError

SLICE_S: Final = 0.02
"""Longest wait between two looks."""


class ProducerIdView(Protocol):
    """What is asked of the engine."""

    @property
    def has_producer_id(self) -> bool: ...
    @property
    def abandoned(self) -> bool: ...


class KnownCluster(Protocol):
    """What is asked of the metadata."""

    @property
    def known_cluster(self) -> Cluster: ...
    @property
    def standing_error(self) -> KafkaError | None: ...
    @property
    def is_closed(self) -> bool: ...


class WarmUp:
    """One call of `KafkaProducer.warmup`, whose topics are known already.

    Args:
        engine: has the producer id.
        metadata: knows the leaders.
        network_client: connects.
        events: tell when a connection is ready.
    """

    def __init__(
        self,
        engine: ProducerIdView,
        metadata: KnownCluster,
        network_client: NetworkClient,
        events: ProducerEvents,
    ) -> None:
        self._engine = engine
        self._metadata = metadata
        self._network_client = network_client
        self._events = events

    def wait(self, topics: Sequence[str], deadline_s: float, timeout_s: float) -> None:
        """Connect to the topics' leaders, and wait for that and for the producer id.

        Args:
            topics: names; their metadata is there.
            deadline_s: monotonic seconds.
            timeout_s: what the caller gave, for the message.

        Raises:
            AuthenticationError: a leader and we do not accept one another.
            ProducerClosedError: the producer was closed meanwhile.
            KafkaTimeoutError: it did not work out in time, and why.
        """
        with self._events.lock:
            while not self.is_ready(topics, deadline_s, timeout_s):
                self._events.changed.wait(SLICE_S)

    def is_ready(self, topics: Sequence[str], deadline_s: float, timeout_s: float) -> bool:
        """Whether the leaders and the producer id are there; connects to those that are not.

        To be asked again when connections have changed, at least every `SLICE_S`. Args and raises
        as `wait`.
        """
        leaders = self._metadata.known_cluster.leaders(topics)
        cold = [node for node in leaders if not self._network_client.is_warm(node)]
        if not cold and self._engine.has_producer_id:
            return True
        self._raise_refusal(cold)
        if self._metadata.is_closed:
            raise ProducerClosedError("Producer closed while warmup in progress")
        if self._engine.abandoned:
            raise ProducerClosedError(
                "a signal handler forked during warmup(): what it waits for is the parent's; in "
                "the child make the call again"
            )
        if time.monotonic() >= deadline_s:
            raise KafkaTimeoutError(
                f"warmup of {len(topics)} topic(s) did not end within "
                f"{timeout_s * 1000:,.0f} ms: {self._why_cold(cold, len(leaders))}"
            )
        for node_id in cold:  # each time: what was tried may have failed
            self._network_client.warm(node_id)
        return False

    def _raise_refusal(self, cold: list[int]) -> None:
        for node_id in cold:
            refusal = self._network_client.refusal(node_id)
            if refusal is not None:
                raise refusal
        error = None if cold else self._metadata.standing_error
        if error is not None:
            raise error

    def _why_cold(self, cold: list[int], leader_count: int) -> str:
        if not cold:
            why = self._network_client.producer_id_error()
            because = f": {why}" if why else ""
            return f"no broker has given the producer id that enable_idempotence needs{because}"
        reasons = [text for node in cold if (text := self._network_client.disconnect_reason(node))]
        because = f": {reasons[0]}" if reasons else ""
        return f"{len(cold)} of {leader_count} leader(s) could not be reached{because}"
