"""ProducerEvents: what a producer's control thread tells the threads that send."""

from __future__ import annotations

from typing import Protocol

from fastprod._core.engine.engine import Engine, TopicRef
from fastprod.client.fork_lock import fork_lock
from fastprod.client.listeners import Listeners
from fastprod.client.system_threads import threads
from fastprod.errors import KafkaError


class SendingHalf(Protocol):
    """What the control thread changes of a producer; see `ProducerBase`."""

    @property
    def _engine(self) -> Engine: ...
    def _detach(self) -> None: ...
    def _take_records(self, takes: bool) -> None: ...
    def _topic_known(self, ref: TopicRef) -> None: ...
    def _topic_forgotten(self, name: str) -> None: ...


class ProducerEvents:
    """The `Listener` of a producer's NetworkClient.

    Args:
        producer: whose topics become known and unknown.

    Attributes:
        fatal_error: what ended the producer for good; None: nothing did.
        listeners: told when connections change.
        lock: who holds it from a look at the connections to its wait misses no change of them.
        changed: what is waited for then. It is not entered: its methods are Python, and Ctrl-C in
            one of them would leave the lock locked.

    Threads: any.
    """

    def __init__(self, producer: SendingHalf) -> None:
        self.fatal_error: KafkaError | None = None
        self._producer = producer
        self.lock = fork_lock()
        self.changed = threads().Condition(self.lock)
        self.listeners = Listeners()

    def topics_changed(self, known: frozenset[str], removed: frozenset[str]) -> None:
        """Metadata of these topics arrived or went."""
        producer = self._producer
        for topic in known:
            producer._topic_known(producer._engine.topic(topic))
        for topic in removed:
            producer._topic_forgotten(topic)

    def connections_changed(self) -> None:
        """A connection or the producer id is ready: who waits looks again."""
        with self.lock:
            self.changed.notify_all()
        self.listeners.tell()

    def sending_changed(self, is_open: bool) -> None:
        """A transaction begins or ends: records are welcome from now on, or not."""
        self._producer._take_records(is_open)

    def failed_for_good(self, error: KafkaError) -> None:
        """A fatal error: later sends raise it."""
        self.fatal_error = error
        self._producer._detach()
