"""How a peer may differ from a plain Kafka 4 broker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fastprod.protocol.api_keys import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    API_VERSIONS,
    END_TXN,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    METADATA,
    PRODUCE,
    TXN_OFFSET_COMMIT,
)
from support.peer.partition_log import Idempotence
from support.peer.received_batch import Check
from support.peer.script import Body

FETCH: Final = 1

Versions = Mapping[int, tuple[int, int] | None]

PEER_VERSIONS: Final[Mapping[int, tuple[int, int]]] = {
    # Kafka 4 lists Produce from 0 on and takes it from 3 on (contract P-G.5.6).
    PRODUCE: (0, 13),
    # Nothing fetches from a peer; librdkafka writes batches v2 only where Fetch is listed.
    FETCH: (4, 18),
    METADATA: (0, 13),
    FIND_COORDINATOR: (0, 6),
    API_VERSIONS: (0, 4),
    INIT_PRODUCER_ID: (0, 5),
    ADD_PARTITIONS_TO_TXN: (0, 3),
    ADD_OFFSETS_TO_TXN: (0, 4),
    END_TXN: (0, 5),
    TXN_OFFSET_COMMIT: (0, 5),
}

LOWEST_PRODUCE_VERSION: Final = 3


@dataclass(frozen=True)
class PeerOptions:
    """What `Peer` and `PeerCluster` take by keyword.

    Attributes:
        versions: (min, max) by API key, over `PEER_VERSIONS`; None: not offered at all.
        unsupported_body: how ApiVersions of an unknown version is refused (`Rule.unsupported`).
        features: finalized features in ApiVersions v3+, as {"transaction.version": 2}.
        features_epoch: their epoch.
        idempotence: "kafka" checks sequences as a broker does, which takes any first sequence of a
            producer it does not know; "strict" wants 0 there; "off" takes everything.
        check: "records" reads every record on arrival; "crc" only CRC and header: much faster.
        leader_hints: name the leader beside NOT_LEADER_OR_FOLLOWER (Produce v10+).
        max_message_bytes: larger batches get MESSAGE_TOO_LARGE; None: no limit.
        receive_buffer_bytes: SO_RCVBUF of accepted sockets; None: the system's. The kernel
            doubles it and has a minimum of about 2 KiB.
        advertised_host: host in Metadata, hints and FindCoordinator; None: 127.0.0.1.
    """

    versions: Versions | None = None
    unsupported_body: Body = "v0"
    features: Mapping[str, int] | None = None
    features_epoch: int = 0
    idempotence: Idempotence = "kafka"
    check: Check = "records"
    leader_hints: bool = True
    max_message_bytes: int | None = None
    receive_buffer_bytes: int | None = None
    advertised_host: str | None = None
