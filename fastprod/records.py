"""Records and headers, their metadata, partitions and nodes."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from fastprod.errors import IllegalStateError, KafkaError
from fastprod.frozen import Frozen
from fastprod.security.secret import plain_text

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

UNKNOWN = -1
"""Stands for an offset, timestamp, size or partition that is not known (P-A.2.3)."""

_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1

HeadersLike = Iterable[tuple[str, bytes | None]] | Mapping[str, bytes | None]


class TopicPartition(NamedTuple):
    """One partition of one topic.

    Attributes:
        topic: topic name.
        partition: 0-based partition.
    """

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Node(NamedTuple):
    """One broker.

    Attributes:
        id: the broker's id, 0 or more; negative for a bootstrap address.
        host: host name or IP address, an IPv6 address without brackets.
        port: 1 to 65,535.
        rack: the rack or zone that it says it is in; None: it does not say.
    """

    id: int
    host: str
    port: int
    rack: str | None = None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        rack = f", rack {self.rack}" if self.rack is not None else ""
        return f"{host}:{self.port} (id {self.id}{rack})"


class PartitionInfo(NamedTuple):
    """What the cluster's metadata says about one partition.

    Attributes:
        topic: topic name.
        partition: 0-based partition.
        leader: the broker that takes its records; None while there is none.
        replicas: the brokers that are to have a copy.
        in_sync_replicas: those of them that are up to date.
        offline_replicas: those of them that are not available.
    """

    topic: str
    partition: int
    leader: Node | None
    replicas: tuple[Node, ...] = ()
    in_sync_replicas: tuple[Node, ...] = ()
    offline_replicas: tuple[Node, ...] = ()


class RecordMetadata(NamedTuple):
    """Where a record went (P-A.2.3).

    Attributes:
        topic: topic name.
        partition: 0-based partition, or -1 if none was chosen before the failure.
        offset: position in the partition, or -1 if unknown (acks=0, a duplicate, a failure).
        timestamp: ms since the Unix epoch, UTC: the broker's if the topic uses log-append time,
            else the record's own (P-A.2.4); -1 after a failure.
        serialized_key_size: bytes of the key; -1 if it was None.
        serialized_value_size: bytes of the value; -1 if it was None.
    """

    topic: str
    partition: int
    offset: int = UNKNOWN
    timestamp: int = UNKNOWN
    serialized_key_size: int = UNKNOWN
    serialized_value_size: int = UNKNOWN

    @property
    def has_offset(self) -> bool:
        """Whether `offset` is known."""
        return self.offset != UNKNOWN

    @property
    def has_timestamp(self) -> bool:
        """Whether `timestamp` is known."""
        return self.timestamp != UNKNOWN

    @property
    def topic_partition(self) -> TopicPartition:
        """Topic and partition as one value."""
        return TopicPartition(self.topic, self.partition)


def failed_metadata(topic: str, partition: int | None = None) -> RecordMetadata:
    """What a callback gets beside an error (P-A.2.5): only topic and partition are known."""
    return RecordMetadata(topic, UNKNOWN if partition is None else partition)


class OffsetAndMetadata(NamedTuple):
    """How far a consumer group has read one partition.

    Attributes:
        offset: of the next record to read, 0 or more.
        metadata: a text of the consumer's own.
        leader_epoch: of the last record that was read; -1: unknown (KIP-320).
    """

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class ConsumerGroupMetadata(NamedTuple):
    """What a member of a consumer group is known by there (KIP-447).

    Attributes:
        group_id: the group's name.
        generation_id: the member's generation or epoch; -1: not checked.
        member_id: the group's name for the member; empty: not checked.
        group_instance_id: of a static member (KIP-345); None: it is none.
    """

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class OffsetRange(NamedTuple):
    """Records of a bulk send that stand together in a partition.

    Attributes:
        partition: 0-based partition.
        first_offset: offset of the first of them, or -1 if unknown (acks=0, a duplicate).
        record_count: how many.
        topic: topic name.
    """

    partition: int
    first_offset: int
    record_count: int
    topic: str = ""


class BulkMetadata(NamedTuple):
    """What became of the records of one bulk: of one `send_many` or `append_columns`.

    Attributes:
        topic: topic name; None if they went to several.
        record_count: records delivered: all of them, if it comes from `BulkFuture.result`.
        ranges: where they are, in the order of their batches.
        byte_count: bytes of their keys and values.
    """

    topic: str | None
    record_count: int
    ranges: tuple[OffsetRange, ...]
    byte_count: int = 0


class BulkArrays(NamedTuple):
    """Where each record of a bulk is, by its row in the columns that were sent.

    A record that was not delivered has -1 in all three arrays, but -2 for its partition if `cancel`
    took it back; one that was has a partition and a timestamp, so that ``partitions < 0`` says
    which are missing. `BulkFuture.failed_rows` tells why.

    Attributes:
        partitions: int32; 0-based partitions; -1: not delivered; -2: taken back.
        offsets: int64; positions in the partitions; -1 also for a delivered record whose offset is
            unknown (acks=0, a duplicate).
        timestamps: int64; ms since the Unix epoch, UTC: the broker's if the topic uses log-append
            time, else the record's own.
    """

    partitions: NDArray[numpy.int32]
    offsets: NDArray[numpy.int64]
    timestamps: NDArray[numpy.int64]


class FailedRow(NamedTuple):
    """A record of a bulk that was not delivered.

    Attributes:
        row: its 0-based place in the columns.
        topic: the topic it was for.
        key_size_bytes: bytes of its key, -1 if it was null; None: nobody had looked at it.
        value_size_bytes: the same of its value.
        error: the cause.
    """

    row: int
    topic: str
    key_size_bytes: int | None
    value_size_bytes: int | None
    error: KafkaError


class Headers:
    """The headers of one record: (name, value) pairs in order; a name may occur more than once.

    Changeable until `send` has serialized the record, then frozen (P-A.2.2): a serializer or an
    interceptor may still add headers, a callback may not.

    Args:
        pairs: pairs or a mapping to start with; copied.

    Raises:
        TypeError: a name is no str, or a value neither bytes-like nor None.

    Threads: one at a time, until frozen.  No method blocks.  Source: Headers, RecordHeaders.
    """

    __slots__ = ("_frozen", "_pairs")
    # Equality follows the content, and the content changes.
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, pairs: HeadersLike | Headers | None = None) -> None:
        self._frozen = False
        self._pairs: list[tuple[str, bytes | None]]
        if isinstance(pairs, Headers):
            self._pairs = list(pairs._pairs)
        elif not pairs:
            self._pairs = []
        elif isinstance(pairs, Mapping):
            self._pairs = [_pair(name, value) for name, value in pairs.items()]
        elif isinstance(pairs, Iterable):
            self._pairs = [_pair(*_two(pair)) for pair in pairs]
        else:
            kind = type(pairs).__name__
            raise TypeError(f"headers must be (name, value) pairs or a mapping, not {kind}")

    @property
    def is_frozen(self) -> bool:
        """Whether the headers can no longer be changed."""
        return self._frozen

    def freeze(self) -> None:
        """Refuse every later change.  A second call does nothing."""
        self._frozen = True

    def add(self, name: str, value: bytes | None) -> None:
        """Append one header.

        Args:
            name: any str; it may occur already.
            value: bytes, another bytes-like object (copied), or None.

        Raises:
            IllegalStateError: the headers are frozen.
            TypeError: `name` is no str, or `value` neither bytes-like nor None.
        """
        self._check_open(f"add header {name!r}")
        self._pairs.append(_pair(name, value))

    def append(self, pair: tuple[str, bytes | None]) -> None:
        """Append one header, as to the list that headers are in kafka-python.

        Args:
            pair: (name, value), as `add` takes them.

        Raises:
            IllegalStateError: the headers are frozen.
            TypeError: `pair` is none, or as `add`.
        """
        self.add(*_two(pair))

    def _replace(self, pairs: Iterable[tuple[str, bytes | None]]) -> None:
        """Have these headers in place of all that there are.

        Args:
            pairs: (name, value) pairs; copied.

        Raises:
            IllegalStateError: the headers are frozen, and the pairs are others.
            TypeError: as `append`.
        """
        if pairs != self._pairs:
            self._check_open("replace headers")
            self._pairs = [_pair(*_two(pair)) for pair in pairs]

    def remove(self, name: str) -> int:
        """Remove every header of a name; return how many there were.

        Args:
            name: the header's name.

        Raises:
            IllegalStateError: the headers are frozen.
        """
        self._check_open(f"remove header {name!r}")
        kept = [pair for pair in self._pairs if pair[0] != name]
        removed_count = len(self._pairs) - len(kept)
        self._pairs = kept
        return removed_count

    def all(self, name: str) -> list[bytes | None]:
        """Return the values of every header called `name`, in order; [] if there is none."""
        return [value for key, value in self._pairs if key == name]

    def last(self, name: str) -> bytes | None:
        """Return the value of the last header called `name`.

        Raises:
            KeyError: there is none.
        """
        for key, value in reversed(self._pairs):
            if key == name:
                return value
        raise KeyError(name)

    def to_list(self) -> list[tuple[str, bytes | None]]:
        """Return the pairs as a new list."""
        return list(self._pairs)

    def _check_open(self, change: str) -> None:
        if self._frozen:
            raise IllegalStateError(
                f"cannot {change}: the record was sent, its headers are read-only; "
                f"change them before send(), in an interceptor's on_send, or in a serializer"
            )

    def __iter__(self) -> Iterator[tuple[str, bytes | None]]:
        return iter(self._pairs)

    def __len__(self) -> int:
        return len(self._pairs)

    def __contains__(self, name: object) -> bool:
        return any(key == name for key, _ in self._pairs)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Headers):
            return NotImplemented
        return self._pairs == other._pairs

    def __repr__(self) -> str:
        return f"Headers({self._pairs!r})"


def _two(pair: Any) -> tuple[Any, Any]:
    try:
        name, value = pair
    except (TypeError, ValueError):
        raise TypeError(f"a header must be a (name, value) pair, not {pair!r}") from None
    return name, value


def _pair(name: Any, value: Any) -> tuple[str, bytes | None]:
    if not isinstance(name, str):
        raise TypeError(f"a header's name must be str, not {type(name).__name__}: {name!r}")
    if value is not None and type(value) is not bytes:
        if not isinstance(value, bytes | bytearray | memoryview):
            raise TypeError(
                f"the value of header {name!r} must be bytes or None, not "
                f"{type(value).__name__}: encode it first"
            )
        value = bytes(value)
    return name, value


class ProducerRecord(Frozen):
    """One record to send.

    Args:
        topic: topic name.
        value: payload, or what the value serializer takes; None is a tombstone.
        key: key, or what the key serializer takes; None for no key.
        headers: (name, value) pairs or a mapping; copied into a `Headers`.
        partition: 0-based partition, 0..2**31-1; None leaves the choice to the partitioner.
        timestamp_ms: ms since the Unix epoch, UTC, 0..2**63-1; None means the time of `send`.

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: `partition` or `timestamp_ms` is out of range.

    Equality is over all fields (P-A.2.1); a record is not hashable, because its headers can change.
    `dataclasses.replace` makes a changed copy with headers of its own.
    """

    __match_args__ = ("topic", "value", "key", "headers", "partition", "timestamp_ms")
    __slots__ = __match_args__

    topic: str
    value: Any
    key: Any
    headers: Headers
    partition: int | None
    timestamp_ms: int | None

    def __init__(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        headers: HeadersLike | Headers | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        if not isinstance(topic, str):
            raise TypeError(f"topic must be a str, not {type(topic).__name__}")
        if partition is not None:
            partition = in_range("partition", partition, _INT32_MAX)
        if timestamp_ms is not None:
            timestamp_ms = in_range("timestamp_ms", timestamp_ms, _INT64_MAX)
        put = object.__setattr__
        put(self, "topic", plain_text(topic))
        put(self, "value", value)
        put(self, "key", key)
        put(self, "headers", Headers(headers))
        put(self, "partition", partition)
        put(self, "timestamp_ms", timestamp_ms)


def in_range(name: str, value: Any, limit: int) -> int:
    """Return a partition or timestamp as an int of 0..limit, or say what is wrong with it."""
    if isinstance(value, bool):
        raise TypeError(f"{name} must be an int or None, not a bool")
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an int or None, not {type(value).__name__}") from None
    if not 0 <= number <= limit:
        raise ValueError(f"{name} must be 0..{limit:,} or None, not {number:,}")
    return number
