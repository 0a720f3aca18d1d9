"""Metadata and InitProducerId: the messages every producer exchanges, in codecs of our own.

They are fixed here, as ApiVersions is, for three reasons: a producer that only sends never pays
the import of the schema library, an error code newer than this version spoils no response, and
a damaged length ends in an error and not in an allocation.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from fastprod.api_versions import CLIENT_VERSIONS, INIT_PRODUCER_ID, METADATA
from fastprod.errors import UnsupportedVersionError
from fastprod.frames import FrameReader, FrameWriter, response_reader
from fastprod.records import Node

NO_LEADER: Final = -1
"""Leader id of a partition without a leader."""

NO_EPOCH: Final = -1
"""Leader epoch of a partition whose epoch is unknown."""

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1

NO_TOPIC_ID: Final = bytes(16)
"""Topic id of brokers that have none (Metadata below version 10)."""

_METADATA_FLEXIBLE_FROM: Final = 9
_RELIABLE_EPOCHS_FROM: Final = 9
_INIT_PRODUCER_ID_FLEXIBLE_FROM: Final = 2
_EPOCHLESS_PARTITION: Final = struct.Struct(">hii")
_PARTITION: Final = struct.Struct(">hiii")


class PartitionMetadata(NamedTuple):
    """One partition of a metadata response. A tuple, because there are thousands of them."""

    error_code: int
    partition: int
    leader_id: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """One topic of a metadata response.

    Attributes:
        error_code: 0, or Kafka's error code for the whole topic.
        name: "" where the broker knows only the id.
        topic_id: 16 bytes; ``NO_TOPIC_ID`` if the broker told none.
        is_internal: true for Kafka's own topics.
        partitions: in the broker's order; empty after an error.
    """

    error_code: int
    name: str
    topic_id: bytes
    is_internal: bool
    partitions: tuple[PartitionMetadata, ...]


@dataclass(frozen=True, slots=True)
class MetadataResponse:
    """A metadata response of version 4 to 13 (contract J.4).

    Attributes:
        version: version of the response.
        brokers: every broker the answering one knows.
        cluster_id: None if the broker told none.
        controller_id: node id, -1 if unknown.
        topics: in the broker's order.
        throttle_ms: time the broker asks the client to stay silent.
        error_code: error of the whole response (version 13), else 0.
    """

    version: int
    brokers: tuple[Node, ...]
    cluster_id: str | None
    controller_id: int
    topics: tuple[TopicMetadata, ...]
    throttle_ms: int = 0
    error_code: int = 0

    @property
    def has_reliable_leader_epochs(self) -> bool:
        """False below version 9, where brokers could send stale epochs (contract H.4.1)."""
        return self.version >= _RELIABLE_EPOCHS_FROM


@dataclass(frozen=True, slots=True)
class InitProducerIdResponse:
    """An InitProducerId response of version 0 to 5 (contract J.4)."""

    error_code: int
    producer_id: int
    producer_epoch: int
    throttle_ms: int


def metadata_request(
    version: int,
    correlation_id: int,
    client_id: str | None,
    topics: Iterable[str] | None,
    allow_auto_topic_creation: bool = True,
) -> bytes:
    """The whole Metadata request frame, size prefix included. Any thread; does not block.

    Args:
        version: 4 to 13.
        correlation_id: int32.
        client_id: client id, or None.
        topics: names to ask for; empty asks for no topic, None for every topic (J.3.1).
        allow_auto_topic_creation: let the broker create topics it does not have; default true.

    Raises:
        UnsupportedVersionError: no such version.
        ValueError: a text longer than Kafka's strings.

    Source: contract H.2.8, J.3.2, J.4.
    """
    _check_version(METADATA, "Metadata", version)
    flexible = version >= _METADATA_FLEXIBLE_FROM
    body = FrameWriter()
    if topics is None:
        body.count(None, flexible)
    else:
        names = list(topics)
        body.count(len(names), flexible)
        for name in names:
            if version >= 10:
                body.uuid(NO_TOPIC_ID)
            body.string(name, flexible)
            body.no_tags(flexible)
    body.boolean(allow_auto_topic_creation)
    if 8 <= version <= 10:
        body.boolean(False)
    if version >= 8:
        body.boolean(False)
    body.no_tags(flexible)
    return body.request(METADATA, version, correlation_id, client_id, flexible=flexible)


def parse_metadata_response(version: int, payload: bytes) -> MetadataResponse:
    """Decode a Metadata response without its size prefix. Any thread; does not block.

    Unknown tagged fields and trailing bytes are skipped (J.1.1, J.1.4).

    Raises:
        UnsupportedVersionError: no such version.
        SchemaError: the frame is not what its version promises (J.1.5).
    """
    _check_version(METADATA, "Metadata", version)
    flexible = version >= _METADATA_FLEXIBLE_FROM
    _, reader = response_reader(payload, f"Metadata response v{version}", header_tags=flexible)
    throttle_ms = reader.int32()
    brokers = tuple([_read_broker(reader, flexible) for _ in range(reader.length(flexible))])
    cluster_id = reader.nullable_string(flexible)
    controller_id = reader.int32()
    topics = tuple([_read_topic(reader, version, flexible) for _ in range(reader.length(flexible))])
    if 8 <= version <= 10:
        reader.int32()
    error_code = reader.int16() if version >= 13 else 0
    if flexible:
        reader.skip_tags()
    return MetadataResponse(
        version, brokers, cluster_id, controller_id, topics, throttle_ms, error_code
    )


def init_producer_id_request(
    version: int,
    correlation_id: int,
    client_id: str | None,
    *,
    transactional_id: str | None = None,
    transaction_timeout_ms: int = 2**31 - 1,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
) -> bytes:
    """The whole InitProducerId request frame; the defaults are those of F.5.1 (idempotence only).

    Args:
        version: 0 to 5; producer id and epoch are sent from 3 on (KIP-360).
        correlation_id: int32.
        client_id: client id, or None.
        transactional_id: None, or a non-empty id.
        transaction_timeout_ms: in ms, 1 to 2**31-1.
        producer_id: id to keep while bumping its epoch, else -1.
        producer_epoch: epoch that goes with ``producer_id``, else -1.

    Raises:
        UnsupportedVersionError: no such version.
        ValueError: an empty transactional id, or a timeout out of range (J.2.3).
    """
    _check_version(INIT_PRODUCER_ID, "InitProducerId", version)
    if transactional_id == "":
        raise ValueError("transactional_id is empty: give it a name, or leave it out")
    if not 1 <= transaction_timeout_ms < 1 << 31:
        raise ValueError(
            f"transaction timeout of {transaction_timeout_ms} ms: must be from 1 to {2**31 - 1}"
        )
    flexible = version >= _INIT_PRODUCER_ID_FLEXIBLE_FROM
    body = FrameWriter()
    body.string(transactional_id, flexible)
    body.int32(transaction_timeout_ms)
    if version >= 3:
        body.int64(producer_id)
        body.int16(producer_epoch)
    body.no_tags(flexible)
    return body.request(INIT_PRODUCER_ID, version, correlation_id, client_id, flexible=flexible)


def parse_init_producer_id_response(version: int, payload: bytes) -> InitProducerIdResponse:
    """Decode an InitProducerId response without its size prefix. Any thread; does not block.

    Raises:
        UnsupportedVersionError: no such version.
        SchemaError: the frame is not what its version promises.
    """
    _check_version(INIT_PRODUCER_ID, "InitProducerId", version)
    flexible = version >= _INIT_PRODUCER_ID_FLEXIBLE_FROM
    _, reader = response_reader(
        payload, f"InitProducerId response v{version}", header_tags=flexible
    )
    throttle_ms = reader.int32()
    return InitProducerIdResponse(reader.int16(), reader.int64(), reader.int16(), throttle_ms)


def _check_version(api_key: int, name: str, version: int) -> None:
    low, high = CLIENT_VERSIONS[api_key]
    if not low <= version <= high:
        raise UnsupportedVersionError(
            f"{name} of version {version}: this client speaks {low} to {high}"
        )


def _read_broker(reader: FrameReader, flexible: bool) -> Node:
    node = Node(
        reader.int32(),
        reader.string(flexible),
        reader.int32(),
        reader.nullable_string(flexible),
    )
    if flexible:
        reader.skip_tags()
    return node


def _read_topic(reader: FrameReader, version: int, flexible: bool) -> TopicMetadata:
    error_code = reader.int16()
    name = reader.nullable_string(flexible) or ""
    topic_id = reader.uuid() if version >= 10 else NO_TOPIC_ID
    is_internal = reader.boolean()
    length = reader.length(flexible)
    read = _read_flexible_partitions if flexible else _read_legacy_partitions
    try:
        partitions = read(reader, version, length)
    except (struct.error, IndexError) as error:
        raise reader.error(f"{length} partitions of topic {name!r} that end early") from error
    if version >= 8:
        reader.int32()
    if flexible:
        reader.skip_tags()
    return TopicMetadata(error_code, name, topic_id, is_internal, tuple(partitions))


@functools.lru_cache(maxsize=256)
def _int32s(length: int) -> struct.Struct:
    return struct.Struct(f">{length}i")


# The two loops below run once per partition of the cluster, 10,000 times and more: they unpack
# from the buffer themselves instead of asking the reader for every field.


def _read_flexible_partitions(
    reader: FrameReader, version: int, length: int
) -> list[PartitionMetadata]:
    data, offset = reader.data, reader.offset
    unpack, make = _PARTITION.unpack_from, PartitionMetadata._make
    partitions: list[PartitionMetadata] = []
    for _ in range(length):
        head = unpack(data, offset)
        offset += 14
        arrays = []
        for _array in range(3):
            size = data[offset] - 1
            if not 0 <= size < 0x7F:
                reader.seek(offset)
                size = reader.length(True)
                offset = reader.offset
            else:
                offset += 1
            arrays.append(_int32s(size).unpack_from(data, offset) if size else ())
            offset += 4 * size
        if data[offset]:
            reader.seek(offset)
            reader.skip_tags()
            offset = reader.offset
        else:
            offset += 1
        partitions.append(make((*head, *arrays)))
    reader.seek(offset)
    return partitions


def _read_legacy_partitions(
    reader: FrameReader, version: int, length: int
) -> list[PartitionMetadata]:
    data, offset = reader.data, reader.offset
    head_layout = _PARTITION if version >= 7 else _EPOCHLESS_PARTITION
    array_count = 3 if version >= 5 else 2
    partitions: list[PartitionMetadata] = []
    for _ in range(length):
        head = head_layout.unpack_from(data, offset)
        if version < 7:
            head = (*head, NO_EPOCH)
        offset += head_layout.size
        arrays: list[tuple[int, ...]] = []
        for _array in range(array_count):
            reader.seek(offset)
            size = reader.length(False)
            arrays.append(_int32s(size).unpack_from(data, reader.offset))
            offset += 4 + 4 * size
        if array_count == 2:
            arrays.append(())
        partitions.append(PartitionMetadata._make((*head, *arrays)))
    reader.seek(offset)
    return partitions
