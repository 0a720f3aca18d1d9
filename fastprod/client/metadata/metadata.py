"""Metadata: which topics we follow, what we know of them, and who waits for them (contract P-H)."""

from __future__ import annotations

import copy
import itertools
import threading
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Final, NamedTuple

from fastprod.client.backoff import ExponentialBackoff
from fastprod.client.fork_lock import fork_lock
from fastprod.client.listeners import Listeners
from fastprod.client.metadata.cluster import (
    NO_PARTITIONS,
    Cluster,
    ClusterUpdate,
    LeaderHint,
    TopicState,
)
from fastprod.client.metadata.followed_topics import FollowedTopics
from fastprod.client.metadata.leader_epochs import LeaderEpochs
from fastprod.client.metadata.metadata_answer import NO_TOPIC_ID
from fastprod.client.metadata.missing_topic import missing_topic_error
from fastprod.client.metadata.refresh_schedule import RefreshSchedule
from fastprod.client.system_threads import threads
from fastprod.error_codes import (
    INVALID_TOPIC_EXCEPTION,
    LISTENER_NOT_FOUND,
    TOPIC_AUTHORIZATION_FAILED,
)
from fastprod.errors import (
    KAFKA_ERRORS,
    IllegalStateError,
    KafkaError,
    MetadataTimeoutError,
    ProducerClosedError,
    error_for_code,
)
from fastprod.log import Log
from fastprod.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic
from fastprod.records import Node

_LOG = Log(__name__)

WAIT_SLICE_MS: Final = 50
"""Longest single wait of a caller: between two of them Ctrl-C gets through."""

_MOST_TOLD: Final = 30

Wait = Callable[[threading.Condition, float], object]
"""Waits on a held condition for at most so many seconds."""


class MetadataRequestAndVersion(NamedTuple):
    """What to ask, and what ``Metadata.update`` has to know of it when the answer is here."""

    topics: tuple[str, ...]
    request_version: int
    is_partial: bool


class MetadataChanges(NamedTuple):
    """What an applied response changed, since the one before it: a bootstrap changes nothing.

    Attributes:
        cluster: the new snapshot.
        changed_topics: topics that are new, or whose partitions or id changed.
        removed_topics: topics that were known and are no longer.
        forgotten_topics: topics that were idle for too long, known or not: nobody asks for them.
    """

    cluster: Cluster
    changed_topics: frozenset[str]
    removed_topics: frozenset[str]
    forgotten_topics: frozenset[str] = frozenset()


class _TopicError(NamedTuple):
    code: int
    update_version: int


class _Findings:
    """What a response says beside the snapshot."""

    __slots__ = ("forgotten", "has_news", "is_stale", "new_errors")

    def __init__(self, forgotten: frozenset[str]) -> None:
        self.forgotten = forgotten
        self.has_news = False
        self.is_stale = False
        self.new_errors: dict[str, str] = {}


class Metadata:
    """The cluster as we know it, and the rules for learning more.

    Callers wait for topics here; the control thread asks what to request, and hands in the
    answers. Every method may be called from any thread and does not block, but for
    ``wait_for_topic``. ``cluster`` and ``known_cluster`` take no lock.

    Args:
        refresh_backoff: ``retry.backoff.ms`` and its max.
        max_age_ms: ``metadata.max.age.ms``: age at which everything is asked for again.
        max_idle_ms: ``metadata.max.idle.ms``: a topic unused for so long is forgotten.
        clock_ms: the time in ms; the ``now_ms`` of the other methods is this clock's.
        wake: makes the control thread look at ``time_to_next_update_ms``; called without a lock.
        last_used_ms: when a topic was last used, for uses that do not come by ``add``; None if
            unknown. Asked only before a topic is forgotten, with this object's lock held.
        wait: replaces waiting on the condition, for tests whose clock is their own.

    Attributes:
        listeners: told of each update, a fatal error and the end, with this object's lock held.
        last_failure: why there is no metadata, as far as is known; None once there is.

    Source: Java's ``Metadata`` and ``ProducerMetadata``, contract P-H.1 to P-H.7 and P-A.4.
    """

    def __init__(
        self,
        *,
        refresh_backoff: ExponentialBackoff,
        max_age_ms: int,
        max_idle_ms: int,
        clock_ms: Callable[[], int],
        wake: Callable[[], None],
        last_used_ms: Callable[[str], int | None] | None = None,
        wait: Wait = threading.Condition.wait,
    ) -> None:
        self._followed = FollowedTopics(max_idle_ms, last_used_ms)
        self._clock_ms = clock_ms
        self._wake = wake
        self._wait = wait
        # It is entered, not the condition, whose methods are Python: Ctrl-C would leave it locked.
        self._lock = fork_lock()
        self._changed = threads().Condition(self._lock)
        self.listeners = Listeners()
        self._schedule = RefreshSchedule(refresh_backoff, max_age_ms)
        self._epochs = LeaderEpochs()
        self._cluster = Cluster.empty()
        # The newest snapshot that an answer made: what callers still know after a bootstrap.
        self._told = self._cluster
        self._bootstrap_nodes: tuple[Node, ...] = ()
        self._later_nodes: tuple[Node, ...] = ()
        self._update_version = 0
        self._topic_errors: dict[str, _TopicError] = {}
        self._fatal_error: KafkaError | None = None
        self.last_failure: BaseException | None = None
        self._awaited: Callable[[], str] = str
        self._is_closed = False

    @property
    def cluster(self) -> Cluster:
        """The current snapshot."""
        return self._cluster

    @property
    def known_cluster(self) -> Cluster:
        """The current snapshot, but after a bootstrap the one before it: records still go by it."""
        cluster = self._cluster
        return self._told if cluster.is_bootstrap else cluster

    @property
    def update_version(self) -> int:
        """Grows with every applied response and every bootstrap."""
        return self._update_version

    @property
    def topics(self) -> frozenset[str]:
        """The topics followed."""
        with self._lock:
            return frozenset(self._followed)

    @property
    def is_closed(self) -> bool:
        """``close`` was called."""
        return self._is_closed

    def bootstrap(self, nodes: Iterable[Node], later: Iterable[Node] = ()) -> None:
        """Forget everything but these addresses, and ask for everything (contract P-H.5.1).

        Args:
            nodes: the addresses.
            later: those that are no use before all of `nodes` have failed.
        """
        with self._lock:
            self._bootstrap_nodes, self._later_nodes = tuple(nodes), tuple(later)
            self._schedule.request_full()
            self._update_version += 1
            self._cluster = Cluster.bootstrap(self._bootstrap_nodes)

    @property
    def bootstrap_nodes(self) -> tuple[Node, ...]:
        """All addresses that ``bootstrap`` was last given."""
        return (*self._bootstrap_nodes, *self._later_nodes)

    def rebootstrap(self) -> None:
        """``bootstrap`` with the addresses it was last given (KIP-899, contract P-H.5.2)."""
        self.bootstrap(self._bootstrap_nodes, self._later_nodes)

    def add(self, topic: str, now_ms: int) -> None:
        """Follow a topic from now on, or keep following it: its idle time starts anew (P-H.3)."""
        self.add_many((topic,), now_ms)

    def add_many(self, topics: Iterable[str], now_ms: int) -> None:
        """``add`` of each, so that one request asks for all that are new."""
        with self._lock:
            new_count = sum(self._followed.add(topic, now_ms) for topic in topics)
            if new_count:
                self._schedule.request_new_topics()

    @property
    def last_full_update_ms(self) -> int | None:
        """When an answer about all topics last came; None: never."""
        return self._schedule.last_successful_refresh_ms

    def request_update(self, *, reset_equivalent_backoff: bool = False) -> int:
        """Ask for all topics soon (P-H.2.6). Returns the current ``update_version``."""
        with self._lock:
            self._schedule.request_full(reset_equivalent_backoff=reset_equivalent_backoff)
            return self._update_version

    def request_update_for_topics(self, topics: Iterable[str]) -> int:
        """Ask for topics soon: new ones at once and alone, else all (P-A.4.4, P-H.2.2).

        Returns the current ``update_version``: a newer one has the answer.
        """
        with self._lock:
            is_new = {self._followed.is_unanswered(topic) for topic in topics}
            if True in is_new:
                self._schedule.request_new_topics()
            if False in is_new:
                self._schedule.request_full()
            return self._update_version

    def time_to_next_update_ms(self, now_ms: int) -> int:
        """How long until a metadata request should be sent, 0 for now (P-H.2.1)."""
        with self._lock:
            return self._schedule.time_to_next_ms(now_ms)

    def new_request(self, now_ms: int) -> MetadataRequestAndVersion:
        """The topics to ask for now: the new ones if nothing else is due, else all (P-H.2.2)."""
        with self._lock:
            is_partial = self._schedule.is_partial_enough(now_ms)
            topics = self._followed.unanswered if is_partial else self._followed
            return MetadataRequestAndVersion(
                tuple(topics), self._schedule.request_version, is_partial
            )

    def update(
        self,
        request: MetadataRequestAndVersion,
        response: MetadataResponse,
        now_ms: int,
        *,
        apply: Callable[[MetadataChanges], None] | None = None,
    ) -> MetadataChanges:
        """Apply the answer to ``request`` and wake the waiters (P-H.2.2 to P-H.2.4, P-H.3, P-H.4).

        Args:
            request: what ``new_request`` gave.
            response: the answer.
            now_ms: the time.
            apply: called before any waiter wakes, with this object's lock held; must not block.

        Raises:
            IllegalStateError: after ``close``.
        """
        with self._lock:
            if self._is_closed:
                raise IllegalStateError("metadata update after close")
            findings = _Findings(self._followed.forget_idle(now_ms))
            self._update_version += 1
            older = self._told
            self._cluster = self._merged(request, response, findings)
            self._schedule.succeeded(
                now_ms,
                request.request_version,
                is_partial=request.is_partial,
                has_news=findings.has_news,
            )
            if findings.is_stale:
                self._schedule.request_full()
            # An answer shows that what failed before it no longer stands in the way.
            self.last_failure = None
            self._fatal_error = None
            changes = MetadataChanges(
                self._cluster,
                self._cluster.changed_topics(older),
                self._cluster.removed_topics(older),
                findings.forgotten,
            )
            self._changed.notify_all()
            if apply is not None:
                apply(changes)
            self._told = self._cluster  # only now: what `apply` failed at is a change once more
            self.listeners.tell()
        if findings.new_errors:
            told = dict(itertools.islice(findings.new_errors.items(), _MOST_TOLD))
            others = len(findings.new_errors) - len(told)
            more = f" and {others:,} more" if others else ""
            _LOG.warning("the brokers' metadata has errors: %s%s", told, more)
        return changes

    def failed_update(self, now_ms: int) -> None:
        """A metadata request got no usable answer: back off (P-H.2.5)."""
        with self._lock:
            self._schedule.failed(now_ms)

    def record_failure(self, error: BaseException) -> None:
        """Remember why there is no metadata: a waiter's timeout names it, until an update."""
        with self._lock:
            self.last_failure = error

    def name_waits(self, awaited: Callable[[], str]) -> None:
        """Have a waiter's timeout say, too, what connections wait for.

        Args:
            awaited: a clause, "" for nothing. Called in any thread.
        """
        self._awaited = awaited

    def fatal_error(self, error: KafkaError) -> None:
        """Wake all waiters with ``error``; who comes later gets it at once (P-H.7.2).

        So it is until an update is applied, or ``forget_fatal_error`` is called: Java's client
        throws it once, and lets every other caller wait for max.block.ms.
        """
        with self._lock:
            self._fatal_error = error
            self.last_failure = error
            self._changed.notify_all()
            self.listeners.tell()

    def forget_fatal_error(self) -> None:
        """What it said is no longer so: who waits, waits again."""
        with self._lock:
            self._fatal_error = None
            self._schedule.forget_failures()

    @property
    def standing_error(self) -> KafkaError | None:
        """A copy of what ``fatal_error`` was given, while it stands."""
        return copy.copy(self._fatal_error)

    def topic_error(self, topic: str) -> KafkaError | None:
        """The error of the latest response that named the topic; None if it had none."""
        with self._lock:
            found = self._topic_errors.get(topic)
        return None if found is None else error_for_code(found.code, topic=topic)

    def close(self) -> None:
        """End every wait with an error (P-H.7.4). May be repeated."""
        with self._lock:
            self._is_closed = True
            self._changed.notify_all()
            self.listeners.tell()

    def apply_leader_hints(
        self, hints: Iterable[LeaderHint], nodes: Iterable[Node]
    ) -> list[LeaderHint]:
        """Take newer leaders from a Produce response into the snapshot (KIP-951, P-H.6).

        ``update_version`` stays, and an update is requested all the same.

        Args:
            hints: the leaders the response named.
            nodes: the response's node endpoints.

        Returns:
            The hints that were taken.
        """
        with self._lock:
            newer = []
            for hint in hints:
                last = self._epochs.last_seen(hint.topic, hint.partition)
                if last is None or hint.leader_epoch > last:
                    newer.append(hint)
            self._cluster, taken = self._cluster.with_leader_hint(newer, nodes)
            for hint in taken:
                self._epochs.see(hint.topic, hint.partition, hint.leader_epoch)
            self._schedule.request_full()
            return taken

    def wait_for_topic(self, topic: str, partition: int | None, timeout_ms: int) -> int:
        """Follow the topic and wait until it is known (P-A.4). Blocks up to ``timeout_ms``.

        Args:
            topic: topic to send to.
            partition: partition that must exist, or None for any.
            timeout_ms: >= 0; 0 still succeeds for what is known already.

        Returns:
            How long it took, in ms; 0 if it was known already.

        Raises:
            InvalidTopicError: the brokers refuse the topic's name.
            TopicAuthorizationError: the brokers do not let us see the topic.
            MetadataTimeoutError: not known in time; ``__cause__`` says why, if that is known.
            ProducerClosedError: closed while waiting.
            KafkaError: what ``fatal_error`` was given.
        """
        start_ms = self._clock_ms()
        errors = self.wait_for_topics({topic: partition}, timeout_ms)
        if errors:
            raise errors[topic]
        return self._clock_ms() - start_ms

    def wait_for_topics(
        self, wanted: Mapping[str, int | None], timeout_ms: int
    ) -> dict[str, KafkaError]:
        """``wait_for_topic`` for several, which are asked for together.

        Blocks while some of them come: ``timeout_ms`` runs anew from each answer that has another
        one. Waits in slices of at most 50 ms, so that the main thread sees Ctrl-C.

        Args:
            wanted: the partition that must exist, or None for any, by topic.
            timeout_ms: >= 0; 0 still succeeds for what is known already.

        Returns:
            What ``wait_for_topic`` would raise, by topic; empty if all are known.

        Raises:
            ProducerClosedError: closed while waiting.
            KafkaError: what ``fatal_error`` was given.
        """
        search = self.search(wanted, timeout_ms)
        try:
            seen_version, deadline_ms = next(search)
            while True:
                has_come = self._await_update(seen_version, deadline_ms)
                seen_version, deadline_ms = search.send(has_come)
        except StopIteration as end:
            found: dict[str, KafkaError] = end.value
            return found

    def search(
        self, wanted: Mapping[str, int | None], timeout_ms: int
    ) -> Generator[tuple[int, int], bool, dict[str, KafkaError]]:
        """``wait_for_topics`` for callers that wait in their own way.

        Yields:
            The version that was seen, and the ms of the clock until which a newer one is awaited;
            it is to be sent whether one came (``has_update``).

        Returns:
            As ``wait_for_topics``.
        """
        errors: dict[str, KafkaError] = {
            topic: error_for_code(INVALID_TOPIC_EXCEPTION, topic=topic)
            for topic in wanted
            if self._cluster.error_code(topic) == INVALID_TOPIC_EXCEPTION
        }
        since_ms = self._clock_ms()
        left = [topic for topic in wanted if topic not in errors]
        self.add_many(left, since_ms)
        left = self._unknown(left, wanted)
        while left:
            self.add_many(left, self._clock_ms())
            seen_version = self.request_update_for_topics(left)
            self._wake()
            if not (yield seen_version, since_ms + timeout_ms):
                for topic in left:
                    errors[topic] = self._timeout_error(topic, wanted[topic], timeout_ms)
                return errors
            errors |= self._refused(left, seen_version)
            still = self._unknown([topic for topic in left if topic not in errors], wanted)
            if len(still) < len(left):
                since_ms = self._clock_ms()
            left = still
        return errors

    def has_update(self, seen_version: int) -> bool:
        """Whether there is a version above `seen_version`.

        Raises:
            ProducerClosedError: closed while waiting.
            KafkaError: what ``fatal_error`` was given.
        """
        if self._fatal_error is not None:
            raise copy.copy(self._fatal_error)  # tracebacks are added to what is raised
        if self._is_closed:
            raise ProducerClosedError("Producer closed while send in progress") from (
                KafkaError("Requested metadata update after close")
            )
        return self._update_version > seen_version

    def _unknown(self, topics: list[str], wanted: Mapping[str, int | None]) -> list[str]:
        # The lock is free only when ``update`` has handed a new snapshot to its ``apply`` too.
        with self._lock:
            cluster = self._cluster
        found = []
        for topic in topics:
            count = cluster.partition_count_for_topic(topic)
            partition = wanted[topic]
            if count is None or (partition is not None and partition >= count):
                found.append(topic)
        return found

    def _await_update(self, seen_version: int, deadline_ms: int) -> bool:
        """Wait for a version above ``seen_version``; False if the deadline came first."""
        with self._lock:
            while True:
                if self.has_update(seen_version):
                    return True
                left_ms = deadline_ms - self._clock_ms()
                if left_ms <= 0:
                    return False
                self._wait(self._changed, min(left_ms, WAIT_SLICE_MS) / 1000)

    def _refused(self, topics: list[str], seen_version: int) -> dict[str, KafkaError]:
        # An error belongs to those who waited for the response that had it: who comes later sees
        # a version that is not older, and waits for an answer of its own (P-H.7.1).
        refused: dict[str, KafkaError] = {}
        with self._lock:
            for topic in topics:
                found = self._topic_errors.get(topic)
                if (
                    found is not None
                    and found.update_version > seen_version
                    and found.code in (INVALID_TOPIC_EXCEPTION, TOPIC_AUTHORIZATION_FAILED)
                ):
                    refused[topic] = error_for_code(found.code, topic=topic)
        return refused

    def _timeout_error(
        self, topic: str, partition: int | None, timeout_ms: int
    ) -> MetadataTimeoutError:
        count = self._cluster.partition_count_for_topic(topic)
        cause = self.topic_error(topic) or self.last_failure
        return missing_topic_error(topic, partition, count, timeout_ms, cause, self._awaited())

    def _merged(
        self,
        request: MetadataRequestAndVersion,
        response: MetadataResponse,
        findings: _Findings,
    ) -> Cluster:
        """The snapshot after ``response``; notes topics' epochs and errors on the way."""
        named = {topic.name: topic for topic in response.topics if topic.name is not None}
        update = self._accepted(response, named, findings)
        for name in named:
            self._followed.answered(name)
        for name in findings.forgotten:
            self._epochs.forget(name)
            self._topic_errors.pop(name, None)
        if request.is_partial:
            return self._cluster.with_updates(update, without=[*findings.forgotten, *named])
        return Cluster(update)

    def _accepted(
        self,
        response: MetadataResponse,
        named: Mapping[str, MetadataResponseTopic],
        findings: _Findings,
    ) -> ClusterUpdate:
        topics: dict[str, TopicState] = {}
        for name, topic in named.items():
            if name not in self._followed:
                continue
            self._note_errors(name, topic, findings)
            if topic.error_code:
                topics[name] = TopicState(NO_PARTITIONS, error_code=topic.error_code)
                continue
            partitions, has_news = self._epochs.accept(
                name, topic, self._cluster.partitions(name), self._cluster.topic_id(name)
            )
            findings.has_news |= has_news
            topic_id = None if topic.topic_id == NO_TOPIC_ID else topic.topic_id
            topics[name] = TopicState(partitions, topic_id)
        return ClusterUpdate(
            {
                each.node_id: Node(each.node_id, each.host, each.port, each.rack)
                for each in response.brokers
            },
            topics,
        )

    def _note_errors(self, name: str, topic: MetadataResponseTopic, findings: _Findings) -> None:
        before = self._topic_errors.pop(name, None)
        codes = {partition.error_code for partition in topic.partitions}
        if topic.error_code:
            codes.add(topic.error_code)
            self._topic_errors[name] = _TopicError(topic.error_code, self._update_version)
            if before is None or before.code != topic.error_code:
                findings.new_errors[name] = _error_name(topic.error_code)
        if LISTENER_NOT_FOUND in codes:
            known = self._cluster.partitions(name).values()
            if all(partition.error_code != LISTENER_NOT_FOUND for partition in known):
                findings.new_errors[name] = _error_name(LISTENER_NOT_FOUND)
        for code in codes - {0}:
            row = KAFKA_ERRORS.get(code)
            findings.is_stale |= row is not None and row.refresh_metadata


def _error_name(code: int) -> str:
    row = KAFKA_ERRORS.get(code)
    return f"error code {code}" if row is None else row.name
